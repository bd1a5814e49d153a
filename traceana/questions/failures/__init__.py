"""Failures: rates, competing risks, models and tests."""
