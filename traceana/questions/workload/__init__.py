"""Workload: jobs, sizes, arrivals, waits, users and GPU-hours."""
