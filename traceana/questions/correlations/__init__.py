"""Correlations of failure and runtime with requested resources."""
