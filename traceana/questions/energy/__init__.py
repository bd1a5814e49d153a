"""Energy and time to accuracy."""
