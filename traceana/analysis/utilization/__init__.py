"""Used against requested resources, idle and shared GPUs, and the allocation of capacity."""
