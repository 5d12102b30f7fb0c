"""The service's process: ASGI application, reload, background work."""
