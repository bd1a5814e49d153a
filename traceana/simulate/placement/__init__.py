"""Placement of jobs that share GPUs on the machines of a cluster."""
