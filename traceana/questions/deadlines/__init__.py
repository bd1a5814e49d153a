"""Deadlines: published plans, their rules, and missed deadlines."""
