"""Every read gives the same on PostgreSQL, the newest and the oldest, as on SQLite, however the server plans it."""

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.database.connection import Connection
from engine.database.postgresql import connect
from engine.journal.entry import State
from engine.journal.journal import Journal
from engine.journal.opening import ADDRESS_FILE, open_reader
from engine.journal.read import backlog, counting, holding, lineage
from engine.journal.read.dry_runs import shadowed
from engine.journal.read.patients import patients
from engine.journal.read.reading import Filters, Reader
from engine.journal.read.selecting import Selection, select
from engine.journal.state.rollup import roll_up
from tests.journal.conftest import node
from tests.journal.desk import NOW, Desk, settlement
from tests.journal.read.test_search_model import ASKED, EVENTS, NOTES, REASONS, filled, walked
from tests.postgresql import new_database, oldest, running_postgres

ENTRIES: Final = 300
LATER: Final = NOW + timedelta(hours=11)
# Settings by which a planner joins in another order than the one in which the text names the tables.
PLANS: Final = ("", "enable_nestloop=off", "enable_hashjoin=off -c enable_indexscan=off")


async def _more(desk: Desk) -> None:
    """Add what the model does without: two destinations, lanes that are united, what waits, replays, dry runs."""
    for number in range(12):
        one = (f"m|{number % 5}",)
        await desk.record(f"w{number}", one, destinations=("d", "e"), received_at=LATER)
    await desk.record("u", ("m|1", "m|2"), ("m|3",), destinations=("d", "e"), event="A40", unite=True)
    for _ in range(3):
        for claim in await desk.claim(2, "e"):
            await desk.deliver(claim.seq, destination="e", notes=("stale",))
    for claim in await desk.claim(3):
        await desk.journal.settle(settlement(claim.seq, State.HELD, reason="would-merge", keep_lane=True))
    delivered = (await desk.claim(1, "e"))[0].seq
    await desk.journal.settle(settlement(delivered, State.FILTERED, "e", reason="shadow", plan=b'{"rehearsal": {}}'))
    await desk.release((await desk.journal.read(_first_held)), by="somebody")


def _first_held(connection: Connection) -> int:
    return int(connection.execute("SELECT MIN(seq) FROM delivery WHERE state = 'held'").fetchone()[0])


async def _made(folder: Path, **shared: Any) -> None:
    await filled(folder, ENTRIES, **shared)
    journal = await Journal.open(folder, clock=lambda: NOW, fail=pytest.fail, **shared)
    await _more(Desk(journal, folder, []))
    for _ in range(3):
        await journal.write(partial(roll_up, waits={}, depths={"d": 7}, begun=NOW, now=LATER + timedelta(days=1)))
    await journal.close()


@pytest.fixture(scope="module")
def lite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the entries in SQLite's file."""
    folder = tmp_path_factory.mktemp("lite")
    asyncio.run(_made(folder))
    return folder


@pytest.fixture(scope="module", params=["newest", "oldest"])
def shared(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with the same entries in PostgreSQL, whose planner knows how many there are."""
    folder = tmp_path_factory.mktemp("shared")
    programs = oldest() if request.param == "oldest" else None
    with running_postgres(programs) as server, new_database(server) as address:
        asyncio.run(_made(folder, shared=node(address, folder)))
        with contextlib.closing(connect(address)) as connection:
            connection.raw("ANALYZE")
        yield folder


@pytest.fixture(params=PLANS)
def planned(request: pytest.FixtureRequest, shared: Path) -> Iterator[Path]:
    """The same folder, read by plans of one kind."""
    with _by(shared, request.param):
        yield shared


@contextlib.contextmanager
def _by(folder: Path, plans: str) -> Iterator[None]:
    """Let whoever reads a folder's journal do so by plans of one kind."""
    file = folder / ADDRESS_FILE
    address = file.read_text()
    file.write_text(f"{address.strip()}&options={quote(f'-c {plans}')}" if plans else address)
    try:
        yield
    finally:
        file.write_text(address)


@given(asked=ASKED, size=st.integers(3, 60), plans=st.sampled_from(PLANS))
@settings(max_examples=40)
def test_pages_of_all_filters_are_the_same(
    lite: Path, shared: Path, asked: dict[str, Any], size: int, plans: str
) -> None:
    """The newest first, none missed, none twice, whatever is asked together, in pages of any size."""
    with _by(shared, plans):
        assert list(walked(shared, Filters(**asked), size)) == list(walked(lite, Filters(**asked), size))


def test_lists_are_the_same(lite: Path, planned: Path) -> None:
    """Whole rows, by every filter alone."""
    filters = [
        Filters(),
        *(Filters(state=state) for state in State),
        *(Filters(event=event) for event in EVENTS),
        *(Filters(reason=reason) for reason in REASONS if reason),
        *(Filters(outcome=note) for notes in NOTES for note in notes),
    ]
    with Reader(lite) as mine, Reader(planned) as theirs:
        for one in filters:
            for size in (1, 7, 200):
                assert theirs.list(one, size) == mine.list(one, size)


def test_entries_and_counts_are_the_same(lite: Path, planned: Path) -> None:
    """One entry in full, what surrounds it, counts of all, of a time, and of notes."""
    until = LATER + timedelta(hours=1)
    reads: list[Callable[[Reader], Any]] = [
        *(partial(Reader.show, seq=seq) for seq in range(1, ENTRIES + 14, 4)),
        *(partial(Reader.neighbours, seq=seq, most=5) for seq in range(1, ENTRIES + 14, 29)),
        Reader.stats,
        *(partial(Reader.traffic, since=NOW, until=until, bucket_seconds=size) for size in (60, 3600, 86_400)),
        *(partial(_rolled, width=width, since=NOW, until=until) for width in (60, 600, 3600, 21_600)),
        *(partial(Reader.noted, code=code, since=None, until=until) for code in ("stale", "unmapped-code")),
        partial(Reader.bodies_noted, note="stale", since=NOW, until=None, most=30),
    ]
    with Reader(lite) as mine, Reader(planned) as theirs:
        for read in reads:
            assert read(theirs) == read(mine), read


def _rolled(reader: Reader, **asked: Any) -> Any:
    """Return rolled-up counts, whose order says nothing."""
    return sorted(reader.rolled(**asked))


def test_selections_are_the_same(lite: Path, planned: Path) -> None:
    """What a bulk run takes, in journal order, by each thing that it can be asked for."""
    least = {"since": NOW + timedelta(hours=1), "until": NOW + timedelta(hours=4)}
    given: list[dict[str, Any]] = [
        {}, least, {"entries": (5, 3, 200)}, {"channel": "lab"}, {"event": "A08"}, {"destination": "e"},
        {"patient": "s|1"}, {"patient": "2"}, *({"state": state} for state in State),
        *({"state": State.HELD, "reason": reason} for reason in ("unchanged", "would-merge")),
        {"state": State.HELD, "destination": "d"} | least, {"state": State.DELIVERED, "destination": "e"},
    ]  # fmt: skip
    for one in given:
        assert select(planned, Selection(**one)) == select(lite, Selection(**one)), one


def test_what_is_held_and_waits_is_the_same(lite: Path, planned: Path) -> None:
    """Held lanes, patients, dry runs, what people did, and how much is left at destinations and channels."""
    names = ("d", "e", "nowhere")
    reads: list[Callable[[Path], Any]] = [
        *(partial(holding.held, limit=limit) for limit in (3, 200)),
        partial(holding.held, reason="would-merge", channel="adt", destination="d"),
        *(partial(_behind, seq=one.seq) for one in holding.held(lite)),
        partial(backlog.backlogs, destinations=names),
        *(partial(backlog.left_of_channel, channel=name, destinations=names) for name in ("adt", "lab")),
        lambda folder: list(shadowed(folder)),
        lambda folder: [lineage.lineage(folder, seq) for seq in range(1, ENTRIES + 14)],
        lambda folder: [_patient(folder, name) for name in ("s|1", "1", "2", "m|1", "m|3")],
        lambda folder: _of_connection(folder, names),
    ]
    for read in reads:
        assert read(planned) == read(lite), read


def _behind(folder: Path, seq: int) -> Any:
    return holding.held_at(folder, seq)


def _patient(folder: Path, name: str) -> list[Any]:
    with patients(folder) as reading:
        return [
            reading.show(lane, ("d", "e"), limit, before)
            for lane in reading.lanes_named(name)
            for limit, before in ((5, 0), (50, 0), (7, 200))
        ]


def _of_connection(folder: Path, names: tuple[str, ...]) -> list[Any]:
    with closing(open_reader(folder)) as connection:
        return [
            counting.stats(connection),
            backlog.unknown_destinations(["d"], connection),
            [backlog.has_unfinished(name, connection) for name in names],
            [backlog.ended_of(seq, connection) for seq in range(1, 50)],
        ]
