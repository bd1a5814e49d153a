"""Distributions of runtimes: fits, tails and comparisons of groups."""
