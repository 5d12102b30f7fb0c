"""Floor 4: the service, a request, its answer, and the access log."""
