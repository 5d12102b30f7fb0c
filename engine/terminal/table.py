"""What the terminal shows: tables, progress and errors, safe for any text that came from outside."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import orjson
import typer
from pydantic import BaseModel
from rich.console import Console, JustifyMethod
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

POSITIVE: Final = "green"
NEGATIVE: Final = "red"
PIPED: Final = 100_000
BETWEEN: Final = 2


class PlainConsole(Console):
    """A console that breaks no word: a narrow terminal wraps what is wider, and a pipe gets tables tab-separated."""

    def __init__(self, **options: Any) -> None:
        super().__init__(highlight=False, **options)
        if not self.is_terminal:
            self.width = PIPED

    def print(self, *objects: Any, **options: Any) -> None:
        """Print; a table as wide as its longest words ask, in a pipe without padding, a line for each row."""
        if not self.is_terminal and len(objects) == 1 and isinstance(objects[0], Table):
            # Written as it is: to print a tab is to expand it.
            self.file.writelines(f"{line}\n" for line in _tab_separated(objects[0]))
            return
        tables = [one.columns for one in objects if isinstance(one, Table)]
        least = [sum((column.min_width or 0) + BETWEEN for column in columns) for columns in tables]
        before, self.width = self.width, max(self.width, *least, 0)
        super().print(*objects, **options)
        self.width = before


def _tab_separated(shown: Table) -> Iterator[str]:
    """Yield a table's title where it has one, its header, and its rows; no cell holds a tab or a line end."""
    if shown.title:
        yield str(shown.title)
    columns = [[column.header, *column.cells] for column in shown.columns]
    yield from ("\t".join(str(part).strip() for part in row) for row in zip(*columns, strict=True))


def output() -> Console:
    """Return a console on standard output, for the result of a command."""
    return PlainConsole()


def errors() -> Console:
    """Return a console on standard error, for progress and for what went wrong."""
    return PlainConsole(stderr=True)


def print_line(text: str, style: str = "") -> None:
    """Print a text on standard output unchanged; a terminal wraps it."""
    output().print(cell(text, style), soft_wrap=True)


def note(text: str, style: str = "") -> None:
    """Print a text on standard error: what a person should know, and a pipe should not have."""
    errors().print(cell(text, style), soft_wrap=True)


def remark(text: str, style: str = "") -> None:
    """Print what belongs to a table, below it; where standard output is a pipe, on standard error."""
    (print_line if output().is_terminal else note)(text, style)


def print_json(value: object) -> None:
    """Write a value as JSON on standard output, for --json."""
    typer.echo(orjson.dumps(value, option=orjson.OPT_INDENT_2, default=_plain))


def _plain(value: object) -> object:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", by_alias=True, exclude_unset=True)
    raise TypeError(f"{type(value).__name__} is no JSON")


def cell(value: object, style: str = "") -> Text:
    """Return a cell that is shown unchanged: no markup, no control characters."""
    text = "" if value is None else str(value)
    return Text("".join(mark if mark.isprintable() else "�" for mark in text), style=style)


def utc(moment: str | None) -> str:
    """Return a moment of an answer to the second, as tables show it; nothing for None."""
    return (moment or "")[:19].replace("T", " ")


def table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, title: str = "") -> Table:
    """Return a table of rows; a cell that is no rich Text is made one."""
    made = Table(title=title or None, title_justify="left", box=None, pad_edge=False, header_style="bold")
    cells = [[part if isinstance(part, Text) else cell(part) for part in row] for row in rows]
    for number, column in enumerate(columns):
        texts = [column, *(row[number].plain for row in cells)]
        whole = all(len(text.split()) < 2 for text in texts[1:])
        longest = max(len(part) for text in texts for part in ([text] if whole else [*text.split(), ""]))
        justify: JustifyMethod = "right" if column.endswith((" ms", "#")) else "left"
        made.add_column(column, justify=justify, overflow="fold", no_wrap=whole, min_width=longest)
    for parts in cells:
        made.add_row(*parts)
    return made


def progress(*, shown: bool) -> Progress:
    """Return a progress bar on standard error; it is silent where `shown` is false or nobody watches."""
    console = errors()
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not shown or not console.is_terminal,
    )
