"""The audit trail's chain: what is changed in a copy of the file is found, and where."""
# ruff: noqa: S608 - statements are put together from names of this test's own

import asyncio
import contextlib
import re
import sqlite3
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.database.chain import FIRST
from engine.errors import JournalRefusedError, JournalUnusableError
from engine.journal.access import accounts, audit, sessions
from engine.journal.access.audit import COLUMNS, AuditRecord, digest
from engine.journal.access.audited import MOST_FAULTS, AuditFilter, AuditReader, Verified, Witness
from engine.journal.file.database import FILE, open_writer
from tests.journal.desk import NOW, Desk, Opener
from tests.tiers import trials

ROWS = 40


def record(act: str = "messages.show", **given: object) -> AuditRecord:
    """Return a row to add."""
    settled = {"at": NOW, "actor": "ann", "role": "operator", "via": "page", "act": act, "entry": 7} | given
    return AuditRecord(**settled)  # type: ignore[arg-type]


async def fill(desk: Desk, count: int = ROWS) -> None:
    """Add rows, several in one transaction."""
    await asyncio.gather(
        *(desk.journal.write(partial(audit.append, record=record(reason=str(number)))) for number in range(count))
    )


@pytest.fixture
async def copy(opened: Opener, tmp_path: Path) -> Path:
    """Give a folder with the closed journal of forty rows."""
    async with opened(tmp_path) as desk:
        await fill(desk)
    return tmp_path


def change(folder: Path, *statements: str) -> None:
    """Do to the file what somebody with a database program would do: the triggers are no hindrance then."""
    with contextlib.closing(sqlite3.connect(folder / FILE)) as file, file:
        for name in ("audit_update", "audit_delete"):
            file.execute(f"DROP TRIGGER IF EXISTS {name}")
        for statement in statements:
            file.execute(statement)


def verified(folder: Path, *witnesses: Witness) -> Verified:
    """Verify the trail of a folder."""
    with AuditReader(folder) as reader:
        return reader.verify(witnesses)


def places(found: Verified) -> list[tuple[int, str]]:
    """Return where and what the faults are."""
    return [(fault.seq, fault.kind) for fault in found.faults]


def rewrite(folder: Path, first: int) -> None:
    """Compute all hashes anew from a row on, as somebody who knows how would do."""
    with contextlib.closing(sqlite3.connect(folder / FILE)) as file, file:
        row = file.execute("SELECT hash FROM audit WHERE seq < ? ORDER BY seq DESC LIMIT 1", (first,)).fetchone()
        before = row[0] if row else FIRST
        columns = ", ".join(COLUMNS)
        for one in file.execute(f"SELECT {columns} FROM audit WHERE seq >= ? ORDER BY seq", (first,)).fetchall():
            before = digest(before, one)
            file.execute("UPDATE audit SET hash = ? WHERE seq = ?", (before, one[0]))


def test_a_trail_as_it_was_written_holds(copy: Path) -> None:
    """All rows count, and what others saw of it agrees."""
    seen = verified(copy)
    assert (seen.rows, seen.last, seen.faults) == (ROWS, ROWS, ())
    with AuditReader(copy) as reader:
        middle = reader.rows(AuditFilter(), 1, before=21)[0]
    found = verified(copy, Witness(20, middle.hash), Witness(ROWS, seen.hash))
    assert (found.faults, found.agreed) == ((), 2)


def test_an_empty_trail_holds(tmp_path: Path) -> None:
    """Nothing was written, nothing was lost; what was anchored of it is."""
    open_writer(tmp_path).close()
    assert verified(tmp_path) == Verified(0, 0, FIRST.hex(), (), 0)
    assert places(verified(tmp_path, Witness(3, "00"))) == [(3, "truncated")]


@pytest.mark.parametrize("address", ["sqlite"], indirect=True)
@pytest.mark.parametrize("column", [name for name in COLUMNS if name != "seq"])
def test_every_column_is_held_by_the_chain(copy: Path, column: str) -> None:
    """Whatever is changed in a row, the row is named."""
    change(copy, f"UPDATE audit SET {column} = '17' WHERE seq = 17")
    assert places(verified(copy)) == [(17, "changed")]


@pytest.mark.parametrize("address", ["sqlite"], indirect=True)
@pytest.mark.parametrize("column", ["entry", "follows"])
def test_a_number_that_is_taken_away_is_found(copy: Path, column: str) -> None:
    """Nothing is another value than something."""
    change(copy, f"UPDATE audit SET {column} = 3 WHERE seq = 17")
    rewrite(copy, 17)
    change(copy, f"UPDATE audit SET {column} = NULL WHERE seq = 17")
    assert places(verified(copy)) == [(17, "changed")]


PUT_IN = f"INSERT INTO audit SELECT 17, {', '.join(COLUMNS[1:])}, hash FROM audit WHERE seq = 16"
MUTATIONS: dict[str, tuple[tuple[str, ...], list[tuple[int, str]]]] = {
    "a row deleted": (("DELETE FROM audit WHERE seq = 17",), [(18, "missing")]),
    "rows deleted": (("DELETE FROM audit WHERE seq BETWEEN 17 AND 20",), [(21, "missing")]),
    "the beginning deleted": (("DELETE FROM audit WHERE seq < 5",), [(5, "missing")]),
    "deleted and closed up": (
        ("DELETE FROM audit WHERE seq = 17", "UPDATE audit SET seq = seq - 1 WHERE seq > 17"),
        [(number, "changed") for number in range(17, ROWS)],
    ),
    "two rows exchanged": (
        (
            "UPDATE audit SET seq = 99 WHERE seq = 17",
            "UPDATE audit SET seq = 17 WHERE seq = 18",
            "UPDATE audit SET seq = 18 WHERE seq = 99",
        ),
        [(17, "changed"), (18, "changed"), (19, "changed")],
    ),
    "a row put in": (
        ("UPDATE audit SET seq = -seq - 1 WHERE seq >= 17", "UPDATE audit SET seq = -seq WHERE seq < 0", PUT_IN),
        [(number, "changed") for number in range(17, ROWS + 2)],
    ),
    "a hash changed": (("UPDATE audit SET hash = x'00' WHERE seq = 17",), [(17, "changed"), (18, "changed")]),
    "a row copied over another": (
        ("UPDATE audit SET reason = '3', hash = (SELECT hash FROM audit WHERE seq = 4) WHERE seq = 17",),
        [(17, "changed"), (18, "changed")],
    ),
}  # fmt: skip


@pytest.mark.parametrize("address", ["sqlite"], indirect=True)
@pytest.mark.parametrize("mutation", MUTATIONS)
def test_what_is_done_to_a_copy_is_found_and_where(copy: Path, mutation: str) -> None:
    """Edits, deletions and reorderings show in the chain alone."""
    statements, expected = MUTATIONS[mutation]
    change(copy, *statements)
    assert places(verified(copy)) == expected


@pytest.mark.parametrize("address", ["sqlite"], indirect=True)
def test_an_edit_with_its_own_hash_made_anew_shows_in_the_next_row(copy: Path) -> None:
    """To hide it, all that follows must be computed anew."""
    change(copy, "UPDATE audit SET actor = 'eve' WHERE seq = 17")
    rewrite(copy, 17)
    end = verified(copy)
    assert end.faults == ()
    change(copy, "UPDATE audit SET hash = x'01' WHERE seq = 18")
    assert places(verified(copy)) == [(18, "changed"), (19, "changed")]


@pytest.mark.parametrize("address", ["sqlite"], indirect=True)
def test_only_an_anchor_shows_a_cut_and_a_whole_recomputation(copy: Path) -> None:
    """The chain alone cannot tell: what somebody else saw of it can, and says from where on."""
    seen = verified(copy)
    with AuditReader(copy) as reader:
        anchors = [Witness(row.seq, row.hash) for row in reader.rows(AuditFilter(), ROWS) if row.seq % 10 == 0]
    change(copy, "DELETE FROM audit WHERE seq > 35")
    assert verified(copy).faults == ()
    assert places(verified(copy, *anchors)) == [(40, "truncated")]
    change(copy, "UPDATE audit SET actor = 'eve' WHERE seq = 15")
    rewrite(copy, 15)
    assert verified(copy).faults == ()
    found = verified(copy, *reversed(anchors))
    assert sorted(places(found)) == [(20, "rewritten"), (30, "rewritten"), (40, "truncated")]
    assert found.agreed == 1
    assert found.hash != seen.hash


@pytest.mark.parametrize("address", ["sqlite"], indirect=True)
def test_of_many_faults_the_first_hundred_are_named(opened: Opener, copy: Path) -> None:
    """A trail that was rewritten badly does not fill the terminal."""
    with contextlib.closing(sqlite3.connect(copy / FILE)) as file, file:
        for number in range(ROWS + 1, 300):
            file.execute(
                "INSERT INTO audit SELECT ?, at, actor, role, via, address, act, entry, outcome, reason, detail, "
                "patients, follows, hash FROM audit WHERE seq = 1",
                (number,),
            )
    assert len(verified(copy).faults) == MOST_FAULTS


@pytest.mark.property
@settings(max_examples=trials(40), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
@pytest.mark.parametrize("address", ["sqlite"], indirect=True)
def test_any_change_of_any_row_is_found(copy: Path, data: st.DataObject) -> None:
    """Whatever text or number is put in place of another, the row is named, and taking it back mends it."""
    seq = data.draw(st.integers(1, ROWS))
    column = data.draw(st.sampled_from([name for name in COLUMNS if name != "seq"]))
    value = data.draw(
        st.one_of(st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20), st.integers(0, 2**62))
    )
    with contextlib.closing(sqlite3.connect(copy / FILE)) as file:
        for name in ("audit_update", "audit_delete"):
            file.execute(f"DROP TRIGGER IF EXISTS {name}")
        old = file.execute(f"SELECT {column} FROM audit WHERE seq = ?", (seq,)).fetchone()[0]
        with file:
            file.execute(f"UPDATE audit SET {column} = ? WHERE seq = ?", (value, seq))
        new = file.execute(f"SELECT {column} FROM audit WHERE seq = ?", (seq,)).fetchone()[0]
        assert places(verified(copy)) == ([(seq, "changed")] if new != old else [])
        with file:
            file.execute(f"UPDATE audit SET {column} = ? WHERE seq = ?", (old, seq))
    assert verified(copy).faults == ()


@pytest.mark.parametrize("statement", ["UPDATE audit SET actor = 'eve'", "DELETE FROM audit"])
async def test_the_engine_itself_cannot_change_a_row(desk: Desk, statement: str) -> None:
    """The table refuses: a mistake of ours cannot undo what was written."""
    await fill(desk, 3)
    with pytest.raises(JournalRefusedError) as refused:
        await desk.journal.write(lambda connection: connection.execute(statement))
    assert "only ever added to" in str(refused.value.__cause__)
    assert verified(desk.folder).rows == 3


async def test_the_chain_goes_on_after_a_restart_and_after_a_rollback(opened: Opener, tmp_path: Path) -> None:
    """Rows of a transaction that was undone leave no gap."""

    def spoiled(connection: sqlite3.Connection) -> None:
        audit.append(connection, record())
        raise ValueError("no")

    for _ in range(2):
        async with opened(tmp_path) as desk:
            await fill(desk, 3)
            with pytest.raises(ValueError, match="no"):
                await desk.journal.write(spoiled)
            await fill(desk, 2)
    found = verified(tmp_path)
    assert (found.rows, found.last, found.faults) == (10, 10, ())


async def test_a_nul_that_somebody_typed_breaks_no_chain(desk: Desk) -> None:
    """PostgreSQL keeps another character for it, in JSON as well: the row is the one that was hashed."""
    typed = record(reason="[a\0b", detail='{"of":"\\u0000"}')
    await desk.journal.write(partial(audit.append, record=typed))
    await desk.journal.write(partial(audit.append, record=record()))
    found = verified(desk.folder)
    assert (found.rows, found.faults) == (2, ())


async def test_rows_are_filtered_and_paged(desk: Desk) -> None:
    """By who, what, which entry, whose, how it ended and when; newest first, in pages that do not overlap."""
    for number in range(1, 7):
        given = {
            "actor": "bob" if number % 2 else "ann",
            "act": "users.add" if number > 3 else "messages.show",
            "entry": number,
            "patients": (f"{number:032x}",),
        }
        await desk.journal.write(partial(audit.append, record=record(**given)))  # type: ignore[arg-type]

    def listed(limit: int = 50, before: int | None = None, **given: object) -> list[int]:
        with AuditReader(desk.folder) as reader:
            return [row.seq for row in reader.rows(AuditFilter(**given), limit, before)]  # type: ignore[arg-type]

    assert listed() == [6, 5, 4, 3, 2, 1]
    assert listed(limit=2, before=5) == [4, 3]
    assert listed(actor="bob", act="users.") == [5]
    assert listed(act="users.add") == [6, 5, 4]
    assert listed(act="user.") == []
    assert listed(entry=3) == [3]
    assert listed(marks=(f"{2:032x}", f"{4:032x}")) == [4, 2]
    assert listed(outcome="refused") == []
    assert listed(since=NOW) == [6, 5, 4, 3, 2, 1]
    assert listed(until=NOW) == []
    with AuditReader(desk.folder) as reader:
        assert [row.seq for row in reader.oldest_first(AuditFilter(), 1, 5, 3)] == [2, 3, 4]
        assert [row.seq for row in reader.oldest_first(AuditFilter(), 4, 5, 3)] == [5]
        assert reader.last() == 6


def test_a_journal_without_a_trail_says_what_to_do(tmp_path: Path) -> None:
    """One that an older program wrote is named."""
    open_writer(tmp_path).close()
    with contextlib.closing(sqlite3.connect(tmp_path / FILE)) as file, file:
        file.execute("DROP TABLE audit")
    with pytest.raises(JournalUnusableError, match="older"):
        AuditReader(tmp_path)


def _statements(*modules: ModuleType) -> list[object]:
    return [
        pytest.param(text, id=f"{module.__name__.rpartition('.')[2]}.{name}")
        for module in modules
        for name, text in vars(module).items()
        if name.isupper()
        and name[0] != "_"
        and isinstance(text, str)
        and re.match(r"\s*(SELECT|INSERT|UPDATE|DELETE)\b", text)
    ]


@pytest.mark.parametrize("statement", _statements(accounts, sessions, audit))
def test_each_statement_finds_its_rows_by_an_index(statement: str, tmp_path: Path) -> None:
    """No request walks a table; the lists of all accounts and all tokens do, by name."""
    with contextlib.closing(open_writer(tmp_path)) as connection:
        plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {statement}", (None,) * statement.count("?"))]
    allowed = re.compile(r"SCAN (mine|account$|bearer USING INDEX|audit$)")
    assert [step for step in plan if step.startswith("SCAN") and not allowed.match(step)] == []


def test_the_lists_of_the_trail_use_its_indexes(tmp_path: Path) -> None:
    """Pages by person, act and entry need no sorting."""
    asked: list[tuple[Callable[[str], bool], str]] = [
        (lambda step: "audit_actor" in step, "actor = ?"),
        (lambda step: "audit_act" in step, "act = ?"),
        (lambda step: "audit_entry" in step, "entry = ?"),
        (lambda step: "PRIMARY KEY" in step, "seq < ?"),
    ]
    with contextlib.closing(open_writer(tmp_path)) as connection:
        for wanted, condition in asked:
            sql = f"EXPLAIN QUERY PLAN SELECT * FROM audit WHERE {condition} ORDER BY seq DESC LIMIT 50"
            steps = [row[3] for row in connection.execute(sql, (None,))]
            assert any(wanted(step) for step in steps), steps
            assert not any("TEMP B-TREE" in step for step in steps), steps
