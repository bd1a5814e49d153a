"""Stragglers and variation of step times across workers."""
