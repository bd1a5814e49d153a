"""Jobs: sizes, arrivals and requested resources."""
