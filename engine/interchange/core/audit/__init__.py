"""The access log of the service: what is recorded of each request, and how it is read."""
