"""The criteria of a Subscription."""
