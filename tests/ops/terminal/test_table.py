"""Tables keep what one copies out of them in one piece, in a pipe and on a narrow terminal."""

import io
from pathlib import Path

import pytest

from engine.ops.terminal import table as tables
from engine.ops.terminal.table import Whole, table
from tests.ops.at_work import at_work, message
from tests.ops.command import command

LONG = "RB-" + "7" * 60
COLUMNS = ("Entry #", "Control ID", "State", "Reason", "Channel")
ROWS = [(7, LONG, "held", "ambiguous-identity unknown-authority and some more words", "riverbend-adt-of-the-north")]


def printed(console: Whole) -> list[str]:
    """Print the table and return its lines."""
    console.print(table(COLUMNS, ROWS))
    return console.file.getvalue().splitlines()  # type: ignore[attr-defined, no-any-return]


def test_a_pipe_has_a_line_for_each_row() -> None:
    """However long: `grep` and `awk` find the whole of it."""
    lines = printed(Whole(file=io.StringIO()))
    assert len(lines) == 2
    assert all(str(value) in lines[1] for value in ROWS[0])


@pytest.mark.parametrize("width", [20, 40, 80, 120, 200])
def test_a_terminal_wraps_between_words_alone(width: int) -> None:
    """No identifier, code or number is broken, and none is cut off."""
    text = "\n".join(printed(Whole(file=io.StringIO(), force_terminal=True, width=width, color_system=None)))
    for word in (word for value in ROWS[0] for word in str(value).split()):
        assert word in text, (width, word)
    assert "…" not in text


def test_a_wide_terminal_is_not_filled() -> None:
    """A table that fits is as wide as it is."""
    assert max(map(len, printed(Whole(file=io.StringIO(), force_terminal=True, width=300, color_system=None)))) < 200


def test_sentences_in_a_pipe_are_one_line() -> None:
    """Standard error and output alike."""
    for made in (tables.output, tables.errors):
        console = made()
        console.file = io.StringIO()
        console.print("a word " * 60)
        assert len(console.file.getvalue().splitlines()) == 1


async def test_the_list_of_messages_in_a_pipe_names_each_control_id(tmp_path: Path) -> None:
    """Of the real command."""
    ids = [b"C-" + bytes([65 + number]) * 90 for number in range(2)]
    feed = [message(one, b"RB-%d" % at) for at, one in enumerate(ids, 10)]
    async with at_work(tmp_path, *feed, ended=("delivered", "delivered")) as rig:
        for words in (("messages", "list"), ("messages", "show", "3")):
            done = await command(*words, data=rig.folder / "data")
            assert ids[0].decode() in done.stdout, words
