"""Used versus requested resources, idle and shared GPUs, and the allocation of capacity."""
