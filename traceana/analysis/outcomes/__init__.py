"""Runtimes and outcomes: rates, tests, models and competing risks."""
