"""Comparison of traces, or of parts of one."""
