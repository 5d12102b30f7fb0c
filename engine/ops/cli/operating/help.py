"""`adt-engine help` and `adt-engine reasons`: the help pages and the table of reasons in the terminal."""

import re
from typing import Annotated, Final

import typer
from rich.markdown import Markdown

from engine.config.model import nearest
from engine.errors import UsageError
from engine.ops.operations.alerts import ListReasons
from engine.ops.terminal.command import takes
from engine.ops.terminal.completion import pages
from engine.ops.views.handbook import PAGES, HelpPage, linked
from engine.ops.views.handbook_search import find_reasons, search
from engine.ops.views.reasons import Reason, lines
from engine.terminal.options import AsJson
from engine.terminal.table import NEGATIVE, POSITIVE, cell, output, print_json, print_line, remark, table

SHOWN: Final = 20
_LINK: Final = re.compile(r"\[([^\]]+)\]\(([^)\s]+)\)")


def help_(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[WORD]...",
            help="A page, such as repair, or words to search for; the list of pages without any.",
            autocompletion=pages,
            show_default=False,
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show a help page, search all pages for words, or list the pages.

    On a terminal a page is laid out; piped (`| less`) it is Markdown as written.

    Example: adt-engine help repair

    Example: adt-engine help leading zeros
    """
    if not words:
        _list(as_json=as_json)
        return
    page = PAGES.get("-".join(words).lower())
    if page:
        _show(page, as_json=as_json)
        return
    _search(words, as_json=as_json)


def _list(*, as_json: bool) -> None:
    if as_json:
        print_json([_value(page) for page in PAGES.values()])
        return
    output().print(table(("Page", "For"), ((page.name, page.purpose) for page in PAGES.values())))


def _show(page: HelpPage, *, as_json: bool) -> None:
    console = output()
    if as_json:
        print_json(_value(page))
    elif console.is_terminal:
        console.print(Markdown(_LINK.sub(lambda link: _named(page.name, link), page.text())))
    else:
        typer.echo(page.text(), nl=False)


def _value(page: HelpPage) -> dict[str, str]:
    return {"page": page.name, "title": page.title, "purpose": page.purpose, "text": page.text()}


def _search(words: list[str], *, as_json: bool) -> None:
    """Print the sections that hold all words; UsageError, with the nearest page, where there are none."""
    hits = search(words)
    if not hits:
        raise UsageError(f"no help page has this name, and no section holds {_all(words)}; {nearest(words[0], PAGES)}")
    if as_json:
        print_json([{"page": hit.page, "section": hit.heading, "excerpt": hit.excerpt} for hit in hits])
        return
    shown = hits[:SHOWN]
    output().print(table(("Page", "Section", "Says"), ((hit.page, hit.heading, hit.excerpt) for hit in shown)))
    more = len(hits) - len(shown)
    if more:
        remark(f"{more} more sections hold {_all(words)}: add a word, or see all with --json.")
    remark(f"Read one: adt-engine help {hits[0].page}")


def _all(words: list[str]) -> str:
    return "this word" if len(words) == 1 else "all these words"


def _named(page: str, link: re.Match[str]) -> str:
    """Return a link as a terminal can follow it: its text, and the page to ask for where that is another one.

    A link to a reason is the reason's code, which `adt-engine reasons` takes as it is.
    """
    text, target = link.groups()
    name, _, place = (linked(page, target) or "").partition("#")
    return text if name in {"", page} or text == f"`{place}`" else f"{text} (`help {name}`)"


@takes(ListReasons, code="[CODE]")
def reasons(request: ListReasons, as_json: AsJson = False) -> None:
    """Say what a reason means, whether it can wait until morning, and what to do next.

    A word that is no code finds the reasons that hold it, and those of a symptom.

    Example: adt-engine reasons ambiguous-identity

    Example: adt-engine reasons umlaut
    """
    rows = lines(request.code, request.kind)
    if as_json:
        print_json(rows)
        return
    if request.code:
        found = () if rows[0].kinds else find_reasons(request.code).reasons
        if not found:
            _print(rows[0])
            return
        rows = list(found)
    headings = ("Code", "Kind", "Can it wait?", "What it means", "What to do next")
    output().print(table(headings, map(_row, rows)))


def _print(reason: Reason) -> None:
    print_line(f"{reason.code} ({', '.join(reason.kinds) or 'not of this engine'})")
    print_line(reason.meaning)
    print_line(f"This {'can' if reason.can_wait else 'cannot'} wait until morning.")
    print_line(f"Next: {reason.next_step}")


def _row(reason: Reason) -> tuple[object, ...]:
    wait = cell("until morning", POSITIVE) if reason.can_wait else cell("no", NEGATIVE)
    return reason.code, ", ".join(reason.kinds), wait, reason.meaning, reason.next_step
