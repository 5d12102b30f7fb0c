"""A report as one HTML file that can be sent on: it loads nothing, runs nothing, and escapes all that it is given."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple

import typer
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from engine import __version__
from engine.errors import UsageError
from engine.ops.views.answer import AnyJson
from engine.terminal.table import note

TEMPLATES: Final = Environment(
    loader=FileSystemLoader(Path(__file__).parent),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)

EMPTY: Final = "(empty)"

Html = Annotated[
    Path | None, typer.Option("--html", help="Write the report as one HTML file, too.", metavar="FILE", dir_okay=False)
]


class ReportSection(NamedTuple):
    """A table of a report: the key of its rows, its title, its columns (key to heading), and what to know of it.

    Rows of text alone are a single column.
    """

    key: str
    title: str
    columns: Mapping[str, str]
    about: str = ""


def write_page(
    file: Path, title: str, facts: Sequence[str], sections: Sequence[ReportSection], made: Mapping[str, AnyJson]
) -> None:
    """Write a report, each section of it that has rows; UsageError where the file cannot be written."""
    text = page(title, facts, sections, made)
    try:
        file.write_text(text, "utf-8", errors="replace")
    except OSError as error:
        raise UsageError(f"--html {file} cannot be written ({error.strerror}); name another file") from error
    note(f"wrote {file}")


def page(title: str, facts: Sequence[str], sections: Sequence[ReportSection], made: Mapping[str, AnyJson]) -> str:
    """Return a report as HTML."""
    shown = [(section, [list(map(_plain, cells(section, row))) for row in made[section.key]]) for section in sections]
    return TEMPLATES.get_template("page.html").render(
        title=title, facts=facts, sections=[one for one in shown if one[1]], version=__version__
    )


def cells(section: ReportSection, row: Any) -> list[str]:
    """Return the columns of a row; the first is not empty."""
    values = [row[key] for key in section.columns] if isinstance(row, dict) else [row]
    texts = [", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value) for value in values]
    return [texts[0] or EMPTY, *texts[1:]]


def _plain(text: str) -> str:
    return "".join(mark if mark.isprintable() else "\N{REPLACEMENT CHARACTER}" for mark in text)
