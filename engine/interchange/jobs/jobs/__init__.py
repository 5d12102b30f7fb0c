"""Asynchronous work: asked for, kept, carried out beside the requests, and its answer fetched by a handle."""
