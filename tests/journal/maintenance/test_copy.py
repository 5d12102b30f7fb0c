"""A journal goes to PostgreSQL and back with all that it holds; one that is cut off goes on, and starts no engine."""

import asyncio
import base64
import contextlib
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from engine.database.connection import Connection
from engine.database.dialect import with_nul
from engine.database.postgresql import connect
from engine.database.sqlite import SqliteConnection
from engine.errors import AdtEngineError, CopyError, JournalUnusableError
from engine.journal.access import audit
from engine.journal.access.audit import AuditRecord
from engine.journal.access.audited import verified
from engine.journal.copying import copying
from engine.journal.copying.copying import JournalLocation, copy_journal
from engine.journal.copying.ends import HOLDER, TableShape, shape
from engine.journal.copying.file_end import FileSource
from engine.journal.copying.node_end import NodeSource
from engine.journal.entry import (
    FollowUpKind,
    FollowUpRequest,
    KnownIdentity,
    MergeSeen,
    Ownership,
    OwnWrite,
    SentResource,
    State,
)
from engine.journal.file.database import COPYING, FILE, open_reader, open_writer
from engine.journal.file.sealing import KEY_FILE_VARIABLE, TEXTUAL, new_key
from engine.journal.maintenance.verify import broken_rules, faults
from engine.journal.nodes import lease
from engine.journal.nodes.database import open_reader as open_database
from engine.journal.nodes.database import open_writer as open_database_writer
from engine.journal.opening import ADDRESS_FILE
from engine.journal.state import event_cursors, memory
from engine.journal.state.alerting import open_alert
from tests.journal.conftest import node
from tests.journal.desk import NOW, Desk, entry, open_desk
from tests.postgresql import new_database

KEYS = ("s|1", "s|2", "s|3", "s|4\0")
LATER = NOW + timedelta(hours=1)
ENDS: tuple[dict[str, Any], ...] = (
    {"state": State.DELIVERED, "applied_at": NOW, "source": "ADT|RVB", "notes": ("stale",)},
    {"state": State.HELD, "reason": "refused", "plan": b'{"of": "a patient"}'},
    {"state": State.HELD, "reason": "missing-required", "keep_lane": False},
    {"state": State.RECEIVED, "retry_at": LATER},
    {
        "state": State.DELIVERED,
        "known": (KnownIdentity("d", "s", "4\0", "p1", "current", ""),),
        "owned": (Ownership("d", "Patient/p1", "ADT|RVB", {"PID-5": ("a" * 43,)}),),
        "merges": (MergeSeen("d", "s|1", "s|2", 1),),
        "follow_ups": (FollowUpRequest(FollowUpKind.LOOKUP, "Patient/p1"),),
    },
)
STEPS = st.one_of(
    st.tuples(st.just("record"), st.lists(st.sampled_from(KEYS), min_size=1, max_size=2), st.booleans()),
    st.tuples(st.just("claim"), st.integers(1, 4)),
    st.tuples(st.just("settle"), st.integers(0, 5), st.sampled_from(ENDS)),
    st.tuples(st.sampled_from(("release", "replay", "discard")), st.integers(1, 9)),
    st.tuples(st.just("audit"), st.sampled_from(("", "why", "a\0b", "[\0"))),
    st.tuples(st.just("alert"), st.integers(1, 3)),
)


def silent(_what: str, _done: int, _of: int) -> None:
    """Hear nothing."""


@contextlib.contextmanager
def keyed(folder: Path, *, sealed: bool = True) -> Iterator[None]:
    """Let journals that begin here be sealed."""
    with pytest.MonkeyPatch.context() as patch:
        if sealed:
            path = folder / "key"
            if not path.exists():
                path.write_text(new_key())
                path.chmod(0o600)
            patch.setenv(KEY_FILE_VARIABLE, str(path))
        yield


@pytest.fixture
def database(postgres: str) -> Iterator[str]:
    """An empty database."""
    with new_database(postgres) as made:
        yield made


def make(folder: Path) -> Path:
    """Make a data folder."""
    folder.mkdir(0o700)
    return folder


def opened(place: JournalLocation, home: Path) -> contextlib.AbstractAsyncContextManager[Desk]:
    """Open the journal of a folder, or as a node with the folder `home` that of a database."""
    if isinstance(place, Path):
        return open_desk(place)
    home.mkdir(exist_ok=True)
    return open_desk(home, shared=node(place, home))


def read(place: JournalLocation) -> Connection:
    """Open a journal to read."""
    return open_reader(place) if isinstance(place, Path) else open_database(place)


def rows(connection: Connection, table: TableShape) -> list[tuple[Any, ...]]:
    """Return the rows of a table as SQLite holds or would hold them, but for who holds what is claimed."""
    found = connection.execute(f"SELECT {', '.join(table.names)} FROM {table.name}").fetchall()  # noqa: S608
    hidden = table.names.index(HOLDER[1]) if table.name == HOLDER[0] else -1
    kept = [tuple(one for at, one in enumerate(row) if at != hidden) for row in found]
    if not isinstance(connection, SqliteConnection):
        kept = [tuple(with_nul(one) if isinstance(one, str) else one for one in row) for row in kept]
    return sorted(kept, key=repr)


def history(place: JournalLocation) -> dict[str, list[tuple[Any, ...]]]:
    """Return all that a journal holds."""
    with closing(read(place)) as connection:
        return {table.name: rows(connection, table) for table in shape()}


async def work(desk: Desk, steps: list[tuple[Any, ...]]) -> None:
    """Do some of everything; what may not be is left."""
    out: list[int] = []
    for number, step in enumerate(steps):
        with contextlib.suppress(AdtEngineError):
            await _do(desk, number, step, out)


async def _do(desk: Desk, number: int, step: tuple[Any, ...], out: list[int]) -> None:
    asked = {"by": "nina", "at": NOW, "force": True}
    match step:
        case ("record", keys, unite):
            groups = [(key,) for key in dict.fromkeys(keys)]
            await desk.record(f"{number}", *groups, unite=unite, visit=f"V{number}", flags=("conformance: 3",))
        case ("claim", limit):
            out += await desk.claimed(limit)
        case ("settle", place, end) if out:
            # What the way back remembers of it.
            name = f"Patient/{place}"
            told = {"sent": SentResource(name, "3", "{}"), "own_writes": (OwnWrite("d", name, "4", "adt", NOW),)}
            await desk.deliver(out.pop(place % len(out)), **end | told)
            await desk.journal.write(partial(event_cursors.move, channel="back", places={"Patient": str(number)}))
        case ("release", seq):
            await desk.release(seq, **asked)
        case ("replay", seq):
            await desk.replay(seq, **asked)
        case ("discard", seq):
            await desk.discard(seq, "operator", "nina")
        case ("audit", reason):
            record = AuditRecord(NOW, "nina", "", "cli", "messages.show", reason=reason, detail='{"of":"\\u0000"}')
            await desk.journal.write(lambda connection: audit.append(connection, record))
        case ("alert", subject):
            await desk.journal.write(lambda connection: open_alert(connection, "queue-age", f"{subject}", "", NOW))


async def some_work(desk: Desk, count: int = 40) -> None:
    """Leave entries delivered, held, claimed and waiting, in lanes of seven patients."""
    for number in range(count):
        await desk.record(str(number), (f"s|{number % 7}",))
    claims = await desk.claim(limit=5)
    for claim in claims[:3]:
        await desk.deliver(claim.seq, **({"state": State.HELD, "plan": b"{}"} if claim.seq == 3 else {}))
    await work(desk, [("audit", "why"), ("alert", 1)])


def restarted(folder: Path, again: Path) -> dict[str, list[tuple[Any, ...]]]:
    """Return what a journal holds once an engine has taken back what was claimed: of a copy, file by file."""
    shutil.copytree(folder, again)

    async def start() -> None:
        async with open_desk(again):
            pass

    asyncio.run(start())
    return history(again)


# Each example makes a database: the smallest that fails would be looked for over minutes.
@settings(max_examples=15, phases=(Phase.explicit, Phase.reuse, Phase.generate))
@given(steps=st.lists(STEPS, min_size=1, max_size=40), sealed=st.booleans())
def test_any_journal_is_the_same_there_and_back(postgres: str, steps: list[tuple[Any, ...]], *, sealed: bool) -> None:
    """Random work, sealed or not: what a restart would find at the source is in PostgreSQL, and back in a file."""

    async def begin(folder: Path) -> None:
        async with open_desk(folder) as desk:
            await work(desk, steps)
            if desk.failures:
                raise desk.failures[0]

    with TemporaryDirectory() as name, new_database(postgres) as database:
        top = Path(name)
        with keyed(top, sealed=sealed):
            asyncio.run(begin(make(top / "data")))
            leave_claimed(top / "data")
            before = history(top / "data")
            there = copy_journal(top / "data", database, silent)
            back = copy_journal(database, top / "back", silent)
            assert history(top / "data") == before
            expected = restarted(top / "data", top / "again")
            assert history(top / "back") == expected
            with closing(read(database)) as connection:
                assert verified(connection).faults == ()
            with closing(read(top / "back")) as connection:
                assert list(faults(connection)) == [] or sealed
                assert verified(connection).faults == ()
            assert there.digests | {"delivery": ""} == back.digests | {"delivery": ""}
            assert (there.entries, there.bodies, there.audit_faults) == (
                len(before["entry"]),
                len(before["payload"]),
                0,
            )


def leave_claimed(folder: Path) -> None:
    """Claim what may run, as an engine has that was killed."""
    with closing(open_writer(folder)) as connection:
        connection.execute("UPDATE delivery SET state = 'claimed' WHERE state = 'received' AND seq % 2 = 0")


@pytest.mark.parametrize("way", ["there", "back"])
async def test_an_engine_goes_on_where_the_other_ended(way: str, database: str, tmp_path: Path) -> None:
    """A resend is answered with the stored acknowledgement, lanes wait behind what is held, and numbers go on."""
    source, target = sides(way, database, tmp_path)
    async with opened(source, tmp_path / "home") as desk:
        await some_work(desk)
        resend = entry("5", ("s|5",), acknowledgement=b"another")
    copied = await asyncio.to_thread(copy_journal, source, target, silent)
    assert copied.unfinished == 38
    async with opened(target, tmp_path / "new home") as desk:
        again = await desk.journal.record(resend)
        assert (again.duplicate, again.seq, again.acknowledgement) == (True, 6, b"MSA|AA|5")
        assert await desk.record("new", ("s|2",)) == 41
        assert sorted(await desk.claimed()) == [4, 5, 6, 7, 8, 9]  # nothing of the patient of entry 3, which is held
        assert await desk.deliver(4, state=State.HELD, plan=b'{"of": 4}') == 0
        await work(desk, [("alert", 2), ("audit", "more")])
        assert not desk.failures
    with closing(read(target)) as connection:
        assert list(broken_rules(connection)) == []
        assert verified(connection).rows == 2
        for query in ("SELECT id FROM attempt ORDER BY id", "SELECT id FROM plan ORDER BY id", "SELECT id FROM alert"):
            numbers = [number for (number,) in connection.execute(query).fetchall()]
            assert numbers == list(range(1, len(numbers) + 1))


def sides(way: str, database: str, folder: Path) -> tuple[JournalLocation, JournalLocation]:
    """Return source and target of one direction."""
    if way == "back":
        return database, folder / "copy"
    return make(folder / "data"), database


RUN = """
import sys, time
from pathlib import Path
from engine import fault
from engine.journal.copying import copying
copying.MOST_ROWS = 7
source, target = (place if "://" in place else Path(place) for place in sys.argv[1:3])
if sys.argv[3]:
    fault.arm(sys.argv[3])
def watch(what, done, of):
    print(what, done, flush=True)
    time.sleep(float(sys.argv[4]))
print("resumed", copying.copy_journal(source, target, watch).resumed)
"""


def run(
    source: JournalLocation, target: JournalLocation, armed: str = "", seconds: float = 0
) -> "subprocess.Popen[str]":
    """Start a copy in a process of its own, in transactions of seven rows."""
    command = [sys.executable, "-c", RUN, str(source), str(target), armed, str(seconds)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


@pytest.mark.parametrize("way", ["there", "back"])
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
async def test_a_copy_that_is_cut_off_goes_on(way: str, number: int, database: str, tmp_path: Path, seed: int) -> None:
    """Killed before commits and at any moment: no engine starts on it, the next try goes on, all is there at last."""
    choose = random.Random(f"{seed} {way} {number}")
    source, target = sides(way, database, tmp_path)
    async with opened(source, tmp_path / "home") as desk:
        await some_work(desk, 60)
    before, ends, copied = await asyncio.to_thread(history, source), [], [0]
    armed = number == signal.SIGKILL
    while len(ends) < 40:
        fault = f"F49:kill:{choose.randint(1, 9)}" if armed and choose.random() < 0.5 else ""
        with run(source, target, fault, 0 if fault else 0.01) as process:
            if not fault and len(ends) < 6:
                await asyncio.to_thread(_reached, process, choose.randint(1, 6))
                process.send_signal(number)
            said, _ = await asyncio.to_thread(process.communicate)
        ends.append(process.returncode)
        if process.returncode == 0:
            break
        assert process.returncode in {-signal.SIGKILL, -signal.SIGINT, 1}
        assert await asyncio.to_thread(history, source) == before
        with pytest.raises(JournalUnusableError, match=r"cut off: repeat|no journal"):
            async with opened(target, tmp_path / "never"):
                raise JournalUnusableError("no journal: it was not begun") if not begun(target) else AssertionError
        copied.append(int(next((line.split()[-1] for line in said.splitlines()[:1]), copied[-1])))
    assert len(ends) > 2
    assert ends[-1] == 0
    assert copied == sorted(copied)
    assert int(said.split()[-1]) >= max(copied)
    assert await asyncio.to_thread(history, source) == before
    found, expected = await asyncio.to_thread(history, target), before
    assert found | {"delivery": []} == expected | {"delivery": []}
    assert [row[:2] for row in found["delivery"]] == [row[:2] for row in expected["delivery"]]


def begun(target: JournalLocation) -> bool:
    """Say whether a copy has left its mark."""
    if isinstance(target, Path):
        return (target / COPYING).exists()
    with closing(connect(target)) as connection:
        return connection.execute("SELECT to_regclass('copying')").fetchone() != (None,)


def _reached(process: "subprocess.Popen[str]", lines: int) -> None:
    assert process.stdout is not None
    for _ in range(lines):
        process.stdout.readline()


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> int:
    """The seed of what is drawn at random."""
    return int(request.config.getoption("--seed"))


def partly(source: JournalLocation, target: JournalLocation, batches: int = 3) -> None:
    """Copy a part of a journal."""
    left = batches

    def watch(_what: str, _done: int, _of: int) -> None:
        nonlocal left
        left -= 1
        if not left:
            raise InterruptedError

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(copying, "MOST_ROWS", 7)
        with pytest.raises((CopyError, InterruptedError)):
            copy_journal(source, target, watch)


async def filled(folder: Path, count: int = 40) -> Path:
    """Return a new folder with a journal."""
    async with open_desk(make(folder)) as desk:
        await some_work(desk, count)
    return folder


def test_a_column_that_counts_goes_on_after_rows_that_are_gone(database: str, tmp_path: Path) -> None:
    """A key of a day that was taken away never lends its number to another one."""
    with closing(open_writer(make(tmp_path / "data"))) as connection:
        connection.execute("INSERT INTO seal_key (id, day, wrapped) VALUES (9, 1, x'00')")
        connection.execute("DELETE FROM seal_key")
    copy_journal(tmp_path / "data", database, silent)
    copy_journal(database, tmp_path / "back", silent)
    for place in (database, tmp_path / "back"):
        with closing(open_writer(place) if isinstance(place, Path) else connect(place)) as connection:
            add = "INSERT INTO seal_key (day, wrapped) VALUES (2, x'') RETURNING id"
            assert connection.execute(add).fetchone() == (10,)


async def test_what_an_older_version_sealed_as_bytes_becomes_text(database: str, tmp_path: Path) -> None:
    """PostgreSQL keeps no bytes in a text; the key opens them there as before, and without it they are still copied."""
    marks = {"PID-5": ("a" * 43,)}
    with keyed(tmp_path):
        async with open_desk(make(tmp_path / "data")) as desk:
            await desk.record("1", ("s|1",))
            await desk.claim()
            await desk.deliver(1, owned=(Ownership("d", "Patient/p1", "LAB", marks),))
            older = f"UPDATE owned SET slices = unbase64(substr(slices, {len(TEXTUAL) + 1}))"  # noqa: S608

            def as_older(connection: Any) -> None:
                connection.create_function("unbase64", 1, base64.b64decode)
                connection.execute(older)

            await desk.journal.write(as_older)
    copied = await asyncio.to_thread(copy_journal, tmp_path / "data", database, silent)
    assert (copied.entries, copied.bodies) == (1, None)
    with keyed(tmp_path):
        async with opened(database, tmp_path / "home") as desk:
            assert await desk.remembered(memory.owned, "d", "Patient/p1", "LAB") == marks


async def test_what_is_in_use_is_not_copied(database: str, tmp_path: Path) -> None:
    """Neither from nor to where an engine is at work; and none begins where a copy is."""
    data = await filled(tmp_path / "data", 3)
    async with open_desk(data):
        with pytest.raises(JournalUnusableError, match=r"another engine .* stop it"):
            copy_journal(data, database, silent)
    async with opened(database, tmp_path / "home"):
        with pytest.raises(CopyError, match=r"node \w+ on .* has the journal .* stop it"):
            copy_journal(database, tmp_path / "new", silent)
        with pytest.raises(CopyError, match="has the journal"):
            copy_journal(data, database, silent)
    with closing(NodeSource(database)):
        with pytest.raises(JournalUnusableError, match="is being copied at this moment"):
            async with opened(database, tmp_path / "home"):
                raise AssertionError
        with pytest.raises(CopyError, match="another copy is at work"):
            copy_journal(data, database, silent)
    with closing(FileSource(data)), pytest.raises(JournalUnusableError, match="another engine"):
        async with open_desk(data):
            raise AssertionError


async def test_only_what_is_empty_is_copied_into(database: str, tmp_path: Path) -> None:
    """A journal is never written over, nor mixed with another one, nor with what it was before."""
    data, other = await filled(tmp_path / "data", 40), await filled(tmp_path / "other", 41)
    partly(data, database)
    with pytest.raises(CopyError, match="a part of another journal"):
        copy_journal(other, database, silent)
    async with open_desk(data) as desk:
        await desk.record("since", ("s|1",))
    with pytest.raises(CopyError, match="or this one was changed since"):
        copy_journal(data, database, silent)
    for opening in (read, partial(open_database_writer, name="node")):
        with pytest.raises(JournalUnusableError, match="cut off: repeat the command"):
            opening(database)
    late = node(database, make(tmp_path / "late"))
    with closing(connect(database)) as connection, pytest.raises(JournalUnusableError, match="cut off: repeat"):
        lease.begin(connection, late)  # it had looked before the copy began
    with closing(connect(database)) as connection:
        connection.execute("DROP SCHEMA public CASCADE")
        connection.execute("CREATE SCHEMA public")
    copy_journal(data, database, silent)
    with pytest.raises(CopyError, match="holds a journal already"):
        copy_journal(data, database, silent)
    with pytest.raises(CopyError, match=rf"other holds {FILE} already"):
        copy_journal(database, other, silent)
    (make(tmp_path / "shared") / ADDRESS_FILE).write_text(database)
    with pytest.raises(CopyError, match="name that one by --from"):
        copy_journal(tmp_path / "shared", database, silent)
    with pytest.raises(CopyError, match="name a new folder by --to"):
        copy_journal(database, tmp_path / "shared", silent)
    with pytest.raises(JournalUnusableError, match="there is no journal in"):
        copy_journal(make(tmp_path / "nothing"), database, silent)


@pytest.mark.parametrize("change", ["UPDATE payload SET raw = raw || '\\x20'::bytea", "DELETE FROM attempt"])
async def test_what_is_not_the_same_on_both_sides_is_not_kept(change: str, database: str, tmp_path: Path) -> None:
    """One row that was changed or lost at the target: the table is named, and no engine starts on it."""
    data = await filled(tmp_path / "data")
    partly(data, database, batches=60)
    with closing(connect(database)) as connection:
        connection.raw(change)
    with pytest.raises(CopyError, match=rf"table {change.split()[1 if 'payload' in change else 2]} is not the same"):
        copy_journal(data, database, silent)
    with pytest.raises(JournalUnusableError, match="cut off: repeat"):
        read(database)


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        ("UPDATE payload SET raw = x'4d' WHERE seq = 7", "entry 7 does not have the digest"),
        ("DELETE FROM queue WHERE seq = 8", "entry 8 is unfinished, but does not stand in the queue"),
        ("UPDATE delivery SET crc = 1 WHERE seq = 7", r"entry 7 has a row in table delivery \(destination 'd'\)"),
    ],
)
async def test_a_journal_that_is_not_sound_is_told_so(damage: str, said: str, database: str, tmp_path: Path) -> None:
    """What the disk changed, or a lane that would never run, is found before an engine starts on the copy."""
    data = await filled(tmp_path / "data")
    with closing(open_writer(data)) as connection:
        connection.execute(damage)
    with pytest.raises(CopyError, match=f"not sound: {said}"):
        copy_journal(data, database, silent)


async def test_a_file_that_was_finished_without_its_name_is_made_anew(database: str, tmp_path: Path) -> None:
    """Killed after its last commit and before it got its name, or before its mark: the copy begins again."""
    await asyncio.to_thread(copy_journal, await filled(tmp_path / "data"), database, silent)
    for left in (b"", (tmp_path / "data" / FILE).read_bytes()):
        folder = make(tmp_path / f"left {len(left)}")
        (folder / COPYING).write_bytes(left)
        with pytest.raises(JournalUnusableError, match="cut off: repeat the command"):
            open_writer(folder)
        assert copy_journal(database, folder, silent).resumed == 0
        assert history(folder) == history(database)
        assert {path.name.partition("-")[0] for path in folder.iterdir()} == {FILE, "journal.lock"}
