"""What the engine's commands have in common: they ask it, complete its names and show long work."""
