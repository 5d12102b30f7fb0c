"""`adt-engine duplicates`: pairs of patients who may be one person, side by side, and what was decided of them."""

import typer

from engine.ops.operations.duplicates import CompareDuplicate, DecideDuplicate, DecidedView, ListDuplicates
from engine.ops.terminal.command import asks
from engine.ops.views.duplicate import NEW, DecisionView, Duplicate, DuplicatePage, Pair, SettledView
from engine.terminal.table import output, print_line, table, utc

app = typer.Typer(help="List, compare and decide possible duplicates.", no_args_is_help=True)
HEADINGS = (
    *("Entry #", "Pair #", "Noted (UTC)", "Event", "Channel", "Destinations", "This", "That", "Status", "Settled by"),
    *("Decided", "By", "At (UTC)"),
)


@app.command(name="list")
@asks(ListDuplicates)
def list_(found: DuplicatePage) -> None:
    """List pairs of patients who may be one person, newest first, with what was decided.

    Example: adt-engine duplicates list --show sent --data /var/lib/adt-engine
    """
    output().print(table(HEADINGS, map(_row, found.pairs)))
    more = " or more" if found.more_new else ""
    print_line(f"new: {found.new}{more} open, noted in the last {NEW.days} days")
    if found.before:
        print_line(f"next page: --before {found.before}")


@app.command()
@asks(CompareDuplicate, entry="ENTRY")
def show(found: Pair) -> None:
    """Compare the two patients of a pair: their records at the destinations side by side, as they are now.

    Example: adt-engine duplicates show 37 --number 2 --data /var/lib/adt-engine
    """
    if found.pairs > 1:
        print_line(f"pair {found.number} of {found.pairs} that entry {found.entry} noted (--number)")
    print_line(f"{found.status}{f': {_settled(found.settled)}' if found.settled else ''}")
    if found.decision:
        print_line(f"decided: {found.decision.what}, by {found.decision.by}, {utc(found.decision.at)} UTC")
    for there in found.destinations:
        print_line(f"At {there.destination}{f': does not answer ({there.refused})' if there.refused else ''}", "bold")
        for gone in there.gone:
            print_line(f"Patient/{gone} is not there any more", "yellow")
        if there.mine is None:
            continue
        headings = ("Element", there.mine.patient, *(other.patient for other in there.others), "Differs")
        rows = ((line.what, line.mine, *line.theirs, "yes" if any(line.differs) else "") for line in there.lines)
        output().print(table(headings, rows))


@app.command()
@asks(DecideDuplicate, entry="ENTRY", decision="DECISION")
def decide(found: DecidedView) -> None:
    """Decide whether it is the same person: same, different, sent (to the MPI team) or done; nothing is merged.

    Without --number it is decided of all pairs that the entry noted.

    Example: adt-engine duplicates decide 37 sent --reason "ticket 4711" --data /var/lib/adt-engine
    """
    print_line(f"entry {found.entry}: {found.decision}, by {found.by}")


def _row(one: Duplicate) -> tuple[object, ...]:
    place = one.places[0]
    return (
        one.entry, one.number, utc(one.received_at), one.event, one.channel,
        " ".join(at.destination for at in one.places), _record(place.this), _record(place.that), one.status,
        _settled(one.settled), *_decided(one.decision),
    )  # fmt: skip


def _record(logical_id: str) -> str:
    return f"Patient/{logical_id}" if logical_id else ""


def _settled(one: SettledView | None) -> str:
    return f"{one.how} by {f'entry {one.entry}' if one.entry else 'the destination'}" if one else ""


def _decided(one: DecisionView | None) -> tuple[str, str, str]:
    return (one.what, one.by, utc(one.at)) if one else ("", "", "")
