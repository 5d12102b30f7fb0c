"""The command that runs the engine, with its surfaces."""
