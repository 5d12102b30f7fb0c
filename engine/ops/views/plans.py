"""An interaction of a plan in a few words: what it asks, and of what."""

from collections.abc import Mapping
from typing import Final

from engine.ops.views.answer import AnyJson

# The name of an interaction in JSON, and what belongs to it; how that is joined, where not by its own name.
INTERACTIONS: Final = (
    ("find", "if_absent"),
    ("keep", "if_absent"),
    ("retire", "within"),
    ("attest",),
    ("follow", "to"),
    ("merge", "into"),
    ("rename", "to"),
    ("move", "from"),
    ("link", "and"),
    ("unlink", "and"),
    ("upsert",),
)
JOINED: Final = {"if_absent": "; if absent: "}


def words_of(one: Mapping[str, AnyJson]) -> str:
    """Return in a few words what an interaction asks: its name, and what belongs to that."""
    name, *more = next(words for words in INTERACTIONS if words[0] in one)
    start = line_of(one[name]) if name == "upsert" else f"{name} {line_of(one[name])}"
    return start + "".join(f"{JOINED.get(word, f' {word} ')}{line_of(one[word])}" for word in more)


def line_of(value: AnyJson) -> str:
    """Return a value of a plan in one line."""
    if isinstance(value, list):
        return "; ".join(line_of(part) for part in value)
    return "yes" if value is True else str(value)
