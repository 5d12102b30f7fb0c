"""What a request for history asks: versions since a moment, how many a page has, or the next page."""

from dataclasses import dataclass
from typing import Final

from engine.interchange.kernel.outcome import Category, RefusedError, refuse, unsupported
from engine.interchange.store.search.date import read_since
from engine.interchange.store.search.page import FORMAT, PART, Paging, Pairs, take_page

PAGES: Final = Paging()
SINCE: Final = "_since"
COUNT: Final = "_count"
CURSOR: Final = "_cursor"
# How an answer is written, and what of each version: what the link to the next page keeps.
FORM: Final = FORMAT | PART


@dataclass(frozen=True, slots=True)
class HistoryRequest:
    """A first page of `count` versions made since a moment (milliseconds), or the page that `cursor` leads to.

    `form` are the parameters that the link to the next page keeps.
    """

    since_ms: int
    count: int
    cursor: str | None
    form: Pairs


def read_question(query: Pairs) -> HistoryRequest:
    """Return what a query asks for; RefusedError (400) for what is unknown, repeated or malformed."""
    given: dict[str, str] = {}
    for name, value in query:
        if name not in {SINCE, COUNT, CURSOR, *FORM}:
            raise unsupported(name, "; a history takes _since, _count, _elements and _summary")
        if name in given and name not in FORMAT:
            raise _bad(name, f"{name} is given more than once.")
        given[name] = value
    if CURSOR in given and not given.keys() <= {CURSOR, *FORM}:
        raise _bad(CURSOR, "The link to the next page takes no further parameters; follow it as it was given.")
    page, _ = take_page(tuple(pair for pair in query if pair[0] == COUNT), PAGES)
    count = 0 if given.get("_summary") == "count" else page.count
    form = tuple(pair for pair in query if pair[0] in FORM)
    return HistoryRequest(read_since(given.get(SINCE)), count, given.get(CURSOR), form)


def _bad(name: str, text: str) -> RefusedError:
    return refuse(Category.BAD_VALUE, text, location=f"http.{name}")
