"""What a training step waits for: replay of its operations."""
