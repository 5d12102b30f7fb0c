"""Patients by parts of names and numbers: indexed or read, newest first, bounded in time and number."""

import contextlib

import pytest
from sqlite_utils.utils import sqlite3

from engine.journal.file.database import open_reader
from engine.journal.read.persons import FoundPersons, find_persons, kept
from engine.journal.read.texts import FILE, Indexing, open_index
from engine.journal.read.wording import Parts, person_of
from tests.journal.desk import Desk

PID = "MSH|^~\\&|ADT|RVB|||20260301||ADT^A08|{}|P|2.5.1||||||UNICODE UTF-8\rPID|1||{}||{}\rPV1|1|I|||||||||||||||||{}\r"
SAID = (
    ("RB-1004^^^RVB^MR", "Quintero^Marisol", "V77"),
    ("RB-2005^^^RVB^MR~991^^^LAB^PI", "Núñez^José~Alias^Pepe", ""),
    ("1004-RB^^^RVB^MR", "Quintero^Mario", "V12"),
    ("RB-1004^^^RVB^MR", "Quintero^Marisol", "V77"),
)
LANES = {"RB-1004": 1, "RB-2005": 2, "1004-RB": 3}


@pytest.fixture
def address() -> str:
    """Give no address: the index stands next to SQLite's file."""
    return ""


async def filled(desk: Desk) -> None:
    """Four messages of three patients, who are lanes 1 to 3."""
    for at, (number, name, visit) in enumerate(SAID, 1):
        raw = PID.format(f"c{at}", number, name, visit).encode()
        await desk.record(f"c{at}", (f"s|{number.split('^')[0]}",), raw=raw)


def index(desk: Desk) -> None:
    """Index all that there is."""
    with contextlib.closing(open_reader(desk.folder)) as journal, contextlib.closing(open_index(desk.folder)) as opened:
        Indexing(journal, opened).add()


def found(desk: Desk, asked: str, most: int = 20) -> FoundPersons:
    """Search."""
    return find_persons(desk.folder, asked, {}, most)


CASES = [
    pytest.param("inter", [(1, 4), (3, 3)], id="within a name"),
    pytest.param("QUINT mari", [(1, 4), (3, 3)], id="two parts, whatever their case"),
    pytest.param("Quintero, Marisol", [(1, 4)], id="as it is shown"),
    pytest.param("nunez", [(2, 2)], id="without accents"),
    pytest.param("pepe", [(2, 2)], id="another name"),
    pytest.param("100", [(1, 4), (3, 3)], id="within a number"),
    pytest.param("B-10", [(1, 4)], id="with what is between"),
    pytest.param("991", [(2, 2)], id="a second number"),
    pytest.param("quin 1004-", [(3, 3), (1, 4)], id="name and number"),
    pytest.param("v77", [(1, 4)], id="a visit"),
    pytest.param("quintero giraffe", [], id="one part that is nowhere"),
    pytest.param("rvb", [], id="an authority is no number"),
    pytest.param("adt", [], id="what is not of the patient"),
    pytest.param('" OR "qui', [], id="nothing of a query language"),
    pytest.param("qui ma", [(1, 4), (3, 3)], id="a short part narrows"),
]


@pytest.mark.parametrize(("asked", "expected"), CASES)
@pytest.mark.parametrize("indexed", [False, True], ids=["read", "indexed"])
async def test_patients_are_found_by_parts(
    desk: Desk, asked: str, expected: list[tuple[int, int]], indexed: bool
) -> None:
    """By lane with their newest entry, the same with an index and without one."""
    await filled(desk)
    if indexed:
        index(desk)
    shown = found(desk, asked)
    assert sorted(shown.persons) == sorted(expected)
    assert [seq for _, seq in shown.persons] == sorted((seq for _, seq in shown.persons), reverse=True)
    assert (shown.more, shown.messages, shown.back_to) == (False, 4, None)
    assert kept(desk.folder) == (4, shown.oldest_at)


async def test_a_patient_of_many_messages_has_one_row_that_moves_on(desk: Desk) -> None:
    """The same words again are no row of their own; retention takes the row with the newest message that said them."""
    await filled(desk)
    index(desk)
    with contextlib.closing(sqlite3.connect(desk.folder / FILE)) as opened:
        assert opened.execute("SELECT seq FROM person ORDER BY seq").fetchall() == [(2,), (3,), (4,)]
    await desk.journal.write(lambda connection: connection.execute("DELETE FROM payload WHERE seq IN (1, 2)"))
    with contextlib.closing(open_reader(desk.folder)) as journal, contextlib.closing(open_index(desk.folder)) as opened:
        assert Indexing(journal, opened).forget() == 2
    assert [found(desk, one).persons for one in ("nunez", "marisol")] == [(), ((1, 4),)]
    assert b"nunez" not in (desk.folder / FILE).read_bytes()


async def test_a_page_is_bounded_and_says_so(desk: Desk) -> None:
    """More than were asked for; and with the time over, how far back was read."""
    await filled(desk)
    shown = found(desk, "quintero", most=1)
    assert (shown.persons, shown.more) == (((1, 4),), True)
    ticks = iter(range(100))
    late = find_persons(desk.folder, "giraffe", {}, 20, clock=lambda: float(next(ticks)))
    assert (late.persons, late.back_to is not None) == ((), True)


@pytest.mark.parametrize(
    ("asked", "usable"), [("qu", False), ("q u i", False), ("RB-", False), ("B-1", True), ("qu int", True), ("", False)]
)
def test_one_part_has_three_characters(asked: str, usable: bool) -> None:
    """Fewer name too many to look through."""
    assert bool(Parts(asked)) is usable


@pytest.mark.parametrize(
    "text", ["", "MSH", "MSH|^~\\&", "PID|1||5||Quintero", "no message\rPID|1", "MSH|^~\\&|\rPV1|1"], ids=str
)
def test_what_is_no_message_says_nobody(text: str) -> None:
    """Nothing is made up of it, and nothing is raised."""
    assert person_of(text) == ""
