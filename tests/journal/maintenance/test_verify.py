"""A journal is proven sound, and every kind of damage is told with the entry that it struck."""

import contextlib
from pathlib import Path

import pytest

from engine.journal.entry import State
from engine.journal.file.database import FILE, open_reader, sqlite3
from engine.journal.maintenance.verify import RULES, faults
from tests.journal.desk import Desk, Opener

# A file is backed up and verified by this program, a database by its own people.
pytestmark = pytest.mark.parametrize("address", ["sqlite"], indirect=True)

DAMAGE = {
    "out-of-lane": "DELETE FROM queue WHERE seq = 3",
    "left-in-lane": "UPDATE delivery SET state = 'delivered' WHERE seq = 2",
    "waits-for-nothing": "UPDATE delivery SET state = 'waiting' WHERE seq = 4",
    "overtakes": "UPDATE delivery SET state = 'received' WHERE seq = 3",
    "nowhere": "DELETE FROM delivery WHERE seq = 4",
    "no-entry": "DELETE FROM entry WHERE seq = 1",
    "no-body": "DELETE FROM payload WHERE seq = 2",
    "no-attempt": "DELETE FROM attempt WHERE seq = 1",
    "digest": "UPDATE payload SET raw = x'4d53487c' WHERE seq = 1",
}


async def work(desk: Desk) -> None:
    """Leave one entry delivered, one held, one that waits behind it, and one that may run."""
    for control_id, patient in (("1", "s|1"), ("2", "s|2"), ("3", "s|2"), ("4", "s|4")):
        await desk.record(control_id, (patient,))
    await desk.claim(limit=2)
    await desk.deliver(1)
    await desk.deliver(2, state=State.HELD, reason="http-422")


def found(folder: Path) -> list[tuple[str, int]]:
    """Return the rules that are broken, with the entry."""
    with contextlib.closing(open_reader(folder)) as connection:
        return [(fault.rule, fault.entry) for fault in faults(connection)]


async def test_a_journal_at_work_is_sound(opened: Opener, tmp_path: Path) -> None:
    """Nothing is said of a journal with every kind of work in it, running or closed."""
    read: list[int] = []
    async with opened() as desk:
        await work(desk)
        with contextlib.closing(open_reader(desk.folder)) as connection:
            assert list(faults(connection, read.append)) == []
        assert sum(read) == 4
    assert found(tmp_path) == []


@pytest.mark.parametrize("rule", [*(name for name, _, _ in RULES), "digest"])
async def test_each_damage_is_told(rule: str, opened: Opener, tmp_path: Path) -> None:
    """One statement breaks each rule, and the rule is told for the entry that it struck."""
    async with opened() as desk:
        await work(desk)
    with contextlib.closing(sqlite3.connect(tmp_path / FILE)) as connection:
        connection.execute(DAMAGE[rule])
        connection.commit()
    broken = found(tmp_path)
    assert rule in {name for name, _ in broken}
    struck = int(DAMAGE[rule].rsplit("seq = ", 1)[1])
    assert {entry for name, entry in broken if name == rule} <= {struck, struck + 1}


async def test_a_torn_page_is_told_as_damage_of_the_file(opened: Opener, tmp_path: Path) -> None:
    """Bytes of the file that are no longer SQLite's end the examination with what SQLite says."""
    async with opened() as desk:
        for number in range(200):
            await desk.record(str(number), (f"s|{number}",))
    path = tmp_path / FILE
    content = bytearray(path.read_bytes())
    middle = len(content) // 2 // 4096 * 4096
    content[middle : middle + 64] = b"\xff" * 64
    path.write_bytes(content)
    assert {rule for rule, _ in found(tmp_path)} == {"file"}
