"""Floor 6: asynchronous work."""
