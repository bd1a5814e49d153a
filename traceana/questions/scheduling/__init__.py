"""Scheduling: how jobs wait and where they are placed, under other policies."""
