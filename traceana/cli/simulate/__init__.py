"""``traceana simulate``: one function for each what-if."""
