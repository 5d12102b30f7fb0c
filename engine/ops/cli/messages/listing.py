"""`adt-engine messages list`: entries that filters choose, newest first, page by page."""

from collections.abc import Sequence
from typing import Final

from engine.ops.operations.messages import PRIVATE, ListMessages, SearchMessages
from engine.ops.terminal.command import ask_or_read, takes
from engine.ops.views.entry import RowFacts
from engine.ops.views.reasons import reason_of, text_of
from engine.ops.views.view import FactsPage, RowPage
from engine.terminal.options import DATA, LIMIT, AsJson, Data
from engine.terminal.table import NEGATIVE, cell, output, print_json, remark, table, utc

BAD: Final = frozenset({"held", "rejected"})


@takes(SearchMessages, limit=LIMIT)
def list_(request: SearchMessages, data: Data = DATA, as_json: AsJson = False) -> None:
    """List entries, newest first; an entry must match all filters.

    Example: adt-engine messages list --state held --since 12h --data /var/lib/adt-engine
    """
    private = any(getattr(request, name) for name in PRIVATE)
    found: RowPage | FactsPage = (
        ask_or_read(data, request) if private else ask_or_read(data, ListMessages.parse(request.given()))
    )
    if as_json:
        print_json(found)
        return
    show(found.entries)
    if found.searched_back_to:
        remark(f"searched back to {found.searched_back_to}; continue with --before {found.before}", "yellow")
    elif found.before:
        remark(f"next page: --before {found.before}")


def show(rows: Sequence[RowFacts]) -> None:
    """Print rows as a table."""
    headings = ["Entry #", "Received (UTC)", "Event", "Control ID", "ACK", "State", "Reason"]
    if len({row.channel for row in rows}) > 1:
        headings.append("Channel")
    output().print(table(headings, (_row(row)[: len(headings)] for row in rows)))
    for code in sorted({row.reason for row in rows if row.state in BAD and row.reason}):
        remark(f"{code}: {text_of(reason_of(code))}")


def _row(row: RowFacts) -> tuple[object, ...]:
    state = cell(row.state, NEGATIVE) if row.state in BAD else row.state
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
