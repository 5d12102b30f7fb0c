"""Subscriptions: their rules, what they are matched with in each write, and what makes them end."""
