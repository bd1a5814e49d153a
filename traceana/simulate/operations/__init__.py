"""Replay of training steps from their operations: what a step waits for."""
