"""Recurring jobs that choose their batch size and power limit anew each time (Zeus, NSDI'23)."""
