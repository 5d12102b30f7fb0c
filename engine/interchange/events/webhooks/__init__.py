"""Webhooks: the delivery of events to subscribers."""
