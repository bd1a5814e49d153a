"""Stragglers: workers slower than their peers, persistently or for a period."""
