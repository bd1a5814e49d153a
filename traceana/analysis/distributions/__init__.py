"""How runtimes are distributed: families fitted and compared, tails, and groups beside groups."""
