"""Filters of a chart's lists (period, state, kind, test, category) and their pages, from the query of an address."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

from engine.fhir.json import JsonObject
from engine.interchange.store.search.date import EVER, NEVER, span
from engine.interchange.web.viewer.naming import DAY, key_of, short_name, spoken
from engine.interchange.web.viewer.session import RefusedPageError

T = TypeVar("T")
Query = Mapping[str, str]
Options = list[tuple[str, str]]

SINCE: Final = "from"
UNTIL: Final = "to"
STATE: Final = "state"
KIND: Final = "kind"
TEST: Final = "test"
CATEGORY: Final = "category"
LONGEST_NUMBER: Final = 6


@dataclass(frozen=True, slots=True)
class DayRange:
    """A period in days; each end is open where it is ''."""

    since: str = ""
    until: str = ""

    def covers(self, start: str, end: str = "", *, lasting: bool = False) -> bool:
        """Say whether a time, or a stay from start to end, touches the period; `lasting`: it has no end yet.

        A time is of the day that it is written with, whatever its offset. What has none is in the open period only.
        """
        if not self.since and not self.until:
            return True
        first, last = span(start[:DAY]), span((end or start)[:DAY])
        if first is None or last is None:
            return False
        lower = (span(self.since) or (NEVER, NEVER))[0]
        upper = (span(self.until) or (EVER, EVER))[1]
        return first[0] <= upper and (lasting or last[1] >= lower)


def period_of(query: Query) -> DayRange:
    """Return the period that an address asks for; RefusedPageError (400) for what is no day."""
    period = DayRange(*(query.get(name, "").strip() for name in (SINCE, UNTIL)))
    for day in (period.since, period.until):
        if day and (span(day) is None or len(day) > DAY):
            raise RefusedPageError(400)
    return period


@dataclass(frozen=True, slots=True)
class Filtered:
    """A list with its filter: what matches of how many, the criteria in force, and the options of its choice."""

    items: list[JsonObject]
    total: int
    criteria: dict[str, str] = field(default_factory=dict)
    options: Options = field(default_factory=list)

    @property
    def said(self) -> str:
        """The criteria in words."""
        names = dict(self.options)
        chosen = ((name, names.get(text, text)) for name, text in self.criteria.items())
        return ", ".join(f"{name} {text}" for name, text in chosen)


def visits(records: Sequence[JsonObject], query: Query) -> Filtered:
    """Return the visits of a state and a period."""
    period, state = period_of(query), query.get(STATE, "")
    found = [
        one
        for one in records
        if state in {"", one.get("status", "")}
        and period.covers(
            one.get("start", ""), one.get("end", ""), lasting=visit_rank(one) == NOW and not one.get("end")
        )
    ]
    options = sorted({(code, spoken(code)) for one in records if (code := one.get("status", ""))})
    return Filtered(found, len(records), _criteria(query, STATE, SINCE, UNTIL), options)


def documents(records: Sequence[JsonObject], query: Query) -> Filtered:
    """Return the documents of a kind."""
    kind = query.get(KIND, "")
    found = [one for one in records if kind in {"", key_of(one.get("type"))}]
    options = _options(one["type"] for one in records if "type" in one)
    return Filtered(found, len(records), _criteria(query, KIND), options)


def results(reports: Sequence[JsonObject], query: Query) -> Filtered:
    """Return the reports that have results of a test, a category and a period, with these results alone."""
    period, category = period_of(query), query.get(CATEGORY, "")
    sought = query.get(TEST, "").strip().casefold()

    def matches(part: JsonObject, report: JsonObject) -> bool:
        named = (*report.get("categories", ()), *part.get("categories", ()))
        return (
            period.covers(part.get("effective", "") or report.get("effective", ""))
            and (not category or category in map(key_of, named))
            and sought in f"{_searchable(report.get('test', {}))} {_searchable(part)}"
        )

    found: list[JsonObject] = []
    for report in reports:
        results = report.get("observations", [])
        kept = [one for one in results if matches(one, report)]
        if kept or (not results and matches({}, report)):
            found.append({**report, "observations": kept})
    parts = [part for report in reports for part in (report, *report.get("observations", ()))]
    options = _options(one for part in parts for one in part.get("categories", ()))
    return Filtered(found, len(reports), _criteria(query, TEST, CATEGORY, SINCE, UNTIL), options)


@dataclass(frozen=True, slots=True)
class ListPage(Generic[T]):
    """One page of a list: its items, its number, how many pages there are, and how many items in all."""

    items: Sequence[T]
    number: int
    count: int
    total: int
    first: int

    @property
    def last(self) -> int:
        """The place of the last item, from 1."""
        return self.first + len(self.items) - 1


def page_of(items: Sequence[T], text: str, size: int) -> ListPage[T]:
    """Return the page whose number a text is; the first for what is no number, the last beyond the end."""
    count = max(1, -(-len(items) // size))
    given = int(text) if text.isascii() and text.isdigit() and len(text) <= LONGEST_NUMBER else 1
    number = min(max(given, 1), count)
    start = (number - 1) * size
    return ListPage(items[start : start + size], number, count, len(items), start + 1)


def _criteria(query: Query, *names: str) -> dict[str, str]:
    return {name: text for name in names if (text := query.get(name, "").strip())}


def _options(concepts: Iterable[JsonObject]) -> Options:
    """Return the choices of concepts, by name."""
    named = {key: name for one in concepts if (key := key_of(one)) and (name := short_name(one))}
    return sorted(named.items(), key=lambda option: option[1].casefold())


def _searchable(part: JsonObject) -> str:
    """Return the names and codes of a test and its components, in small letters."""
    parts = (part, *part.get("components", ()))
    return " ".join(str(one.get(name, "")) for one in parts for name in ("text", "display", "code")).casefold()


# States by what they mean now: in force, paused or not said, over, and never true.
NOW: Final = 0
UNSURE: Final = 1
OVER: Final = 2
WRONG: Final = 3

CLINICAL: Final = {
    **dict.fromkeys(("active", "recurrence", "relapse"), NOW),
    **dict.fromkeys(("inactive", "remission", "resolved"), OVER),
}
TAKEN: Final = {
    "active": NOW,
    **dict.fromkeys(("completed", "stopped", "cancelled", "not-taken"), OVER),
    "entered-in-error": WRONG,
}
GIVEN: Final = {"completed": NOW, "not-done": OVER, "entered-in-error": WRONG}
UNDER_WAY: Final = {
    **dict.fromkeys(("arrived", "triaged", "in-progress", "onleave"), NOW),
    **dict.fromkeys(("cancelled", "finished"), OVER),
    "entered-in-error": WRONG,
}
# Verification states of a record that is not true of the patient.
UNTRUE: Final = frozenset({"refuted", "entered-in-error"})

Rank = Callable[[JsonObject], int]


def clinical_rank(record: JsonObject) -> int:
    """Return the rank of a problem or an allergy."""
    if record.get("verificationStatus", "") in UNTRUE:
        return WRONG
    return CLINICAL.get(record.get("clinicalStatus", ""), UNSURE)


def medication_rank(record: JsonObject) -> int:
    """Return the rank of a medication."""
    return TAKEN.get(record.get("status", ""), UNSURE)


def immunization_rank(record: JsonObject) -> int:
    """Return the rank of an immunization."""
    return GIVEN.get(record.get("status", ""), UNSURE)


def visit_rank(record: JsonObject) -> int:
    """Return the rank of a visit."""
    return UNDER_WAY.get(record.get("status", ""), UNSURE)


def allergies_in_order(records: Iterable[JsonObject]) -> list[JsonObject]:
    """Return allergies: active first, of high risk before others."""
    return sorted(records, key=lambda record: (clinical_rank(record), record.get("criticality") != "high"))


def problems_in_order(records: Iterable[JsonObject]) -> list[JsonObject]:
    """Return problems: active first."""
    return sorted(records, key=clinical_rank)


def medications_in_order(records: Iterable[JsonObject]) -> list[JsonObject]:
    """Return medications: current first."""
    return sorted(records, key=medication_rank)


def immunizations_in_order(records: Iterable[JsonObject]) -> list[JsonObject]:
    """Return immunizations: those that were given first."""
    return sorted(records, key=immunization_rank)


def visits_in_order(records: Iterable[JsonObject]) -> list[JsonObject]:
    """Return visits: those in progress on top, then by their start, and those entered in error last."""
    latest = sorted(records, key=_start, reverse=True)
    return sorted(latest, key=lambda record: {NOW: 0, WRONG: 2}.get(visit_rank(record), 1))


def _start(record: JsonObject) -> int:
    covered = span(record.get("start", ""))
    return covered[0] if covered else NEVER
