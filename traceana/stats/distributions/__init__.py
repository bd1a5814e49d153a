"""Distributions of durations: fits, comparisons, goodness of fit and tails."""
