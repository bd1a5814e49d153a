"""Energy and time to accuracy, and what a better choice saves."""
