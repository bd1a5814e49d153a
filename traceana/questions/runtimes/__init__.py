"""Runtimes: distributions, ratios, and runtimes of tasks."""
