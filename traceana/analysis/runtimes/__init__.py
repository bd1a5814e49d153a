"""How long tasks ran, which GPU-hours that implies, and how runtimes recur."""
