"""`adt-engine duplicates`: patients who may be there twice, side by side, and what was decided of them."""

import typer

from engine.ops.operations.duplicates import CompareDuplicate, DecideDuplicate, DecidedView, ListDuplicates
from engine.ops.terminal.command import asks
from engine.ops.views.duplicate import DecisionView, DuplicatePage, Pair
from engine.terminal.table import output, print_line, table, utc

app = typer.Typer(help="List, compare and decide possible duplicates.", no_args_is_help=True)


@app.command(name="list")
@asks(ListDuplicates)
def list_(found: DuplicatePage) -> None:
    """List entries whose patient may be the same as an older one, newest first, with what was decided.

    Example: adt-engine duplicates list --show sent --data /var/lib/adt-engine
    """
    rows = (
        (one.entry, utc(one.received_at), one.event, one.channel, *_decided(one.decision), one.merged_by or "")
        for one in found.entries
    )
    headings = ("Entry #", "Received (UTC)", "Event", "Channel", "Decided", "By", "At (UTC)", "Merged by #")
    output().print(table(headings, rows))
    if found.before:
        print_line(f"next page: --before {found.before}")


@app.command()
@asks(CompareDuplicate, entry="ENTRY")
def show(found: Pair) -> None:
    """Compare the patient of an entry with those at the destinations who may be the same, as they are now.

    Example: adt-engine duplicates show 37 --data /var/lib/adt-engine
    """
    if found.merged_by:
        print_line(f"settled: entry {found.merged_by} merged the records")
    for there in found.destinations:
        print_line(f"At {there.destination}{f': does not answer ({there.refused})' if there.refused else ''}", "bold")
        if there.mine is None:
            continue
        headings = ("Element", there.mine.patient, *(other.patient for other in there.others), "Differs")
        rows = ((line.what, line.mine, *line.theirs, "yes" if any(line.differs) else "") for line in there.lines)
        output().print(table(headings, rows))


@app.command()
@asks(DecideDuplicate, entry="ENTRY", decision="DECISION")
def decide(found: DecidedView) -> None:
    """Decide whether it is the same person: same, different, sent (to the MPI team) or done; nothing is merged.

    Example: adt-engine duplicates decide 37 sent --reason "ticket 4711" --data /var/lib/adt-engine
    """
    print_line(f"entry {found.entry}: {found.decision}, by {found.by}")


def _decided(one: DecisionView | None) -> tuple[str, str, str]:
    return (one.what, one.by, utc(one.at)) if one else ("", "", "")
