"""$everything against a naive model of it over random charts, and its queries against their indexes (points L)."""

import asyncio
import itertools
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.fhir.schema import FhirVersion
from engine.interchange.rest.everything import ChartPart, chart_keys, read_question, records
from engine.interchange.rest.resource.catalogue import INDEXERS
from engine.interchange.store.store import Store
from engine.interchange.store.transaction import StoredVersion, Transaction
from tests.interchange.chart import CHARTED, SUPPORTING, to
from tests.interchange.kit import patient
from tests.interchange.test_resource import least

pytestmark = pytest.mark.matrix

START = datetime(2025, 7, 1, 10, tzinfo=UTC)
FIRST = date(2025, 7, 1)
# The directory: each entry and what it refers to in turn.
DIRECTORY = {
    "Organization/system": (),
    "Organization/hospital": ("Organization/system",),
    "Organization/ring-a": ("Organization/ring-b",),
    "Organization/ring-b": ("Organization/ring-a",),
    "Location/house": ("Organization/hospital",),
    "Location/ward": ("Location/house", "Organization/ring-a"),
    "Practitioner/one": (),
    "Practitioner/two": (),
}
PARENTS = {"Organization": ("partOf",), "Location": ("partOf", "managingOrganization")}
# The element that holds the care date, for types that have one in these charts.
DATED = {
    "Observation": "effectivePeriod",
    "Encounter": "period",
    "Goal": "",
    "AllergyIntolerance": "",
    "Coverage": "period",
}
ORDER = ["Patient", *CHARTED, *SUPPORTING]


class Care(NamedTuple):
    """One resource of a chart: its days of care (None: open or undated), what it names, when it was changed last."""

    type: str
    first: int | None
    last: int | None
    names: tuple[str, ...]
    changed: int


class Filter(NamedTuple):
    """A request: types, days, and a moment as a tick of the clock."""

    types: tuple[str, ...] | None
    start: int | None
    end: int | None
    since: int | None

    def query(self) -> tuple[tuple[str, str], ...]:
        """Return it as a client asks it."""
        pairs = [("_type", ",".join(self.types))] if self.types else []
        pairs += [(name, day(at)) for name, at in (("start", self.start), ("end", self.end)) if at is not None]
        if self.since is not None:
            pairs.append(("_since", (START + timedelta(seconds=self.since)).isoformat().replace("+00:00", "Z")))
        return tuple(pairs)


days = st.none() | st.integers(0, 6)
ticks = st.integers(0, 5)


@st.composite
def cares(draw: st.DrawFn) -> Care:
    """Draw a resource of a chart."""
    first, last = draw(days), draw(days)
    if first is not None and last is not None and first > last:
        first, last = last, first
    names = draw(st.lists(st.sampled_from(sorted(DIRECTORY)), max_size=2))
    return Care(draw(st.sampled_from(sorted(DATED))), first, last, tuple(names), draw(ticks))


filters = st.builds(
    Filter,
    st.none() | st.lists(st.sampled_from([*sorted(DATED), "Patient", *SUPPORTING, "Binary"]), min_size=1).map(tuple),
    days,
    days,
    st.none() | ticks,
).filter(lambda one: one.start is None or one.end is None or one.start <= one.end)


def day(number: int) -> str:
    """Return a day as text."""
    return (FIRST + timedelta(days=number)).isoformat()


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """A store with the directory, made at tick 0 but for the ward, changed at tick 3."""
    found = Store(tmp_path_factory.mktemp("model") / "m.db", ["t"], lambda: START, INDEXERS)

    def work(transaction: Transaction) -> None:
        for reference, parents in DIRECTORY.items():
            type_name, _, name = reference.partition("/")
            elements = {
                element: to(parent) for element, parent in zip(PARENTS.get(type_name, ()), parents, strict=False)
            }
            if reference == "Location/house":
                elements = {"managingOrganization": to(parents[0])}
            made = transaction.create(type_name, name, {**least(type_name, ""), **elements})
            if reference == "Location/ward":
                transaction.at = START + timedelta(seconds=3)
                transaction.update(made, made.resource())
                transaction.at = START

    asyncio.run(found.write("t", work))
    yield found
    found.close()


def body(care: Care, patient_id: str) -> dict[str, Any]:
    """Return a resource of a chart; what it names stands in an extension, as a reference may stand anywhere."""
    made = least(care.type, patient_id)
    bounds = {name: day(at) for name, at in (("start", care.first), ("end", care.last)) if at is not None}
    if bounds and DATED[care.type]:
        made[DATED[care.type]] = bounds
    made["extension"] = [{"url": "urn:named", "valueReference": to(name)} for name in care.names]
    return made


def naive(chart: list[Care], wanted: Filter, patient_changed: int) -> list[str]:
    """Return what must come back, as `Type/name`; resources of the chart are named by their number."""
    changes = {"Patient/p": patient_changed, "Location/ward": 3}
    within = []
    for number, care in enumerate(chart):
        reference = f"{care.type}/{number}"
        changes[reference] = care.changed
        undated = not DATED[care.type] or (care.first is None and care.last is None)
        late = wanted.end is not None and care.first is not None and care.first > wanted.end
        early = wanted.start is not None and care.last is not None and care.last < wanted.start
        if undated or not (late or early):
            within.append(reference)
    named: set[str] = set()
    grow = {name for reference in within for name in chart[int(reference.partition("/")[2])].names}
    while grow - named:
        named |= grow
        grow = {parent for name in named for parent in DIRECTORY[name]}
    directory = sorted(named, key=list(DIRECTORY).index)
    found = [
        reference
        for reference in ["Patient/p", *within, *directory]
        if (wanted.types is None or reference.partition("/")[0] in wanted.types)
        and (wanted.since is None or changes.get(reference, 0) > wanted.since)
    ]
    return sorted(found, key=lambda reference: ORDER.index(reference.partition("/")[0]))


numbers = itertools.count()


def lay_in(store: Store, chart: list[Care], patient_changed: int) -> str:
    """Keep a chart of a new patient; return the patient's id."""
    name = f"p{next(numbers)}"

    def work(transaction: Transaction) -> None:
        transaction.at = START + timedelta(seconds=patient_changed)
        transaction.create("Patient", name, patient())
        for number, care in enumerate(chart):
            transaction.at = START + timedelta(seconds=care.changed)
            transaction.create(care.type, f"{name}-{number}", body(care, name))

    asyncio.run(store.write("t", work))
    return name


def gathered(patient_id: str, wanted: ChartPart) -> Callable[[Transaction], list[StoredVersion]]:
    """Return what reads all that is wanted of a chart."""

    def work(transaction: Transaction) -> list[StoredVersion]:
        found = transaction.get("Patient", patient_id)
        assert found is not None
        return records(transaction, found, chart_keys(transaction, found, wanted))

    return work


@given(st.lists(cares(), max_size=8), filters, ticks)
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_filters_agree_with_the_model(store: Store, chart: list[Care], wanted: Filter, patient_changed: int) -> None:
    """C-302 to C-310, C-314: any chart, any filters: the same resources as by the definition, in the same order."""
    name = lay_in(store, chart, patient_changed)
    asked = read_question(wanted.query(), FhirVersion.R4).wanted
    found = store.read("t", gathered(name, asked))
    said = [f"{one.type}/{one.id.removeprefix(f'{name}-')}".replace(f"Patient/{name}", "Patient/p") for one in found]
    assert said == naive(chart, wanted, patient_changed)


@pytest.mark.parametrize(
    "wanted",
    [
        ChartPart(),
        ChartPart(types=frozenset({"Observation"})),
        ChartPart(first_ms=0),
        ChartPart(last_ms=0, since_ms=0),
    ],
    ids=["all", "one type", "days", "days and changes"],
)
def test_every_query_is_held_to_its_index(store: Store, wanted: ChartPart) -> None:
    """C-318: nothing is read from end to end, and the keys of a chart come from one index alone."""
    name = lay_in(store, [Care("Observation", 1, 2, tuple(DIRECTORY), 0)], 0)
    asked: list[str] = []

    def work(transaction: Transaction) -> list[list[str]]:
        transaction.connection.set_trace_callback(asked.append)
        gathered(name, wanted)(transaction)
        transaction.connection.set_trace_callback(None)
        return [
            [row[3] for row in transaction.connection.execute(f"EXPLAIN QUERY PLAN {statement}")] for statement in asked
        ]

    plans = store.read("t", work)
    by_chart = [plan for plan in plans if any("COVERING INDEX reference_by_target" in step for step in plan)]
    assert len(by_chart) == (1 if wanted.types == frozenset({"Observation"}) else 2)
    for plan, statement in zip(plans, asked, strict=True):
        assert [step for step in plan if step.startswith("SCAN")] == [], statement
