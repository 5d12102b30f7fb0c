"""The admin socket: how commands reach the running engine."""
