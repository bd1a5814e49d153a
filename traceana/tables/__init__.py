"""Declared result tables, and their formatting."""
