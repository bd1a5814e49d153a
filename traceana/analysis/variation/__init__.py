"""Variation of iteration times across the workers of a job."""
