"""Style, labels, registry and output of figures."""
