"""What a request for history asks: versions since a moment, how many a page has, or the next page."""

from dataclasses import dataclass
from typing import Final

from engine.interchange.everything.parameters import MOMENT
from engine.interchange.outcome import Category, RefusedError, refuse, repeatable
from engine.interchange.search.date import NEVER, span
from engine.interchange.search.page import Paging, Pairs, take_page

PAGES: Final = Paging()
FORM: Final = frozenset({"_format", "_pretty"})
SINCE: Final = "_since"
COUNT: Final = "_count"
CURSOR: Final = "_cursor"


@dataclass(frozen=True, slots=True)
class Question:
    """A first page of `count` versions made since a moment (milliseconds), or the page that `cursor` leads to.

    `form` are the parameters that the link to the next page keeps.
    """

    since_ms: int
    count: int
    cursor: str | None
    form: Pairs


def read_question(query: Pairs) -> Question:
    """Return what a query asks for; RefusedError (400) for what is unknown, repeated or malformed."""
    given: dict[str, str] = {}
    for name, value in query:
        if name not in {SINCE, COUNT, CURSOR, *FORM}:
            told = repeatable(name)
            text = f"The parameter {told} is not supported here; a history takes _since and _count."
            raise refuse(Category.UNSUPPORTED, text, location=f"http.{told}")
        if name in given and name not in FORM:
            raise _bad(name, f"{name} is given more than once.")
        given[name] = value
    if CURSOR in given and not given.keys() <= {CURSOR, *FORM}:
        raise _bad(CURSOR, "The link to the next page takes no further parameters; follow it as it was given.")
    page, _ = take_page(tuple(pair for pair in query if pair[0] == COUNT), PAGES)
    form = tuple(pair for pair in query if pair[0] in FORM)
    return Question(_moment(given.get(SINCE)), page.count, given.get(CURSOR), form)


def _moment(text: str | None) -> int:
    if text is None:
        return NEVER
    at = span(text) if MOMENT.fullmatch(text) else None
    if at is None:
        raise _bad(SINCE, "_since must be a moment, YYYY-MM-DDThh:mm:ssZ.")
    return at[0]


def _bad(name: str, text: str) -> RefusedError:
    return refuse(Category.BAD_VALUE, text, location=f"http.{name}")
