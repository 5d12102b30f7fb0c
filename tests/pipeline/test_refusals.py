"""What the journal's database refuses, on SQLite and on PostgreSQL: the sender is answered, and people are told."""

from typing import Final

import pytest
import structlog.testing

from engine.database.connection import Connection
from engine.errors import JournalError, JournalRefusedError
from engine.journal.entry import AckOutcome
from engine.journal.journal import Journal
from engine.journal.read.reading import Filters, Reader
from engine.pipeline.inbound.counters import Counters
from tests.journal.conftest import address
from tests.journal.desk import Desk
from tests.pipeline.test_intake import Door, code_of, raw

__all__ = ["address"]

# How SQLite and PostgreSQL call a table that is not there.
CODES: Final = {"SQLITE_ERROR OperationalError", "42P01 UndefinedTable"}


async def renamed(journal: Journal, table: str, name: str) -> None:
    """Let a table have another name, as if it were not there."""

    def work(connection: Connection) -> None:
        connection.execute(f"ALTER TABLE {table} RENAME TO {name}")

    await journal.write(work)


@pytest.mark.parametrize(
    ("asked", "code"), [pytest.param("", "AR", id="original"), pytest.param("AL|NE", "CE", id="enhanced")]
)
async def test_a_statement_that_is_refused_is_a_nak_a_log_line_and_an_alert(desk: Desk, asked: str, code: str) -> None:
    """Never a line that closes without a word: the sender would send the same for ever, and nobody would know."""
    door = Door(desk)
    await renamed(desk.journal, "payload", "gone")
    assert desk.journal.refused == ""
    with structlog.testing.capture_logs() as lines:
        reply = await door.ask(raw(asked=asked))
    assert (code_of(reply), reply.close, reply.stored) == (code, False, False)
    assert [(line["log_level"], line["event"], line["code"] in CODES) for line in lines] == [
        ("error", "not stored", True)
    ]
    assert "Mustermann" not in str(lines)
    assert desk.journal.refused in CODES
    await renamed(desk.journal, "gone", "payload")
    assert code_of(await door.ask(raw())) == "AA"
    assert desk.failures == []


async def test_a_fault_of_ours_is_a_nak_and_a_log_line(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error that nobody thought of is answered as one that was."""
    door = Door(desk)
    monkeypatch.setattr(Counters, "count", None)
    with structlog.testing.capture_logs() as lines:
        reply = await door.ask(raw())
    assert (code_of(reply), reply.stored) == ("AR", False)
    assert [(line["log_level"], line["event"], line["error"]) for line in lines] == [
        ("error", "not answered", "TypeError")
    ]


async def test_a_refused_statement_that_nobody_waits_for_is_told_of_as_well(desk: Desk) -> None:
    """What became of an acknowledgement cannot be noted: the alert says so."""
    seq = await desk.record("1", ("s|1",))
    await renamed(desk.journal, "tally", "gone")
    desk.journal.acknowledged(seq, AckOutcome.SENT)
    await desk.deliver((await desk.claimed())[0])
    await desk.journal.read(lambda _connection: None)
    assert desk.journal.refused in CODES


@pytest.mark.parametrize("address", ["postgresql"], indirect=True)
async def test_reading_what_is_refused_says_so(desk: Desk) -> None:
    """A list, a search, an entry: the error names what the database calls it, and where to look."""
    await desk.record("1", ("s|1",))
    await renamed(desk.journal, "delivery", "gone")
    with Reader(desk.folder) as reader:
        for filters in (Filters(), Filters(control_id="1")):
            with pytest.raises(JournalRefusedError, match=r"42P01 UndefinedTable.*doctor"):
                reader.page(filters)
        with pytest.raises(JournalError):
            reader.show(1)
