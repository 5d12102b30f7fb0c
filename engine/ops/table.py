"""What the terminal shows: tables, progress and errors, safe for any text that came from outside."""

from collections.abc import Iterable, Sequence
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

POSITIVE: Final = "green"
NEGATIVE: Final = "red"


def output() -> Console:
    """Return a console on standard output, for what the command is asked for."""
    return Console(highlight=False, soft_wrap=False)


def errors() -> Console:
    """Return a console on standard error, for progress and for what went wrong."""
    return Console(stderr=True, highlight=False)


def cell(value: object, style: str = "") -> Text:
    """Return a cell that is shown as it stands: no markup, no control characters."""
    text = "" if value is None else str(value)
    return Text("".join(mark if mark.isprintable() else "�" for mark in text), style=style)


def table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, title: str = "") -> Table:
    """Return a table of rows; a cell that is no rich Text is made one."""
    made = Table(title=title or None, title_justify="left", box=None, pad_edge=False, header_style="bold")
    for column in columns:
        made.add_column(column, justify="right" if column.endswith((" ms", "#")) else "left", overflow="fold")
    for row in rows:
        made.add_row(*(part if isinstance(part, Text) else cell(part) for part in row))
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
