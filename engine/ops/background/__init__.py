"""What runs next to the pipeline in the engine's process: the watch, webhooks, the index of words."""
