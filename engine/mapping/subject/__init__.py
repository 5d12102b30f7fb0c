"""The subject of a message, and the rule of its event."""
