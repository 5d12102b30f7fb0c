"""`adt-engine help`: the help pages in the terminal."""

import re
from typing import Annotated, Final

import typer
from rich.markdown import Markdown

from engine.ops.terminal.table import output, table
from engine.ops.views.handbook import PAGES, linked, page_of

_LINK: Final = re.compile(r"\[([^\]]+)\]\(([^)\s]+)\)")


def show(
    page: Annotated[str, typer.Argument(help="A page, such as repair; the list of them without it.")] = "",
) -> None:
    """Show a help page, or list all pages: one a task, from day one to an incident.

    On a terminal it is laid out; piped (`| less`) it is Markdown as written.

    Example: adt-engine help repair
    """
    console = output()
    if not page:
        console.print(table(("Page", "For"), ((one.name, one.purpose) for one in PAGES.values())))
        return
    found = page_of(page)
    if console.is_terminal:
        console.print(Markdown(_LINK.sub(lambda link: _named(found.name, link), found.text())))
    else:
        typer.echo(found.text(), nl=False)


def _named(page: str, link: re.Match[str]) -> str:
    """Return a link as a terminal can follow it: its text, and the page to ask for where that is another one.

    A link to a reason is the reason's code, which `adt-engine reasons` takes as it is.
    """
    text, target = link.groups()
    name, _, place = (linked(page, target) or "").partition("#")
    return text if name in {"", page} or text == f"`{place}`" else f"{text} (`help {name}`)"
