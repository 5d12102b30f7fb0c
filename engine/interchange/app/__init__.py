"""Floor 12: the service put together: its process, its settings reread, its tables of work."""
