"""Speed and memory beside peers, in the same run; not collected by pytest."""
