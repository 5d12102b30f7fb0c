"""`adt-engine messages list`: entries that filters choose, newest first, page by page; or as they come."""

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Final

import orjson
import typer

from engine.ops.operations.messages import PRIVATE, ListMessages, SearchMessages
from engine.ops.terminal.command import ask_or_read, takes
from engine.ops.views.entry import RowFacts
from engine.ops.views.phrases import phrase
from engine.ops.views.reasons import reason_of, text_of
from engine.ops.views.view import FactsPage, RowPage
from engine.terminal.options import DATA, LIMIT, AsJson, Data
from engine.terminal.table import NEGATIVE, cell, output, print_json, remark, table, utc

BAD: Final = frozenset({"held", "rejected"})
HEADINGS: Final = ("Entry #", "Received (UTC)", "Event", "Control ID", "ACK", "State", "Reason", "Channel")
# Widths of a row that is printed alone: what is longer takes more.
WIDTHS: Final = (8, 14, 12, 20, 3, 9, 24, 0)
EVERY_SECONDS: Final = 1.0

Follow = Annotated[
    bool, typer.Option("--follow", "-f", help="Go on with each new entry as it comes, oldest first, until Ctrl-C.")
]


@takes(SearchMessages, limit=LIMIT)
def list_(request: SearchMessages, data: Data = DATA, as_json: AsJson = False, follow: Follow = False) -> None:
    """List entries, newest first; an entry must match all filters.

    With --follow they come oldest first, and it goes on with each new one.

    Example: adt-engine messages list --state held --since 12h --data /var/lib/adt-engine
    """
    if follow:
        _follow(request, data, as_json=as_json)
        return
    found = _page(request, data)
    if as_json:
        print_json(found)
        return
    show(found.entries)
    if found.searched_back_to:
        remark(f"searched back to {found.searched_back_to}; continue with --before {found.before}", "yellow")
    elif found.before:
        remark(f"next page: --before {found.before}")


def _page(request: SearchMessages, data: Path) -> RowPage | FactsPage:
    if any(getattr(request, name) for name in PRIVATE):
        return ask_or_read(data, request)
    return ask_or_read(data, ListMessages.parse(request.given()))


def _follow(request: SearchMessages, data: Path, *, as_json: bool) -> None:
    """Print the newest page, then what comes: each entry once, in the state that it has when it is first seen."""
    if not as_json:
        _print_alone(HEADINGS)
    last = 0
    while True:
        for row in reversed(list(_newer(request, data, last))):
            last = row.entry
            if as_json:
                typer.echo(orjson.dumps(row.model_dump(mode="json", by_alias=True, exclude_unset=True)))
            else:
                _print_alone(_row(row))
        time.sleep(EVERY_SECONDS)


def _newer(request: SearchMessages, data: Path, last: int) -> Iterator[RowFacts]:
    """Yield the entries after one, newest first; of the first look one page."""
    page = _page(request, data)
    while True:
        yield from (row for row in page.entries if row.entry > last)
        reached = not page.entries or page.entries[-1].entry <= last
        if not last or reached or not page.before:
            return
        page = _page(request.model_copy(update={"before": page.before}), data)


def _print_alone(row: Sequence[object]) -> None:
    texts = [cell(part).plain for part in row]
    if output().is_terminal:
        texts = [text.ljust(width) for text, width in zip(texts, WIDTHS, strict=True)]
    typer.echo(("  " if output().is_terminal else "\t").join(texts).rstrip())


def show(rows: Sequence[RowFacts]) -> None:
    """Print rows as a table."""
    headings = HEADINGS if len({row.channel for row in rows}) > 1 else HEADINGS[:-1]
    output().print(table(headings, (_row(row)[: len(headings)] for row in rows)))
    for code in sorted({row.reason for row in rows if row.state in BAD and row.reason}):
        remark(f"{code}: {text_of(reason_of(code))}")


def _row(row: RowFacts) -> tuple[object, ...]:
    state = cell(phrase(row.state), NEGATIVE if row.state in BAD else "")
    flags = [flag for flag in row.flags if not flag.startswith(row.reason or "-")]
    reason = " ".join([row.reason, *flags]).strip()
    return (
        row.entry,
        utc(row.received_at)[5:],
        row.event,
        row.control_id,
        row.ack or "–",
        state,
        reason,
        row.channel,
    )
