"""Any filters together, in pages of any size, against a model that looks at every entry."""

import asyncio
import contextlib
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.journal.entry import State
from engine.journal.journal import Journal
from engine.journal.opening import open_reader
from engine.journal.read.reading import Filters, Reader
from engine.journal.read.texts import Indexing, open_index
from engine.journal.write.backend import SharedJournal
from tests.journal.desk import NOW, Desk, settlement
from tests.tiers import trials

CHANNELS, SOURCES, EVENTS = ("adt", "lab", "er"), ("A|X", "B|X"), ("A01", "A08", "A40")
CONTROLS, VISITS, REASONS = ("1", "2", "3"), ("", "v1", "v2"), ("", "unchanged", "http-422")
NOTES = ((), ("stale",), ("unmapped-code PID-8", "stale"), ("unmapped-code PID-10",))
FLAGS = ((), ("conformance: 3",), ("control-id-reused",))
PATIENTS = ((), (("s|1",),), (("s|2", "t|2"),), (("s|3",), ("s|1",)))
NAMES = ("Quintero Ana", "Quintero Max", "Ng Ana")
ENTRIES = 150


@dataclass(frozen=True, slots=True)
class Known:
    """What the model knows of an entry."""

    seq: int
    state: State
    channel: str
    source: str
    event: str
    control_id: str
    visit: str
    reason: str
    marks: tuple[str, ...]
    patients: tuple[tuple[str, ...], ...]
    at_minutes: int
    name: str


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Known]]:
    """A journal of entries of every kind, half of it indexed, and what is known of them."""
    folder = tmp_path_factory.mktemp("model")
    return folder, asyncio.run(filled(folder))


async def filled(folder: Path, count: int = ENTRIES, shared: SharedJournal | None = None) -> list[Known]:
    """Fill the journal of a folder with entries of every kind, the same each time; return what is known of them."""
    choose = random.Random(7)
    journal = await Journal.open(folder, clock=lambda: NOW, fail=pytest.fail, shared=shared)
    desk, found = Desk(journal, folder, []), []
    for number in range(count):
        found.append(await _entry(desk, choose))
        if number == count // 2:
            with contextlib.closing(open_reader(folder)) as reading, contextlib.closing(open_index(folder)) as index:
                Indexing(reading, index).add()
    await journal.close()
    return found


async def _entry(desk: Desk, choose: random.Random) -> Known:
    state = choose.choice((State.DELIVERED, State.DELIVERED, State.HELD, State.REJECTED, State.FILTERED))
    at_door = state in {State.REJECTED, State.FILTERED}
    channel, source, event = choose.choice(CHANNELS), choose.choice(SOURCES), choose.choice(EVENTS)
    control, visit, patients = choose.choice(CONTROLS), choose.choice(VISITS), choose.choice(PATIENTS)
    flags, notes, reason = choose.choice(FLAGS), () if at_door else choose.choice(NOTES), choose.choice(REASONS)
    minutes, name, unique = choose.randrange(600), choose.choice(NAMES), choose.random()
    raw = f"MSH|^~\\&|||||||ADT^{event}|{control}|P|2.5.1\rPID|1||||{name.replace(' ', '^')}||{unique}\r".encode()
    recorded = await desk.journal.record(
        desk.entry(
            control, *patients, channel=channel, source=source, event=event, visit=visit, flags=flags, raw=raw,
            received_at=NOW + timedelta(minutes=minutes), reason=reason if at_door else "",
            state=state if at_door else State.RECEIVED,
        )
    )  # fmt: skip
    if not at_door:
        await desk.claim()
        end = settlement(recorded.seq, state, reason=reason, notes=notes, keep_lane=False)
        await desk.journal.settle(end)
    marks = (*recorded.flags, *notes)
    return Known(recorded.seq, state, channel, source, event, control, visit, reason, marks, patients, minutes, name)


def _marked(one: Known, code: str) -> bool:
    return any(mark == code or mark.startswith((f"{code} ", f"{code}:")) for mark in one.marks)


def _names(one: Known, patient: str) -> bool:
    keys = [key for group in one.patients for key in group]
    return patient in keys if "|" in patient else patient in [key.partition("|")[2] for key in keys]


HOLDS: dict[str, Callable[[Known, Any], bool]] = {
    **{
        name: lambda one, value, name=name: getattr(one, name) == value
        for name in ("state", "channel", "source", "event", "control_id", "visit", "reason")
    },
    "outcome": _marked,
    "patient": _names,
    "text": lambda one, text: set(text.lower().split()) <= set(one.name.lower().split()),
    "since": lambda one, since: NOW + timedelta(minutes=one.at_minutes) >= since,
    "until": lambda one, until: NOW + timedelta(minutes=one.at_minutes) < until,
}
MOMENTS = st.integers(-60, 660).map(lambda minutes: NOW + timedelta(minutes=minutes))
ASKED = st.fixed_dictionaries(
    {},
    optional={
        "state": st.sampled_from(list(State)),
        "channel": st.sampled_from([*CHANNELS, "none"]),
        "source": st.sampled_from([*SOURCES, "C|X"]),
        "event": st.sampled_from([*EVENTS, "A99"]),
        "control_id": st.sampled_from([*CONTROLS, "9"]),
        "visit": st.sampled_from([*VISITS[1:], "v9"]),
        "reason": st.sampled_from([*REASONS[1:], "none"]),
        "outcome": st.sampled_from(
            ["stale", "unmapped-code", "unmapped-code PID-8", "conformance", "unmapped", "none"]
        ),
        "patient": st.sampled_from(["s|1", "t|2", "1", "2", "s|9", "9"]),
        "text": st.sampled_from(["quintero", "ana quintero", "Ng", "giraffe"]),
        "since": MOMENTS,
        "until": MOMENTS,
    },
)


def test_the_model_knows_every_filter() -> None:
    """A filter that is added is tried here, too; `charsets` are how words are read, and choose nothing."""
    assert set(HOLDS) == {field.name for field in fields(Filters)} - {"charsets"}


@pytest.mark.property
@given(asked=ASKED, size=st.integers(1, 40))
@settings(max_examples=trials(150), deadline=None)
def test_pages_hold_what_every_filter_lets_through(
    known: tuple[Path, list[Known]], asked: dict[str, Any], size: int
) -> None:
    """Newest first, none missed, none twice, whatever is asked together."""
    folder, entries = known
    expected = [entry.seq for entry in entries if all(HOLDS[name](entry, value) for name, value in asked.items())][::-1]
    assert list(walked(folder, Filters(**asked), size)) == expected


def walked(folder: Path, filters: Filters, size: int) -> Iterator[int]:
    """Yield the numbers of all entries that filters let through, in pages of a size."""
    before = None
    with Reader(folder) as reader:
        while True:
            page = reader.page(filters, size, before)
            assert len(page.rows) <= size
            yield from (row.seq for row in page.rows)
            before = page.before
            if before is None:
                return
