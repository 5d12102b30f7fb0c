"""The service's process: its application, its settings reread, its background work."""
