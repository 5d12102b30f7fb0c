"""Asynchronous jobs: requested, worked on by a queue worker, and answered by their handles."""
