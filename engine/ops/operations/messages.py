"""Operations that only read: lists, one entry, counts."""

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Final, Self

from pydantic import Field

from engine.clock import now
from engine.errors import UsageError
from engine.ops.access.actor import Permission
from engine.ops.audit.trail import Audited
from engine.ops.operations.fields import EntryNumber, Reason, Since, Text, Until, Word, number
from engine.ops.operations.filters import Filter, ListFilter, PageOf, Period, Search
from engine.ops.operations.operation import Confirm, Reading, ReadingMessages
from engine.ops.views.charting import Charts, chart_period, charted
from engine.ops.views.counts import Counts, JournalStatus, Throughput, counted, passed, status
from engine.ops.views.entry import Entry, EntryFacts, Raw
from engine.ops.views.exporting import ExportPage, exported
from engine.ops.views.unmapped import CodeValues, UnmappedCodes, unmapped, values
from engine.ops.views.view import FactsPage, RowPage, entry, facts, facts_of, raw, searched

DAY: Final = timedelta(days=1)
WEEK: Final = timedelta(days=7)
PRIVATE: Final = ("patient", "visit", "text")
MOST_POINTS: Final = 1000
Points = Annotated[int, number(1, MOST_POINTS), Field(json_schema_extra={"minimum": 0}), Audited.VALUE]


class ListMessages(ListFilter, PageOf, Reading[FactsPage]):
    """List entries, newest first, by filters without patient data."""

    name = "messages.list"
    permission = Permission.METADATA
    of_channel = True

    @classmethod
    def parse(cls, given: Mapping[str, object], *, written: bool = False) -> Self:
        """Refuse a filter that is about a patient, and name the operation that takes it."""
        if named := [name for name in PRIVATE if given.get(name)]:
            raise UsageError(
                f"the filter {named[0]} is about a patient: use messages.search, with a role that may see patients"
            )
        of_nobody = {name: value for name, value in given.items() if name not in PRIVATE}
        return super().parse(of_nobody, written=written)

    def read(self, folder: Path) -> FactsPage:
        """Return a page of entries."""
        return facts_of(searched(folder, self.filters(), self.limit, self.before))


class SearchMessages(Search, ReadingMessages[RowPage]):
    """Search entries, newest first, also by patient, visit or words in the message."""

    name = "messages.search"
    permission = Permission.PHI
    of_channel = True

    def read(self, folder: Path, charsets: Mapping[str, str] | None = None) -> RowPage:
        """Return a page of entries."""
        return searched(folder, self.filters(charsets), self.limit, self.before)


class ShowMessage(ReadingMessages[Entry]):
    """Show one entry in full: message, acknowledgement, deliveries with every request, the patient's lane."""

    name = "messages.show"
    permission = Permission.PHI

    entry: EntryNumber

    def read(self, folder: Path, charsets: Mapping[str, str] | None = None) -> Entry:
        """Return the entry; UnknownEntryError where there is none."""
        return entry(folder, self.entry, charsets)


class ShowRaw(Reading[Raw]):
    """Show the exact bytes of one entry's message."""

    name = "messages.raw"
    permission = Permission.PHI

    entry: EntryNumber

    def read(self, folder: Path) -> Raw:
        """Return the bytes; JournalError where retention took them."""
        return raw(folder, self.entry)


class ShowFacts(Reading[EntryFacts]):
    """Show one entry without patient data."""

    name = "messages.facts"
    permission = Permission.METADATA

    entry: EntryNumber

    def read(self, folder: Path) -> EntryFacts:
        """Return the facts; UnknownEntryError where there is no such entry."""
        return facts(folder, self.entry)


class ExportMessages(PageOf, ReadingMessages[ExportPage]):
    """Export messages, a page at a time; the audit trail keeps the reason."""

    name = "messages.export"
    permission = Permission.PHI
    confirm = Confirm.STEP_UP

    filter: Filter = Search()
    reason: Reason = ""

    def read(self, folder: Path, charsets: Mapping[str, str] | None = None) -> ExportPage:
        """Return a page of entries with their messages; UsageError where no reason is given."""
        if not self.reason.strip():
            raise UsageError("say why the messages are exported: --reason TEXT; the audit trail keeps it")
        return exported(folder, self.filter.filters(charsets), self.limit, self.before, charsets)


class Stats(Reading[JournalStatus]):
    """Count entries, and unfinished deliveries, by state."""

    name = "stats"
    permission = Permission.METADATA

    def read(self, folder: Path) -> JournalStatus:
        """Return the counts."""
        return status(folder)


class CountMessages(Period, Reading[Counts]):
    """Count entries by state now, and what was received and settled in a period (default: the last 24 hours)."""

    name = "messages.counts"
    permission = Permission.METADATA

    def read(self, folder: Path) -> Counts:
        """Return the counts."""
        return counted(folder, *self.period(DAY), now())


class ShowThroughput(Period, Reading[Throughput]):
    """Show what was received, settled and acknowledged in a period, as series of at most `points` buckets."""

    name = "messages.throughput"
    permission = Permission.METADATA

    channel: Word = ""
    points: Points = 180

    def read(self, folder: Path) -> Throughput:
        """Return the series."""
        return passed(folder, *self.period(DAY), self.points, self.channel)


class ShowCharts(Reading[Charts]):
    """Show how the last hour, day, week or month went, or a period: what came, ended, waited and how long it took.

    `since` and `until` name a period of the last 40 days; `until` alone the span that ends then.
    """

    name = "charts.show"
    permission = Permission.METADATA

    span: Word = Field("", description="1h (the default), 24h, 7d or 30d.")
    since: Since = None
    until: Until = None

    def read(self, folder: Path) -> Charts:
        """Return the series; UsageError for another span, or a period that charts do not show."""
        moment = now()
        return charted(folder, chart_period(self.span, self.since, self.until, moment), moment)


class ListUnmapped(Period, Reading[UnmappedCodes]):
    """List the fields that held codes missing from their table (default: the last 7 days)."""

    name = "codes.unmapped"
    permission = Permission.METADATA

    channel: Word = ""

    def read(self, folder: Path) -> UnmappedCodes:
        """Return the places, most frequent first."""
        return unmapped(folder, *self.period(WEEK), self.channel)


class ListCodeValues(Period, ReadingMessages[CodeValues]):
    """List the values found in such a field."""

    name = "codes.values"
    permission = Permission.PHI

    place: Text = ""

    def read(self, folder: Path, charsets: Mapping[str, str] | None = None) -> CodeValues:
        """Return the values; UsageError for what is not a field."""
        return values(folder, self.place, *self.period(WEEK), charsets)


MESSAGES: Final = (
    ListMessages, SearchMessages, ShowMessage, ShowRaw, ShowFacts, ExportMessages, Stats,
    CountMessages, ShowThroughput, ShowCharts, ListUnmapped, ListCodeValues,
)  # fmt: skip
