"""A page of the entries that filters choose, newest first."""

from pathlib import Path
from typing import Annotated, Final

from engine.journal.read.reading import Reader
from engine.journal.read.views import Filters
from engine.ops.views.answer import Answer, Count, Time, known_as
from engine.ops.views.entry import Row, RowFacts
from engine.ops.views.view import row_facts

MOST_ROWS: Final = 1000
USUAL_ROWS: Final = 50


class Page(Answer, facts=True):
    """Where a page ends: `before` is for the next page, null where there is nothing older.

    `searched_back_to`: how far back was searched when the time for one answer ran out, null if it did not; there may be
    more, and `before` continues there.
    """

    before: Count | None
    searched_back_to: Time | None


class RowPage(Page):
    """A page of entries."""

    entries: Annotated[tuple[Row, ...], known_as("entries", "rows")]


class FactsPage(Page, facts=True):
    """A page of entries, without patient data."""

    entries: tuple[RowFacts, ...]


def searched(folder: Path, filters: Filters, limit: int = 0, before: int = 0) -> RowPage:
    """Return a page of at most 1,000 entries (50 for a limit of 0), with numbers below `before` where that is named."""
    with Reader(folder) as reader:
        page = reader.page(filters, min(limit or USUAL_ROWS, MOST_ROWS), before or None)
    return RowPage.of(page)


def facts_of(page: RowPage) -> FactsPage:
    """Return what of a page holds nothing of a patient."""
    return FactsPage.of(page, entries=tuple(map(row_facts, page.entries)))
