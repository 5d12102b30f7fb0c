"""What runs beside the commands in the engine's process: the watch, webhooks, the index of words."""
