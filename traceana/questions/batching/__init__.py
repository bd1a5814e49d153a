"""Dynamic batching on heterogeneous workers."""
