"""What a destination's memory keeps of the journal, and when it asks again."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from engine.journal.entry import NewEntry, Ownership, Settlement, State
from engine.journal.journal import Journal
from engine.pipeline.outbound.memory import DestinationMemory

NOW = datetime(2026, 3, 1, tzinfo=UTC)
PATIENT = "Patient/1"


@pytest.fixture
async def journal(tmp_path: Path) -> AsyncIterator[Journal]:
    """Give an open journal."""
    journal = await Journal.open(tmp_path, clock=lambda: NOW, fail=pytest.fail, reserve_bytes=0)
    yield journal
    await journal.close()


async def settle(
    journal: Journal, memory: DestinationMemory, source: str, mark: str, inherited: tuple[tuple[str, str], ...] = ()
) -> None:
    """Take a message in and settle it as one by which a source says something of the patient."""
    entry = NewEntry(
        "c", "", source, mark, "A08", "2.5.1", mark.encode(), NOW, patients=(("s|1",),), destinations=("d",)
    )
    seq = (await journal.record(entry)).seq
    assert [one.seq for one in await journal.claim("d", 1, NOW)] == [seq]
    owned = (Ownership("d", PATIENT, source, {"telecom": (mark,)}),)
    settlement = Settlement(seq, "d", State.DELIVERED, NOW, owned=owned, inherited=inherited)
    await journal.settle(settlement)
    memory.settled(settlement)


async def test_what_others_say_is_asked_once_until_one_of_them_says_something_else(journal: Journal) -> None:
    """What a source itself says changes nothing of what the others say."""
    memory = DestinationMemory("d", journal)
    await settle(journal, memory, "A", "a1")
    assert await memory.claimed(PATIENT, "B") == {"a1"}
    before = journal.counts
    await settle(journal, memory, "B", "b1")
    settled = journal.counts[1]
    assert await memory.claimed(PATIENT, "B") == {"a1"}
    assert journal.counts[1] == settled > before[1]
    await settle(journal, memory, "A", "a2")
    assert await memory.claimed(PATIENT, "B") == {"a2"}
    assert await memory.claimed(PATIENT, "A") == {"b1"}


async def test_what_a_survivor_inherits_is_asked_for_anew(journal: Journal) -> None:
    """A merge moves what was said within one record to another, whoever said it."""
    memory = DestinationMemory("d", journal)
    listed = "Patient/2 AllergyIntolerance AL1"
    assert await memory.claimed(listed, "B") == frozenset()
    await settle(journal, memory, "A", "a1")
    settlement = Settlement(0, "d", State.DELIVERED, NOW, inherited=(("Patient/1", "Patient/2"),))
    await journal.write(
        lambda connection: connection.execute(
            "INSERT INTO owned (destination, resource, source, slices) VALUES ('d', ?, 'A', '{\"AL1\":[\"a1\"]}')",
            (listed,),
        ).fetchall()
    )
    assert await memory.claimed(listed, "B") == frozenset()
    memory.settled(settlement)
    assert await memory.claimed(listed, "B") == {"a1"}
