"""Which entries a request means: the filters that lists, searches, exports and bulk replays share, and periods."""

import dataclasses
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Annotated, Final, Self

from pydantic import BeforeValidator, model_validator

from engine.errors import MalformedRequestError, UsageError
from engine.journal.entry import State
from engine.journal.read.selecting import Selection
from engine.journal.read.views import Filters
from engine.journal.read.wording import Phrases
from engine.ops.operations.fields import Count, EntryNumbers, Moment, Patient, ReasonCode, StateName, Text, Word, now
from engine.ops.operations.operation import Request

FILTERS: Final = frozenset(one.name for one in dataclasses.fields(Filters))


class EntryFilter(Request):
    """What every selection of entries may name; all together must be true.

    `since`, `until`: received then or later, before then.
    """

    state: StateName = None
    channel: Word = ""
    event: Word = ""
    reason: ReasonCode = ""
    since: Moment = None
    until: Moment = None


class ListFilter(EntryFilter):
    """Filters that hold nothing of a patient. `outcome`: a note, a flag, or a code of an OperationOutcome."""

    source: Word = ""
    control_id: Word = ""
    outcome: Word = ""

    def filters(self) -> Filters:
        """Return the filters as the journal takes them; UsageError for a text without a word to look for."""
        return Filters(**{name: value for name, value in self if name in FILTERS})


class SearchFilter(ListFilter):
    """All filters. `text`: words that the message holds, each whole or as `begin*`."""

    patient: Patient = ""
    visit: Text = ""
    text: Text = ""

    @model_validator(mode="after")
    def _has_words(self) -> Self:
        if self.text and not Phrases(self.text):
            raise UsageError("--text holds no word to look for: letters and digits, `word*` for how one begins")
        return self


class PageOf(Request):
    """Which page of a list: numbers below `before`, at most `limit`; zero for neither."""

    before: Count = 0
    limit: Count = 0


class Search(SearchFilter, PageOf):
    """All filters, and which page of what they choose."""


def _search(value: object) -> Search:
    if not isinstance(value, Search | Mapping):
        raise MalformedRequestError("filter is what messages.search takes, as an object")
    return value if isinstance(value, Search) else Search.parse(value)


Filter = Annotated[Search, BeforeValidator(_search)]


class ReplayFilter(EntryFilter):
    """Which entries a bulk replay is about: `entries` by their numbers, or those that filters choose.

    `destination`: only there; an entry that was never given to it is given to it now, which fills a new destination.
    """

    entries: EntryNumbers = ()
    patient: Patient = ""
    destination: Word = ""

    def selection(self, state: State | None = None) -> Selection:
        """Return which entries are meant, of a state where the request names none."""
        return Selection(
            entries=self.entries,
            state=self.state or state,
            channel=self.channel,
            event=self.event,
            patient=self.patient,
            reason=self.reason,
            destination=self.destination,
            since=self.since,
            until=self.until,
        )


class Period(Request):
    """A time: so long until now where neither end is named."""

    since: Moment = None
    until: Moment = None

    def period(self, length: timedelta) -> tuple[datetime, datetime]:
        """Return beginning and end; UsageError where there is nothing in between."""
        until = self.until or now()
        since = self.since or until - length
        if since >= until:
            raise UsageError("--since is not before --until: there is nothing in between")
        return since, until
