"""Full text: words of messages, indexed behind the journal's back, and those that are not indexed yet."""

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlite_utils.utils import sqlite3

from engine.database.sqlite import SqliteError
from engine.journal.file.database import open_reader
from engine.journal.read.reading import Filters, Reader
from engine.journal.read.texts import FILE, PIECE, Indexing, Texts, open_index
from engine.journal.read.wording import Phrases, text_of, words
from tests.journal.desk import Desk, Opener

PID = "MSH|^~\\&|ADT|RVB|||20260301||ADT^A08|{}|P|2.5.1{}\rPID|1||{}^^^RVB^MR||{}\r"


@pytest.fixture
def address() -> str:
    """Give no address: the index of words stands beside SQLite's file."""
    return ""


def message(control_id: str, number: str, name: str, charset: str = "") -> str:
    """Return a message with a number and a name."""
    return PID.format(control_id, f"||||||{charset}" if charset else "", number, name)


async def filled(desk: Desk) -> None:
    """Three entries of two patients."""
    await desk.record("c1", ("s|1",), raw=message("c1", "RB-1004", "Quintero^Marisol").encode())
    await desk.record("c2", ("s|2",), raw=message("c2", "RB-1005", "Núñez^José").encode())
    await desk.record("c3", ("s|1",), raw=message("c3", "1004-RB", "Quintero^Mario").encode())


async def eventually(holds: Callable[[], bool]) -> None:
    """Wait until something holds; a test that waits for nothing times out."""
    async with asyncio.timeout(60):
        while not holds():  # noqa: ASYNC110 - a thread makes it true
            await asyncio.sleep(0.01)


@contextlib.contextmanager
def indexing(folder: Path) -> Iterator[Indexing]:
    """Give the steps of indexing a folder's journal."""
    with contextlib.closing(open_reader(folder)) as journal, contextlib.closing(open_index(folder)) as index:
        yield Indexing(journal, index)


CASES = [
    pytest.param("quintero", [3, 1], id="a word, whatever its case"),
    pytest.param("nunez", [2], id="without accents"),
    pytest.param("Núñez", [2], id="with accents"),
    pytest.param("Marisol Quintero", [1], id="both words, in any order"),
    pytest.param("mari*", [3, 1], id="how a word begins"),
    pytest.param("mari", [], id="a word is whole"),
    pytest.param("RB-1004", [1], id="words in a row"),
    pytest.param("quintero^mari*", [3, 1], id="words in a row, the last one begun"),
    pytest.param("quintero giraffe", [], id="one that is nowhere"),
    pytest.param("adt", [3, 2, 1], id="in every message"),
    pytest.param('" OR * NEAR(', [], id="nothing of a query language"),
]


@pytest.mark.parametrize(("asked", "expected"), CASES)
@pytest.mark.parametrize("indexed", [pytest.param(0, id="none"), pytest.param(1, id="some"), pytest.param(3, id="all")])
async def test_messages_are_found_by_their_words(desk: Desk, asked: str, expected: list[int], indexed: int) -> None:
    """The same whether all of them are indexed, the older ones, or none."""
    await desk.record("c1", ("s|1",), raw=message("c1", "RB-1004", "Quintero^Marisol").encode())
    if indexed == 1:
        with indexing(desk.folder) as steps:
            steps.add()
    await desk.record("c2", ("s|2",), raw=message("c2", "RB-1005", "Núñez^José").encode())
    await desk.record("c3", ("s|1",), raw=message("c3", "1004-RB", "Quintero^Mario").encode())
    if indexed == 3:
        with indexing(desk.folder) as steps:
            steps.add()
    with Reader(desk.folder) as reader:
        assert [row.seq for row in reader.page(Filters(text=asked)).rows] == expected


CZECH = {"adt": "8859/2"}


@pytest.mark.parametrize("indexed", [pytest.param(False, id="none"), pytest.param(True, id="all")])
async def test_words_are_read_in_the_set_of_their_channel(desk: Desk, indexed: bool) -> None:
    """Where MSH-18 is empty; what it names holds before that, and another channel's bytes are read as before."""
    await desk.record("c1", ("s|1",), raw=message("c1", "RB-1", "Dvořák^Jiří").encode("iso8859-2"))
    await desk.record("c2", ("s|2",), raw=message("c2", "RB-2", "Dvořák^Jiří", "UNICODE UTF-8").encode())
    await desk.record("c3", ("s|3",), channel="other", raw=message("c3", "RB-3", "Núñez").encode("latin-1"))
    if indexed:
        with (
            contextlib.closing(open_reader(desk.folder)) as journal,
            contextlib.closing(open_index(desk.folder)) as index,
        ):
            Indexing(journal, index, CZECH).add()
    with Reader(desk.folder) as reader:
        found = {asked: reader.page(Filters(text=asked, charsets=CZECH)).rows for asked in ("dvorak jiri", "nunez")}
    assert {asked: [row.seq for row in rows] for asked, rows in found.items()} == {"dvorak jiri": [2, 1], "nunez": [3]}


async def test_a_channel_that_has_another_set_has_its_words_indexed_again(desk: Desk) -> None:
    """The thread looks what holds now, and begins the index anew where that has changed."""
    await desk.record("c1", ("s|1",), raw=message("c1", "RB-1", "Dvořák^Jiří").encode("iso8859-2"))
    now: list[dict[str, str]] = [{"adt": "UTF-8"}]
    texts = Texts(desk.folder, pytest.fail, lambda: now[-1])
    texts.start()

    def is_there() -> bool:
        with Reader(desk.folder) as reader:
            return _indexed(desk.folder) == 1 and bool(reader.page(Filters(text="dvorak", charsets=CZECH)).rows)

    try:
        await eventually(lambda: _indexed(desk.folder) == 1)
        assert not is_there()
        now.append(CZECH)
        await eventually(is_there)
    finally:
        texts.stop()


async def test_words_and_other_filters_hold_together(desk: Desk) -> None:
    """Text narrows what the other filters let through."""
    await filled(desk)
    with Reader(desk.folder) as reader:
        assert [row.seq for row in reader.page(Filters(text="quintero", control_id="c3")).rows] == [3]
        assert reader.page(Filters(text="quintero", patient="s|2")).rows == ()


async def test_what_left_the_journal_leaves_the_file(desk: Desk) -> None:
    """A body that is taken away is found no more, and its words stand nowhere in the index's pages."""
    await filled(desk)
    with indexing(desk.folder) as steps:
        steps.add()
        await desk.journal.act(lambda context: context.connection.execute("DELETE FROM payload WHERE seq = 2"))
        assert steps.forget() == 1
        assert steps.forget() == 0
        steps._index.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        content = (desk.folder / FILE).read_bytes()
    assert b"nunez" not in content
    with Reader(desk.folder) as reader:
        assert reader.page(Filters(text="nunez")).rows == ()
        assert [row.seq for row in reader.page(Filters(text="quintero")).rows] == [3, 1]


async def test_indexing_rests_between_a_few_messages_and_the_next(desk: Desk) -> None:
    """Whoever needs the interpreter waits for no more than a piece, and what is not yet indexed is found as well."""
    for number in range(2 * PIECE + 1):
        await desk.record(f"c{number}", ("s|1",), raw=message(f"c{number}", "RB-1004", "Quintero^Marisol").encode())
    found: list[list[int]] = []

    def rest(worked: float) -> None:
        assert worked >= 0
        with Reader(desk.folder) as reader:
            found.append([row.seq for row in reader.page(Filters(text="quintero")).rows])

    with indexing(desk.folder) as steps:
        steps.add(rest)
    assert found == [list(range(2 * PIECE + 1, 0, -1))] * 3


async def test_the_thread_indexes_what_comes_and_begins_anew_where_the_file_is_damaged(desk: Desk) -> None:
    """What was recorded is indexed soon; a file that is no database is made again, and somebody is told."""
    failures: list[BaseException] = []
    (desk.folder / FILE).write_bytes(b"no database, but long enough to be looked at as one" * 40)
    texts = Texts(desk.folder, failures.append)
    await filled(desk)
    texts.start()
    try:
        await eventually(lambda: bool(failures))
    finally:
        texts.stop()
    again = Texts(desk.folder, failures.append)
    again.start()
    try:
        await eventually(lambda: _indexed(desk.folder) == 3)
    finally:
        again.stop()
    assert len(failures) == 1


async def test_an_index_of_another_journal_is_not_believed(opened: Opener, tmp_path: Path) -> None:
    """After a restore the words are read themselves, and the index is made anew."""
    async with opened(tmp_path) as desk:
        await filled(desk)
        with indexing(tmp_path) as steps:
            steps.add()
    for name in ("journal.db", "journal.db-wal", "journal.db-shm"):
        (tmp_path / name).unlink(missing_ok=True)
    async with opened(tmp_path) as desk:
        for number in range(4):
            await desk.record(f"d{number}", ("s|9",), raw=message(f"d{number}", "RB-9", "Zebra").encode())
        with Reader(tmp_path) as reader:
            assert [row.seq for row in reader.page(Filters(text="zebra")).rows] == [4, 3, 2, 1]
            assert reader.page(Filters(text="quintero")).rows == ()
        texts = Texts(tmp_path, pytest.fail)
        texts.start()
        try:
            await eventually(lambda: _indexed(tmp_path) == 4)
        finally:
            texts.stop()


def _indexed(folder: Path) -> int:
    """Return how far the index is, 0 where there is none yet; a thread that replaces the file is not disturbed."""
    address = f"{(folder / FILE).absolute().as_uri()}?mode=ro"
    with contextlib.suppress(SqliteError), contextlib.closing(sqlite3.connect(address, uri=True)) as index:
        row = index.execute("SELECT seq FROM indexed").fetchone()
        return int(row[0]) if row else 0  # between two statements of its making the table is empty
    return 0


async def test_nothing_is_indexed_while_the_disk_is_short_of_room(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """What room there is belongs to the journal; searching goes on without."""
    await filled(desk)
    monkeypatch.setattr("engine.journal.read.texts.free_bytes_kept", lambda _folder: 2**62)
    texts = Texts(desk.folder, pytest.fail)
    texts.start()
    await eventually((desk.folder / FILE).exists)
    texts.stop()
    assert _indexed(desk.folder) == 0
    with Reader(desk.folder) as reader:
        assert [row.seq for row in reader.page(Filters(text="quintero")).rows] == [3, 1]


@pytest.mark.parametrize("content", [pytest.param(b"no database" * 99, id="none"), pytest.param(b"", id="empty")])
async def test_a_search_does_without_an_index_that_cannot_be_used(desk: Desk, content: bytes) -> None:
    """What is no database, and one that was never filled, is passed over: every body is read."""
    await filled(desk)
    (desk.folder / FILE).write_bytes(content)
    with Reader(desk.folder) as reader:
        assert [row.seq for row in reader.page(Filters(text="quintero")).rows] == [3, 1]


async def test_an_index_of_another_version_is_made_again(desk: Desk) -> None:
    """Readers pass it over; whoever opens it for writing begins anew."""
    await filled(desk)
    with indexing(desk.folder) as steps:
        steps.add()
        steps._index.execute("PRAGMA user_version = 99")
    with Reader(desk.folder) as reader:
        assert [row.seq for row in reader.page(Filters(text="quintero")).rows] == [3, 1]
    with contextlib.closing(open_index(desk.folder)) as index:
        assert index.execute("SELECT seq FROM indexed").fetchone()[0] == 0


async def test_sealed_messages_have_no_index(desk: Desk) -> None:
    """An index that is there goes away, and a search by words says why it cannot be."""
    await filled(desk)
    with indexing(desk.folder) as steps:
        steps.add()
    await desk.journal.act(
        lambda context: context.connection.execute("INSERT INTO seal_key (day, wrapped) VALUES (1, x'00')")
    )
    texts = Texts(desk.folder, pytest.fail)
    texts.start()
    await eventually(lambda: not (desk.folder / FILE).exists())
    texts.stop()
    with Reader(desk.folder) as reader, pytest.raises(Exception, match="sealed"):
        reader.page(Filters(text="quintero"))


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        pytest.param(message("1", "1", "Núñez").encode(), "Núñez", id="UTF-8 by default"),
        pytest.param(message("1", "1", "Núñez").encode("latin-1"), "Núñez", id="Latin-1 where it is no UTF-8"),
        pytest.param(message("1", "1", "Żółć", "8859/2").encode("iso8859_2"), "Żółć", id="what MSH-18 names"),
        pytest.param(b"\x00\xff no message", "no message", id="no message at all"),
    ],
)
def test_bytes_are_read_as_text_whatever_they_are(raw: bytes, expected: str) -> None:
    """A text for every entry; nothing is refused."""
    assert expected in text_of(raw)


def test_escapes_part_words() -> None:
    """An escaped delimiter is none of a word's letters."""
    assert words("O\\T\\Hara\\.br\\x") == ["o", "hara", "x"]
    assert not Phrases(" -- ")
