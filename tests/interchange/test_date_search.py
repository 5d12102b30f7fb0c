"""Dates of searches against a naive model that counts half hours (C-235)."""

import asyncio
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from engine.fhir.schema import FhirVersion
from engine.interchange.rest.resource.catalogue import INDEXERS, KEPT
from engine.interchange.store.query import find
from engine.interchange.store.search.parse import parse_search
from engine.interchange.store.store import Store
from engine.interchange.store.transaction import Transaction

# The model's whole time, in half hours, so that a minute is shorter than its hour; whatever it holds is far enough
# inside for every zone.
FIRST = datetime(2024, 12, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)
HALF = HOUR / 2
HALVES = range(2 * 24 * 150)
ZONES = ("Z", "+02:00", "-05:00", "+13:00", "-09:00", "+05:00")


class Told(NamedTuple):
    """A date as it is written, and the half hours that it covers."""

    text: str
    halves: frozenset[int]


def halves_from(first: datetime, after: datetime) -> frozenset[int]:
    """Return the half hours of the model from one moment to before another."""
    return frozenset(range((first - FIRST) // HALF, (after - FIRST) // HALF))


def month_of(month: int) -> Told:
    """Return the nth month after the first one."""
    year, within = divmod(month - 1, 12)
    first = datetime(2025 + year, within + 1, 1, tzinfo=UTC)
    after = (first + timedelta(days=31)).replace(day=1)
    return Told(f"{first:%Y-%m}", halves_from(first, after))


def day_of(day: int) -> Told:
    """Return the nth day of the model."""
    first = FIRST + timedelta(days=day)
    return Told(f"{first:%Y-%m-%d}", halves_from(first, first + timedelta(days=1)))


def hour_of(hour: int, zone: str) -> Told:
    """Return one hour of the model, as the first minute of it in a time zone."""
    away = timedelta() if zone == "Z" else timedelta(hours=int(zone[:3]))
    local = FIRST + timedelta(hours=hour) + away
    return Told(f"{local:%Y-%m-%dT%H:00}{zone}", frozenset({2 * hour}))


dates = (
    st.integers(1, 3).map(month_of)
    | st.integers(40, 110).map(day_of)
    | st.builds(hour_of, st.integers(1000, 2600), st.sampled_from(ZONES))
)


class Dated(NamedTuple):
    """A resource with a date, and the half hours that it covers."""

    resource: dict[str, Any]
    halves: frozenset[int]


def _moment(told: Told) -> Dated:
    return Dated({"effectiveDateTime": told.text}, told.halves)


def _period(start: Told | None, end: Told | None) -> Dated:
    low = min(start.halves) if start else HALVES.start
    high = max(end.halves) if end else HALVES.stop - 1
    period = {name: told.text for name, told in (("start", start), ("end", end)) if told}
    return Dated({"effectivePeriod": period}, frozenset(range(low, high + 1)))


def _ordered(one: Told, other: Told) -> Dated:
    start, end = sorted((one, other), key=lambda told: (min(told.halves), max(told.halves)))
    return _period(start, end)


dated = (
    dates.map(_moment)
    | st.builds(_ordered, dates, dates)
    | st.builds(_period, dates, st.none())
    | st.builds(_period, st.none(), dates)
)

# What each prefix means, said in half hours: `asked` and `has` are those of the search and of the resource.
MEANS: dict[str, Callable[[frozenset[int], frozenset[int]], bool]] = {
    "": lambda asked, has: has <= asked,
    "eq": lambda asked, has: has <= asked,
    "ge": lambda asked, has: not has.isdisjoint(range(min(asked), HALVES.stop)),
    "gt": lambda asked, has: not has.isdisjoint(range(max(asked) + 1, HALVES.stop)),
    "le": lambda asked, has: not has.isdisjoint(range(HALVES.start, max(asked) + 1)),
    "lt": lambda asked, has: not has.isdisjoint(range(HALVES.start, min(asked))),
}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """A store for transactions that are undone."""
    found = Store(tmp_path_factory.mktemp("dates") / "s.db", ["t"], lambda: FIRST, INDEXERS)
    yield found
    found.close()


class UndoneError(Exception):
    """What a transaction found, before it is undone."""

    def __init__(self, found: dict[str, set[str]]) -> None:
        super().__init__()
        self.found = found


def matches(store: Store, resources: list[Dated], values: list[str]) -> dict[str, set[str]]:
    """Return by value of `date` the names of the observations that it finds; the store is left as it was."""
    parameters = KEPT["Observation"].search_parameters(FhirVersion.R4)

    def work(transaction: Transaction) -> None:
        for number, one in enumerate(resources):
            transaction.create("Observation", f"o{number}", {"resourceType": "Observation", **one.resource})
        found = {}
        for value in values:
            search = parse_search("Observation", parameters, [("date", value)], "http://x")
            found[value] = {record.id for record in find(transaction, search, count=100).records}
        raise UndoneError(found)

    with pytest.raises(UndoneError) as told:
        asyncio.run(store.write("t", work))
    return told.value.found


@settings(max_examples=60, deadline=None)
@example(resources=[_moment(month_of(2))], asked=hour_of(2159, "Z"), other=month_of(1))
@given(resources=st.lists(dated, min_size=1, max_size=12), asked=dates, other=dates)
def test_dates_mean_what_the_model_says(store: Store, resources: list[Dated], asked: Told, other: Told) -> None:
    """C-235: prefixes, partial dates, time zones and periods, open ones too, find what counted half hours do."""
    values = [prefix + asked.text for prefix in MEANS]
    either = f"gt{asked.text},lt{other.text}"
    found = matches(store, resources, [*values, either])
    expected = {
        prefix + asked.text: {f"o{n}" for n, one in enumerate(resources) if means(asked.halves, one.halves)}
        for prefix, means in MEANS.items()
    }
    later, earlier = MEANS["gt"], MEANS["lt"]
    expected[either] = {
        f"o{n}"
        for n, one in enumerate(resources)
        if later(asked.halves, one.halves) or earlier(other.halves, one.halves)
    }
    assert found == expected


def test_the_model_knows_both_answers(store: Store) -> None:
    """The model is no mirror: for one period it is worked out by hand."""
    period = _ordered(day_of(60), day_of(62))
    asked = day_of(61).text
    found = matches(store, [period], [prefix + asked for prefix in MEANS])
    assert {value for value, ids in found.items() if ids} == {f"{prefix}{asked}" for prefix in ("ge", "gt", "le", "lt")}
