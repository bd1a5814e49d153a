"""Recurring jobs: groups, and energy optimization over recurrences."""
