"""Batch and transaction: a Bundle of requests, each for itself, or all in one commit."""
