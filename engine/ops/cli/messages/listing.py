"""`adt-engine messages list`: entries that filters choose, newest first, page by page."""

from collections.abc import Sequence
from typing import Annotated, Final

import typer

from engine.ops.operations.messages import PRIVATE, ListMessages, SearchMessages
from engine.ops.terminal.asking import asked_or_read
from engine.ops.terminal.options import DATA, Before, Data, Json, Since, Until
from engine.ops.terminal.table import NEGATIVE, cell, output, say_json, table
from engine.ops.views.entry import RowFacts
from engine.ops.views.reasons import reason_of, text_of
from engine.ops.views.searching import FactsPage, RowPage

BAD: Final = frozenset({"held", "rejected"})

State = Annotated[str, typer.Option(help="received, waiting, delivered, filtered, held, rejected …")]
Channel = Annotated[str, typer.Option(help="Only of this channel.")]
Source = Annotated[str, typer.Option(help="Only from this sender: MSH-3|MSH-4.")]
Event = Annotated[str, typer.Option(help="Only of this trigger event, such as A40.")]
ControlId = Annotated[str, typer.Option(help="Only with this MSH-10.")]
Reason = Annotated[str, typer.Option(help="Held, refused, filtered … for this reason.")]
Outcome = Annotated[str, typer.Option(help="Only with this note, flag or outcome code, such as possible-duplicate.")]
Patient = Annotated[str, typer.Option(help="Only naming this identifier: value, or system|value.")]
Visit = Annotated[str, typer.Option(help="Only naming this visit number.")]
Text = Annotated[str, typer.Option(help="Only holding all these words; `word*` matches a prefix.")]


def list_(
    state: State = "",
    channel: Channel = "",
    source: Source = "",
    event: Event = "",
    control_id: ControlId = "",
    reason: Reason = "",
    outcome: Outcome = "",
    patient: Patient = "",
    visit: Visit = "",
    text: Text = "",
    since: Since = "",
    until: Until = "",
    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many to show, newest first.")] = 50,
    before: Before = 0,
    data: Data = DATA,
    as_json: Json = False,
) -> None:
    """List entries, newest first; an entry must match all filters.

    Example: adt-engine messages list --state held --since 12h --data /var/lib/adt-engine
    """
    given = {
        "state": state,
        "channel": channel,
        "source": source,
        "event": event,
        "control_id": control_id,
        "reason": reason,
        "outcome": outcome,
        "patient": patient,
        "visit": visit,
        "text": text,
        "since": since,
        "until": until,
        "limit": limit,
        "before": before,
    }
    private = any(given[name] for name in PRIVATE)
    found: RowPage | FactsPage = (
        asked_or_read(data, SearchMessages, **given) if private else asked_or_read(data, ListMessages, **given)
    )
    if as_json:
        say_json(found)
        return
    show(found.entries)
    if found.searched_back_to:
        output().print(f"searched back to {found.searched_back_to}; --before {found.before} goes on", style="yellow")
    elif found.before:
        output().print(f"next page: --before {found.before}")


def show(rows: Sequence[RowFacts]) -> None:
    """Print rows as a table."""
    headings = ["Entry #", "Received (UTC)", "Event", "Control ID", "ACK", "State", "Reason"]
    if len({row.channel for row in rows}) > 1:
        headings.append("Channel")
    output().print(table(headings, (_row(row)[: len(headings)] for row in rows)))
    for code in sorted({row.reason for row in rows if row.state in BAD and row.reason}):
        output().print(cell(f"{code}: {text_of(reason_of(code))}"), soft_wrap=True)


def _row(row: RowFacts) -> tuple[object, ...]:
    state = cell(row.state, NEGATIVE) if row.state in BAD else row.state
    flags = [flag for flag in row.flags if not flag.startswith(row.reason or "-")]
    reason = " ".join([row.reason, *flags]).strip()
    return (
        row.entry,
        row.received_at[5:19].replace("T", " "),
        row.event,
        row.control_id,
        row.ack or "–",
        state,
        reason,
        row.channel,
    )
