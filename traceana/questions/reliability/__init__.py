"""Reliability: how often machines fail, for how long, and what that means for a job."""
