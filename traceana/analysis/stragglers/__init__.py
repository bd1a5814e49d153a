"""Workers slower than their peers: always, or for a stretch."""
