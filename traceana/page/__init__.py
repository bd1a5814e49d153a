"""Blocks and sections of a page."""
