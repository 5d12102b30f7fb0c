"""What the service keeps, on disk before it answers."""
