"""Subscriptions: their rules, the matching of each write, and their end."""
