"""Values as they stand in the query of a FHIR search."""

from collections.abc import Iterable
from typing import Final
from urllib.parse import quote

_ESCAPED: Final = str.maketrans({"\\": "\\\\", "|": "\\|", ",": "\\,", "$": "\\$"})


def escaped(text: str) -> str:
    """Return a value with the characters escaped that mean something in a search (FHIR search, 3.1.1.4)."""
    return text.translate(_ESCAPED)


def parameters(pairs: Iterable[tuple[str, str]]) -> str:
    """Return a search's parameters as they stand in a URL or in If-None-Exist, in ASCII."""
    return "&".join(f"{quote(name, safe='')}={quote(escaped(value), safe='')}" for name, value in pairs)
