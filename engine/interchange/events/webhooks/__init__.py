"""Webhooks: events on their way to those who subscribed to them."""
