"""The parameters of every list, `limit` and `offset`, and the search parameters of patients."""

from typing import Final

from engine.interchange.kernel.outcome import Category, RefusedError, refuse, unsupported
from engine.interchange.store.search.page import Pairs
from engine.interchange.web.chart.rows import RowRange

LIMIT: Final = "limit"
OFFSET: Final = "offset"
USUAL: Final = 20
MOST: Final = 100
# Maximum offset.
FARTHEST: Final = 999_999_999
# The search parameters of patients, FHIR's, with a description of each.
SEARCHED: Final = {
    "name": "Any part of the name, by its beginning",
    "family": "The family name, by its beginning",
    "given": "A given name, by its beginning",
    "birthdate": "The day of birth, YYYY-MM-DD, or with a prefix: ge1984, le1990-01",
    "gender": "male, female, other or unknown",
    "identifier": "A number, or system|number",
    "phone": "A telephone number",
    "email": "An e-mail address",
}


def take_part(query: Pairs) -> tuple[RowRange, Pairs]:
    """Return the requested range of a list and the other parameters; RefusedError (400) for an invalid value."""
    given = dict(query)
    for name in given:
        if [other for other, _ in query].count(name) > 1:
            raise refuse(Category.BAD_VALUE, "A parameter is given more than once.", location="http.query")
    limit = _whole(given.get(LIMIT, str(USUAL)), LIMIT, 1, MOST)
    offset = _whole(given.get(OFFSET, "0"), OFFSET, 0, FARTHEST)
    return RowRange(limit, offset), tuple(pair for pair in query if pair[0] not in {LIMIT, OFFSET})


def as_search(query: Pairs) -> Pairs:
    """Return a query for patients as a FHIR query; RefusedError (400) for a parameter that is not supported."""
    part, criteria = take_part(query)
    for name, _ in criteria:
        if name not in SEARCHED:
            raise unsupported(name)
    return (*criteria, ("_count", str(part.limit)), ("_offset", str(part.offset)))


def _whole(text: str, name: str, least: int, most: int) -> int:
    number = int(text) if text.isascii() and text.isdigit() and len(text) <= len(str(FARTHEST)) else -1
    if not least <= number <= most:
        raise _wrong(name, least, most)
    return number


def _wrong(name: str, least: int, most: int) -> RefusedError:
    return refuse(Category.BAD_VALUE, f"{name} is a whole number from {least} to {most}.", location=f"http.{name}")
