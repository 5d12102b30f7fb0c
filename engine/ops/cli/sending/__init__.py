"""Commands that make and send messages."""
