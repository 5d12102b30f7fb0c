"""What the parts of the service tell each other of jobs."""
