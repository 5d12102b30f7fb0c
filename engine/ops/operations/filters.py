"""Which entries a request means: the filters that lists, searches, exports and bulk replays share, and periods."""

import dataclasses
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Annotated, Final, Self

from pydantic import BeforeValidator, Field, model_validator

from engine.clock import now
from engine.errors import MalformedRequestError, UsageError
from engine.journal.entry import StateFilter
from engine.journal.read.selecting import Selection
from engine.journal.read.views import Filters
from engine.journal.read.wording import Phrases
from engine.ops.operations.fields import Count, EntryNumbers, Patient, ReasonCode, Since, StateName, Text, Until, Word
from engine.ops.operations.operation import Request

FILTERS: Final = frozenset(field.name for field in dataclasses.fields(Filters))


class EntryFilter(Request):
    """What every selection of entries may name; all together must be true.

    `since`, `until`: received then or later, before then.
    """

    state: StateName = Field(
        None,
        description="Only in this state: received, waiting, delivered, filtered, held, rejected …; "
        "failed: held anywhere, or rejected by a destination.",
    )
    channel: Word = Field("", description="Only of this channel.")
    event: Word = Field("", description="Only of this trigger event, such as A40.")
    reason: ReasonCode = Field("", description="Only held, rejected, filtered … for this reason.")
    since: Since = None
    until: Until = None


class ListFilter(EntryFilter):
    """Filters that hold nothing of a patient. `outcome`: a note, a flag, or a code of an OperationOutcome."""

    source: Word = Field("", description="Only from this sender: MSH-3|MSH-4.")
    control_id: Word = Field("", description="Only with this MSH-10, as it came in or as a relay sent it on.")
    outcome: Word = Field("", description="Only with this note, flag or outcome code, such as possible-duplicate.")

    def filters(self, charsets: Mapping[str, str] | None = None) -> Filters:
        """Return the filters as the journal takes them, with the sets in which channels' messages are read."""
        return Filters(**{name: value for name, value in self if name in FILTERS}, charsets=charsets or {})


class SearchFilter(ListFilter):
    """All filters. `text`: words that the message holds, each whole or as `begin*`."""

    patient: Patient = ""
    visit: Text = Field("", description="Only of this visit number.")
    text: Text = Field("", description="Only holding all these words; `word*` matches a prefix.")

    @model_validator(mode="after")
    def _has_words(self) -> Self:
        if self.text and not Phrases(self.text):
            raise UsageError("--text holds no word to look for: letters and digits, `word*` for how one begins")
        return self


class PageOf(Request):
    """Which page of a list: numbers below `before`, at most `limit`; zero for neither."""

    before: Count = Field(0, description="Only with a smaller number: the next page.")
    limit: Count = Field(0, description="How many to show, newest first.")


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
    state: StateName = Field(None, description="Only in this state; default: delivered.")
    patient: Patient = ""
    destination: Word = Field("", description="Only at this destination; fills a new one.")

    def selection(self, state: StateFilter | None = None) -> Selection:
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
    """A period: by default from a while ago, as each operation says, until now."""

    since: Since = None
    until: Until = None

    def period(self, length: timedelta) -> tuple[datetime, datetime]:
        """Return beginning and end; UsageError where there is nothing in between."""
        until = self.until or now()
        since = self.since or until - length
        if since >= until:
            raise UsageError("--since is not before --until: there is nothing in between")
        return since, until
