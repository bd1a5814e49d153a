"""Utilization: used and requested resources, allocation and sharing."""
