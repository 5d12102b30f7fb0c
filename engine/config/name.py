"""The names of channels, destinations and doors: they stand in metrics, URLs and commands."""


def check_name(text: str) -> str:
    """Return a channel's or destination's name; ValueError where it is not 1 to 64 letters, digits, - and _."""
    if not (0 < len(text) <= 64 and text.isascii() and text.replace("-", "").replace("_", "x").isalnum()):
        raise ValueError("a name is 1 to 64 letters, digits, - and _")
    return text
