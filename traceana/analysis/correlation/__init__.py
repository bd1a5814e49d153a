"""Correlations of a trace's columns, and what a published one implies."""
