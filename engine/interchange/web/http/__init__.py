"""The HTTP endpoints: addresses, headers, media types, answers."""
