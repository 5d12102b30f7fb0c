"""JSON that is kept for long."""


def lasting(text: bytes) -> bytes:
    """Return a copy of its own length of what orjson returned, which holds 4 KiB however short it is."""
    return bytes(memoryview(text))
