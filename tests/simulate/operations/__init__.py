"""Tests of the replay of operations."""
