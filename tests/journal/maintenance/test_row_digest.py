"""What a disk changes in a row that the engine acts on is found by the checksum in the row."""

import contextlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.database.connection import Connection
from engine.database.dialect import with_nul, without_nul
from engine.database.postgresql import connect
from engine.journal import row_digest
from engine.journal.entry import KNOWN_STATUSES, KnownIdentity, Ownership, State
from engine.journal.file.database import FILE, sqlite3
from engine.journal.file.sealing import KEY_FILE_VARIABLE, configured, new_key, opened
from engine.journal.maintenance.backup import prove
from engine.journal.maintenance.retention import RetentionPolicy, prune
from engine.journal.maintenance.verify import CHECKED, JournalFault, faults
from engine.journal.nodes.schema import CHANGED
from engine.journal.opening import open_reader
from engine.journal.state.memory import choose
from tests.journal.desk import NOW, Desk, Opener, intent, settlement

SEARCH = "http://127.0.0.1/Patient?identifier=s%7C4711"
COVERED = {
    "attempt": ("id", "seq", "destination", "number", "method", "url", "query", "headers", "body", "at"),
    "delivery": ("seq", "destination", "mapping"),
    "known": ("destination", "system", "value", "logical_id", "survivor"),
    "owned": ("destination", "resource", "source", "slices"),
}
COLUMNS = [(table, column) for table, columns in COVERED.items() for column in columns]


@pytest.fixture(params=["in clear", "sealed"])
def sealed(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let journals that begin here be in clear, then sealed."""
    if request.param == "sealed":
        path = tmp_path / "journal.key"
        path.write_text(new_key())
        path.chmod(0o600)
        monkeypatch.setenv(KEY_FILE_VARIABLE, str(path))


async def work(desk: Desk) -> None:
    """Deliver one entry by one request, and remember one number and one list of its destination."""
    seq = await desk.record("1", ("https://mrn.example|4711",))
    await desk.claim()
    await desk.journal.intend(seq, "d", replace(intent(), url=SEARCH))
    known = KnownIdentity("d", "https://mrn.example", "4711", "p0", "merged-away", "p1")
    owned = Ownership("d", "Patient/p0 Condition DG1", "ADT|RVB", {"PID-5": ("x",)})
    await desk.journal.settle(settlement(seq, known=(known,), owned=(owned,), mapping="shipped 1"))


@contextlib.contextmanager
def past_the_engine(folder: Path, address: str) -> Iterator[Connection]:
    """Open the tables as the disk does, so that no trigger hears of it."""
    if address:
        with contextlib.closing(connect(address)) as database:
            database.raw("SET session_replication_role = replica")
            yield database
    else:
        with contextlib.closing(sqlite3.connect(folder / FILE)) as file:
            yield file
            file.commit()


def verified(folder: Path) -> tuple[list[JournalFault], Counter[str]]:
    """Return what is wrong with a journal, and how many rows of each table have no checksum."""
    unchecked: Counter[str] = Counter()
    with contextlib.closing(open_reader(folder)) as connection:
        found = list(faults(connection, None, opened(connection, configured()), unchecked))
    return found, unchecked


def flipped(value: object) -> object:
    """Return a value with one bit of it changed."""
    if isinstance(value, int):
        return value ^ 64
    if isinstance(value, bytes):
        return bytes([value[0] ^ 1]) + value[1:]
    assert isinstance(value, str)
    return chr(ord(value[0]) ^ 1) + value[1:]


@pytest.mark.usefixtures("sealed")
@pytest.mark.parametrize(("table", "column"), COLUMNS)
async def test_a_bit_that_flipped_in_a_row_is_told(
    table: str, column: str, opened: Opener, tmp_path: Path, address: str
) -> None:
    """In each column that is acted on: by table and key, and never by a patient's number."""
    async with opened() as desk:
        await work(desk)
    assert verified(tmp_path) == ([], {})
    with past_the_engine(tmp_path, address) as connection:
        ((kept,),) = connection.execute(f"SELECT {column} FROM {table}").fetchall()  # noqa: S608 - names of our own
        assert kept
        connection.execute(f"UPDATE {table} SET {column} = ?", (flipped(kept),))  # noqa: S608 - as above
    found, unchecked = verified(tmp_path)
    (told,) = [one for one in found if one.rule == "row-digest"]
    assert told.entry == (0 if table in {"known", "owned"} else 1 if column != "seq" else 65)
    assert f"table {table}" in told.sentence
    assert "4711" not in told.sentence
    assert not unchecked


async def test_a_status_is_one_of_its_words(opened: Opener, tmp_path: Path, address: str) -> None:
    """The database decides it, so that no checksum covers it."""
    async with opened() as desk:
        await work(desk)
    for status, rules in (*((one, []) for one in sorted(KNOWN_STATUSES)), ("mergec-away", ["row-digest"])):
        with past_the_engine(tmp_path, address) as connection:
            connection.execute("UPDATE known SET status = ?", (status,))
        assert [one.rule for one in verified(tmp_path)[0]] == rules


@pytest.mark.parametrize("address", ["sqlite"], indirect=True)
@pytest.mark.parametrize(
    "change",
    [
        pytest.param("UPDATE owned SET slices = CAST(x'ff' || substr(slices, 2) AS TEXT)", id="a text is no UTF-8"),
        pytest.param("UPDATE known SET value = CAST(x'ff31' AS TEXT)", id="a key is no UTF-8"),
        pytest.param("UPDATE known SET value = CAST(x'ff31' AS TEXT), crc = NULL", id="a key, without a checksum"),
        pytest.param("UPDATE owned SET slices = CAST(slices AS BLOB)", id="a text is bytes"),
        pytest.param("UPDATE attempt SET body = CAST(body AS TEXT)", id="bytes are a text"),
        pytest.param("UPDATE known SET crc = crc + 1", id="the checksum itself"),
        pytest.param("UPDATE delivery SET mapping = ''", id="a value that is gone"),
    ],
)
async def test_what_the_engine_never_writes_is_told(change: str, opened: Opener, tmp_path: Path) -> None:
    """A flip makes more of a value than another one: verification goes on to its end."""
    async with opened() as desk:
        await work(desk)
    with past_the_engine(tmp_path, "") as connection:
        connection.execute(change)
    assert [one.rule for one in verified(tmp_path)[0]] == ["row-digest"]


async def test_rows_are_read_to_the_last(opened: Opener, tmp_path: Path, address: str) -> None:
    """More than a page of each table, and the last row of each was changed."""
    async with opened() as desk:
        seqs = [await desk.record(f"{number}", (f"s|{number}",)) for number in range(601)]
        await desk.claim(limit=1000)
        for seq in seqs:
            await desk.journal.intend(seq, "d", intent())
            known = KnownIdentity("d", "s", f"{seq:04}", "p")
            owned = Ownership("d", f"Patient/{seq:04}", "ADT|RVB", {"PID-5": ("x",)})
            await desk.journal.settle(settlement(seq, known=(known,), owned=(owned,), mapping="m"))
    assert verified(tmp_path) == ([], {})
    with past_the_engine(tmp_path, address) as connection:
        connection.execute("UPDATE attempt SET method = 'POST' WHERE seq = 601")
        connection.execute("UPDATE delivery SET mapping = 'n' WHERE seq = 601")
        connection.execute("UPDATE known SET logical_id = 'q' WHERE value = '0601'")
        connection.execute("UPDATE owned SET slices = '{}' WHERE resource = 'Patient/0601'")
    told = [one.sentence for one in verified(tmp_path)[0]]
    assert [one.partition(" that was ")[0].partition(" was ")[0] for one in told] == [
        "entry 601 has a row in table attempt (id 601)",
        "entry 601 has a row in table delivery (destination 'd')",
        "table known: row 601 in the order of its key",
        "table owned: row 601 in the order of its key",
    ]


@pytest.mark.usefixtures("sealed")
async def test_whatever_the_engine_does_with_a_row_keeps_it_sound(opened: Opener, tmp_path: Path) -> None:
    """Again and again, by a person's choice, with a survivor's lists, and with a body that went: 0 faults."""
    async with opened() as desk:
        await work(desk)
        choice = [("https://mrn.example", "4711"), ("s", "a\0b")]
        await desk.journal.act(lambda context: choose(context.connection, "d", choice, "p1", context.sealing))
        for number, given in (
            ("2", {"inherited": (("Patient/p0", "Patient/p1"),)}),
            ("3", {"known": (KnownIdentity("d", "https://mrn.example", "4711", "p1"),)}),
            ("4", {"owned": (Ownership("d", "Patient/p1 Condition DG1", "ADT|RVB", {"a\0b": ("y",)}),)}),
        ):
            seq = await desk.record(number, ("https://mrn.example|4711",))
            await desk.claim()
            await desk.deliver(seq, **given, mapping="site \0 2")
        await desk.replay(1, force=True)
        await desk.claim()
        await desk.journal.intend(1, "d", intent(2))
        await desk.journal.settle(settlement(1, State.HELD, reason="http-422", mapping="shipped 2"))
        assert verified(tmp_path) == ([], {})
        days = timedelta(days=30)
        rules = {"adt": {State.DELIVERED: RetentionPolicy(days, 9 * days)}}
        assert (await desk.journal.write(partial(prune, rules=rules, now=NOW + days))).bodies == 2
    # What retention emptied is no more what was written.
    assert verified(tmp_path) == ([], {"attempt": 2})


def before(connection: Connection) -> None:
    """Take the tables back to those of a program that made no checksums."""
    is_file = isinstance(connection, sqlite3.Connection)
    for table in COVERED:
        connection.execute(f"ALTER TABLE {table} DROP COLUMN crc{'' if is_file else ' CASCADE'}")
    if is_file:
        connection.execute("DELETE FROM _sqlite_migrations WHERE name = '0017_row_checks'")
    else:
        connection.execute("DROP FUNCTION unchecked() CASCADE")
        connection.execute("DELETE FROM step WHERE name IN ('0017_row_checks', 'node_0002')")


async def test_what_was_there_before_cannot_be_checked(opened: Opener, tmp_path: Path, address: str) -> None:
    """It counts as unchecked, whatever the disk makes of it, until the engine writes it anew."""
    async with opened() as desk:
        await work(desk)
        await desk.record("2", ("https://mrn.example|4711",))
    with past_the_engine(tmp_path, address) as connection:
        before(connection)
    async with opened() as desk:
        assert verified(tmp_path) == ([], dict.fromkeys(COVERED, 1))
        await desk.claim()
        known = KnownIdentity("d", "https://mrn.example", "4711", "p0")
        await desk.journal.settle(settlement(2, known=(known,), mapping="shipped 2"))
    assert verified(tmp_path) == ([], {"attempt": 1, "delivery": 1, "owned": 1})


@pytest.mark.parametrize("address", ["sqlite"], indirect=True)
async def test_a_backup_of_the_program_before_is_sound(opened: Opener, tmp_path: Path) -> None:
    """It has no checksums, and can be restored."""
    async with opened() as desk:
        await work(desk)
    with past_the_engine(tmp_path, "") as connection:
        before(connection)
    assert prove(tmp_path / FILE).entries == 1


# As a node of the version before writes.
OLDER = {
    "attempt": "UPDATE attempt SET body = {}'' WHERE seq = 1",
    "delivery": "UPDATE delivery SET mapping = 'shipped {}' WHERE seq = 1",
    "known": """
INSERT INTO known (destination, system, value, logical_id, status, survivor)
VALUES ('d', 'https://mrn.example', '4711', 'p{}', 'current', 'p1')
ON CONFLICT (destination, system, value) DO UPDATE
SET logical_id = excluded.logical_id, survivor = excluded.survivor, status = excluded.status
""",
    "owned": """
INSERT INTO owned (destination, resource, source, slices)
VALUES ('d', 'Patient/p0 Condition DG1', 'ADT|RVB', '{{"PID-5":["{}"]}}')
ON CONFLICT (destination, resource, source) DO UPDATE SET slices = excluded.slices
""",
}
SAME = {"delivery": "1", "known": "0", "owned": "x"}
OTHER = {"attempt": "x", "delivery": "2", "known": "2", "owned": "y"}


@pytest.mark.parametrize("address", ["postgresql"], indirect=True)
@pytest.mark.parametrize("table", COVERED)
async def test_what_an_older_node_writes_is_unchecked(table: str, opened: Opener, tmp_path: Path, address: str) -> None:
    """It knows no checksums: where it changes a row there is none any more, and where it changes nothing it stays."""
    async with opened() as desk:
        await work(desk)
    with contextlib.closing(connect(address)) as connection:
        if table in SAME:
            connection.execute(OLDER[table].format(SAME[table]))
            assert verified(tmp_path) == ([], {})
        connection.execute(OLDER[table].format(OTHER[table]))
    assert verified(tmp_path) == ([], {table: 1})


@pytest.mark.parametrize("address", ["postgresql"], indirect=True)
async def test_each_column_that_is_ever_changed_is_watched(opened: Opener, tmp_path: Path, address: str) -> None:
    """Whatever statement of an older node changes it."""
    for table, columns in CHANGED.items():
        assert set(columns) <= set(COVERED[table])
    async with opened() as desk:
        await work(desk)
    for table, column in ((table, column) for table, columns in CHANGED.items() for column in columns):
        with contextlib.closing(connect(address)) as connection:
            ((kept, crc),) = connection.execute(f"SELECT {column}, crc FROM {table}").fetchall()  # noqa: S608
            connection.execute(f"UPDATE {table} SET {column} = ?", (flipped(kept),))  # noqa: S608 - names of our own
            assert connection.execute(f"SELECT crc FROM {table}").fetchall() == [(None,)]  # noqa: S608 - as above
            connection.execute(f"UPDATE {table} SET {column} = ?, crc = ?", (kept, crc))  # noqa: S608 - as above
    assert verified(tmp_path) == ([], {})


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)


@given(one=st.tuples(*[TEXTS] * 4), other=st.tuples(*[TEXTS] * 4))
def test_fields_run_into_no_others(one: tuple[str, str, str, str], other: tuple[str, str, str, str]) -> None:
    """What moves from the end of a field to the next one is a change; what PostgreSQL makes of a NUL is none."""
    stored = [tuple(map(without_nul, row)) for row in (one, other)]
    assert (row_digest._joined(*one) == row_digest._joined(*other)) == (stored[0] == stored[1])
    kept = stored[0]
    back = tuple(map(with_nul, kept))
    assert row_digest._joined(*one) == row_digest._joined(*kept) == row_digest._joined(*back)


def test_what_a_url_asks_by_does_not_run_into_the_body() -> None:
    """Nor the length of the one into its content."""
    row = (1, 1, "d", 1, "PUT", "u", b"ab", "[]", b"c", 1)
    moved = (1, 1, "d", 1, "PUT", "u", b"a", "[]", b"bc", 1)
    longer = (1, 1, "d", 1, "PUT", "u", b"", "[]", b"1abc", 1)
    assert len({row_digest.of_attempt(one) for one in (row, moved, longer)}) == 3


def test_every_table_of_checksums_is_walked() -> None:
    """Those that this file speaks of."""
    assert [one.name for one in CHECKED] == list(COVERED)
