"""`adt-engine help` and `adt-engine reasons`: the help pages and the table of reasons in the terminal."""

import re
from typing import Annotated, Final

import typer
from rich.markdown import Markdown

from engine.ops.operations.reasons import ListReasons
from engine.ops.terminal.command import takes
from engine.ops.terminal.completion import pages
from engine.ops.views.handbook import PAGES, linked, page_of
from engine.ops.views.reasons import Reason, lines, reason_of
from engine.terminal.options import Json
from engine.terminal.table import NEGATIVE, POSITIVE, cell, output, print_json, print_line, table

_LINK: Final = re.compile(r"\[([^\]]+)\]\(([^)\s]+)\)")


def help_(
    page: Annotated[
        str, typer.Argument(help="A page, such as repair; the list of them without it.", autocompletion=pages)
    ] = "",
    as_json: Json = False,
) -> None:
    """Show a help page, or list all pages: one a task, from day one to an incident.

    On a terminal it is laid out; piped (`| less`) it is Markdown as written.

    Example: adt-engine help repair
    """
    console = output()
    if as_json:
        shown = [page_of(page)] if page else list(PAGES.values())
        rows = [{"page": one.name, "title": one.title, "purpose": one.purpose, "text": one.text()} for one in shown]
        print_json(rows[0] if page else rows)
        return
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


@takes(ListReasons, code="[CODE]")
def reasons(request: ListReasons, as_json: Json = False) -> None:
    """Say what a reason means, whether it can wait until morning, and what to do next.

    Example: adt-engine reasons ambiguous-identity
    """
    rows = lines(request.code, request.kind)
    if as_json:
        print_json(rows)
        return
    if request.code:
        _print(reason_of(request.code))
        return
    headings = ("Code", "Kind", "Wait?", "What it means", "What to do next")
    output().print(table(headings, map(_row, rows)))


def _print(reason: Reason) -> None:
    print_line(f"{reason.code} ({', '.join(reason.kinds) or 'not of this engine'})")
    print_line(reason.meaning)
    print_line(f"This {'can' if reason.can_wait else 'cannot'} wait until morning.")
    print_line(f"Next: {reason.next_step}")


def _row(reason: Reason) -> tuple[object, ...]:
    wait = cell("until morning", POSITIVE) if reason.can_wait else cell("no", NEGATIVE)
    return reason.code, ", ".join(reason.kinds), wait, reason.meaning, reason.next_step
