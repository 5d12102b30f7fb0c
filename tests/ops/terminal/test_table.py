"""Tables keep what one copies out of them in one piece, in a pipe and on a narrow terminal."""

import contextlib
import fcntl
import io
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from engine.terminal import table as tables
from engine.terminal.table import PlainConsole, table
from tests.interchange.nursery import ran
from tests.ops.at_work import at_work, message
from tests.ops.command import command

LONG = "RB-" + "7" * 60
COLUMNS = ("Entry #", "Control ID", "State", "Reason", "Channel")
ROWS = [(7, LONG, "held", "ambiguous-identity unknown-authority and some more words", "riverbend-adt-of-the-north")]


def printed(console: PlainConsole) -> list[str]:
    """Print the table and return its lines."""
    console.print(table(COLUMNS, ROWS))
    return console.file.getvalue().splitlines()  # type: ignore[attr-defined, no-any-return]


def test_a_pipe_gets_cells_separated_by_tabs() -> None:
    """A header and a line for each row, nothing padded or cut off: `cut`, `awk` and a spreadsheet take it as it is."""
    assert printed(PlainConsole(file=io.StringIO())) == ["\t".join(COLUMNS), "\t".join(map(str, ROWS[0]))]


def test_a_table_of_no_rows_has_its_header() -> None:
    """So that a program tells nothing found from nothing printed."""
    console = PlainConsole(file=io.StringIO())
    console.print(table(COLUMNS, [], title="What was found"))
    assert console.file.getvalue() == "What was found\n" + "\t".join(COLUMNS) + "\n"  # type: ignore[attr-defined]


@pytest.mark.parametrize("value", ["a\tb", "a\nb", "a\x1b[31mb"])
def test_no_cell_makes_a_cell_or_a_row(value: str) -> None:
    """Whatever came from outside."""
    console = PlainConsole(file=io.StringIO())
    console.print(table(("One", "Two"), [(value, "  indented")]))
    (_, row) = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert row.split("\t") == [value.replace(value[1], "\N{REPLACEMENT CHARACTER}"), "indented"]


def on_a_terminal(*arguments: str, **environment: str) -> str:
    """Run a command as on a terminal of 100 columns, and return what it writes there."""
    primary, secondary = pty.openpty()
    fcntl.ioctl(secondary, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))
    clean = {name: value for name, value in os.environ.items() if name not in {"NO_COLOR", "FORCE_COLOR", "COLUMNS"}}
    with subprocess.Popen(
        [sys.executable, "-m", "engine", *arguments],
        stdout=secondary,
        stderr=subprocess.DEVNULL,
        env={**clean, "TERM": "xterm-256color", **environment},
    ):
        os.close(secondary)
        written = b""
        with contextlib.suppress(OSError):
            while read := os.read(primary, 65_536):
                written += read
    os.close(primary)
    return written.decode()


def test_only_a_terminal_is_shown_colors() -> None:
    """And none that says it wants none (NO_COLOR); a pipe gets words alone."""
    red = re.compile(r"\x1b\[[0-9;]*31m")
    assert red.search(on_a_terminal("reasons"))
    assert not red.search(on_a_terminal("reasons", NO_COLOR="1"))
    piped = ran("reasons").stdout
    assert "\x1b" not in piped
    assert "Code\tKind\tCan it wait?\tWhat it means\tWhat to do next\n" in piped


@pytest.mark.parametrize("width", [20, 40, 80, 120, 200])
def test_a_terminal_wraps_between_words_alone(width: int) -> None:
    """No identifier, code or number is broken, and none is cut off."""
    text = "\n".join(printed(PlainConsole(file=io.StringIO(), force_terminal=True, width=width, color_system=None)))
    for word in (word for value in ROWS[0] for word in str(value).split()):
        assert word in text, (width, word)
    assert "…" not in text


def test_a_wide_terminal_is_not_filled() -> None:
    """A table that fits is as wide as it is."""
    assert (
        max(map(len, printed(PlainConsole(file=io.StringIO(), force_terminal=True, width=300, color_system=None))))
        < 200
    )


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
