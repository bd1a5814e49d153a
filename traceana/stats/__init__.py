"""Arrays in, numbers out: the statistics that every other room uses."""
