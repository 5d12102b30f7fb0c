"""Commands that run a process: the engine, the service."""
