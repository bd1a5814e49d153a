"""Philly: numbers of jobs in several texts."""
