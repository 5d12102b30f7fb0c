"""Delimiters: the characters that MSH-1 and MSH-2 declare, and what a sparing or careless MSH-2 means."""

from functools import lru_cache
from typing import Final, NamedTuple

from engine.errors import UnreadableMessageError

USUAL: Final = "^~\\&"
NEVER: Final = "\udfff"
"""Takes the place of a delimiter that was not declared where text is cut: no decoder ever yields a lone surrogate."""


class Delimiters(NamedTuple):
    """The delimiters of one message; '' where one was not declared, so that its usual character is plain text."""

    field: str
    component: str
    repetition: str
    escape: str
    subcomponent: str
    truncation: str

    @property
    def cuts(self) -> tuple[str, str, str, str]:
        """Repetition, component, subcomponent and escape as non-empty strings that are safe to search and split by."""
        return (
            self.repetition or NEVER,
            self.component or NEVER,
            self.subcomponent or NEVER,
            self.escape or NEVER,
        )


STANDARD: Final = Delimiters("|", "^", "~", "\\", "&", "")


def is_delimiter(character: str) -> bool:
    """Tell whether a character may delimit: printable, and neither a letter, a digit nor a space."""
    return len(character) == 1 and character.isprintable() and not character.isalnum() and not character.isspace()


@lru_cache(maxsize=256)
def delimiters_of(field: str, encoding: str) -> Delimiters:
    """Read the delimiters from MSH-1 and the raw text of MSH-2.

    An empty MSH-2 means the usual characters. One of fewer than four that are all usual ones is read by meaning
    (`^~&` declares no escape), else by position. A character declared twice keeps its first role. What follows the
    fifth is ignored. Raises UnreadableMessageError for a letter, digit, space or control character (chapter 2,
    message delimiters).
    """
    if not is_delimiter(field):
        raise UnreadableMessageError("MSH-1 is not a usable field separator")
    declared = encoding[:5] or USUAL
    if not all(map(is_delimiter, declared)):
        raise UnreadableMessageError("MSH-2 holds a letter, digit, space or control character as delimiter")
    seen = {field}
    found: list[str] = []
    for character in _by_position(declared):
        found.append("" if character in seen else character)
        seen.add(character)
    component, repetition, escape, subcomponent, truncation = found
    return Delimiters(field, component, repetition, escape, subcomponent, truncation)


def _by_position(declared: str) -> list[str]:
    """Spread the declared characters over component, repetition, escape, subcomponent and truncation."""
    rest = declared[1:]
    if len(rest) < len(USUAL[1:]) and all(character in USUAL[1:] for character in rest):
        return [declared[0], *(usual if usual in rest else "" for usual in USUAL[1:]), ""]
    return [*declared, *[""] * (5 - len(declared))]
