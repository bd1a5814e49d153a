"""Dynamic batching on heterogeneous workers, after Tyagi and Sharma (ACSOS'20)."""
