"""Text as searches compare it: folded strings, and values with FHIR's escapes taken apart."""

import re
import unicodedata
from collections.abc import Iterator
from hashlib import sha256
from typing import Final

HIGHEST: Final = "\U0010ffff"
# Characters of a text that an index holds: two such texts fit the 2,704 bytes of an index entry of PostgreSQL.
LONGEST: Final = 300
# Separators between the digits of a telephone number.
GROUPING: Final = re.compile(r"[\s().-]+")


def fold(text: str) -> str:
    """Return a text without case, accents and outer blanks."""
    if text.isascii():
        return text.strip().lower()
    apart = unicodedata.normalize("NFKD", text.strip())
    return "".join(character for character in apart if not unicodedata.combining(character)).casefold()


def contact(text: str) -> str:
    """Return a telephone number without what groups its digits, any other address of a contact without case."""
    folded = text.strip().lower()
    return folded if "@" in folded or "/" in folded else GROUPING.sub("", folded)


def short(text: str) -> str:
    """Return a code, value or system as an index holds it: a long one by its beginning and its SHA-256."""
    if len(text) <= LONGEST:
        return text
    return text[: LONGEST - 64] + sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def split(value: str, separator: str) -> list[str]:
    r"""Return the parts of a value between separators that no backslash escapes; the escapes stay."""
    if "\\" not in value:
        return value.split(separator)
    parts: list[str] = [""]
    for piece in _pieces(value):
        if piece == separator:
            parts.append("")
        else:
            parts[-1] += piece
    return parts


def unescape(value: str) -> str:
    r"""Return a value with `\,` `\|` `\$` and `\\` unescaped."""
    if "\\" not in value:
        return value
    return "".join(piece[1] if len(piece) == 2 and piece[1] in ",|$\\" else piece for piece in _pieces(value))


def _pieces(value: str) -> Iterator[str]:
    at = 0
    while at < len(value):
        width = 2 if value[at] == "\\" and at + 1 < len(value) else 1
        yield value[at : at + width]
        at += width
