"""The checkpointer: the log is moved into the file beside the writer, and does not grow while messages come in."""

import asyncio
import threading
from pathlib import Path

import pytest

from engine.journal.file.database import FILE, log_length, move_log, open_beside, open_to_write
from engine.journal.write.backend import Checkpointer
from tests.journal.desk import Desk, Opener

PAGES = 128
PAGE = 2048


def _rest(checkpointer: Checkpointer) -> bool:
    """Wait until the log was moved; say whether it was."""
    return any(checkpointer.leaves_a_rest() or threading.Event().wait(0.02) for _ in range(500))


def test_a_long_log_is_moved_and_the_writer_told_once(tmp_path: Path) -> None:
    """At the length that it is told the log is in the file, though its writer has done nothing."""
    writer = open_to_write(tmp_path / FILE, log_bytes=1 << 40)
    checkpointer = Checkpointer(tmp_path / FILE, PAGES * PAGE)
    checkpointer.start()
    try:
        for number in range(PAGES):
            writer.execute("INSERT INTO stopped (channel, since, by) VALUES (?, 0, '')", (str(number),))
        assert log_length(writer)[0] >= PAGES
        assert _rest(checkpointer)
        assert log_length(writer)[1] >= PAGES
        assert not checkpointer.leaves_a_rest()
        move_log(writer)
        writer.execute("DELETE FROM stopped")
        assert log_length(writer)[0] < PAGES
    finally:
        checkpointer.stop()
        writer.close()


def test_what_goes_wrong_is_the_writers_to_hear(tmp_path: Path) -> None:
    """A file that cannot be opened stops the writer at its next look."""
    checkpointer = Checkpointer(tmp_path / "nowhere" / FILE, PAGES * PAGE)
    checkpointer.start()
    with pytest.raises(Exception, match="unable to open"):
        _rest(checkpointer)
    checkpointer.stop()


@pytest.mark.parametrize("address", ["sqlite"], indirect=True)
async def test_the_log_begins_anew_while_messages_come_in(opened: Opener) -> None:
    """With a sender that never rests the log keeps its length: what the writer added meanwhile is moved by itself."""
    async with opened(reserve_bytes=2 * PAGES * PAGE) as desk:
        number, longest, began = 0, 0, 0
        with_reader = open_beside(desk.folder / FILE)
        before = 0
        while began < 3:
            await asyncio.gather(*(_record(desk, number + one) for one in range(4)))
            number += 4
            pages, _moved = log_length(with_reader)
            longest, began, before = max(longest, pages), began + (pages < before), pages
        with_reader.close()
    assert not desk.failures
    assert longest < 4 * PAGES


async def _record(desk: Desk, number: int) -> None:
    await desk.journal.record(desk.entry(str(number), (f"s|{number}",), raw=b"x" * 2000))
