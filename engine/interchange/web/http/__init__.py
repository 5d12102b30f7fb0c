"""The door: addresses, headers, media types, answers."""
