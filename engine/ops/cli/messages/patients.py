"""`adt-engine patients`: find a patient by a number, and show everything about one."""

import typer

from engine.ops.cli.messages.listing import show as show_rows
from engine.ops.operations.patients import FindPatients, ShowPatient
from engine.ops.terminal.command import asks
from engine.ops.views.patient import AtDestination, NumberView, Other, PatientView, Record
from engine.ops.views.phrases import phrase
from engine.ops.views.reasons import reason_of
from engine.terminal.table import output, print_line, table, utc

app = typer.Typer(help="Find a patient by a number, and show everything about one.", no_args_is_help=True)


@app.command()
@asks(FindPatients, patient="NUMBER")
def find(found: list[Other]) -> None:
    """Find the patients who have a number (value, or system|value), with the newest entry of each.

    Example: adt-engine patients find RB-1004 --data /var/lib/adt-engine
    """
    rows = ((one.entry, one.name, " ".join(one.numbers), one.lane) for one in found)
    output().print(table(("Entry #", "Name", "Numbers", "Lane #"), rows))
    if found:
        print_line(f"all about one: adt-engine patients show {found[0].entry}")


@app.command()
@asks(ShowPatient, entry="ENTRY", limit=None)
def show(found: PatientView) -> None:
    """Show all about the patient of an entry: records at destinations now, numbers, merges, visits, messages, holds.

    Example: adt-engine patients show 37 --data /var/lib/adt-engine
    """
    print_line(f"{found.name or 'a patient without a name'} {found.born}".rstrip(), "bold")
    for other in found.others:
        print_line(f"entry {found.entry} names another patient, too: {other.name} (--lane {other.lane})", "yellow")
    print_line("Held", "bold")
    held = ((one.entry, one.reason, utc(one.since), one.event, one.destination, one.waiting) for one in found.held)
    output().print(table(("Entry #", "Reason", "Since (UTC)", "Event", "Destination", "Waiting behind #"), held))
    for there in found.destinations:
        _at(there)
    print_line("Numbers", "bold")
    headings = ("Number", "System", "First #", "Last #", "Record")
    output().print(table(headings, ((n.value, n.system, n.first, n.last, _stands(n)) for n in found.numbers)))
    print_line("Merges", "bold")
    merges = ((merge.entry, utc(merge.at), merge.source, merge.survivor, merge.destination) for merge in found.merges)
    output().print(table(("Entry #", "At (UTC)", "Number", "Merged into", "Destination"), merges))
    print_line("Messages", "bold")
    show_rows(found.messages)
    if found.before:
        print_line(f"next page: --before {found.before}")


def _at(there: AtDestination) -> None:
    print_line(f"At {there.destination}", "bold")
    if there.refused:
        why = reason_of(there.refused).meaning
        print_line(f"{there.destination} does not answer ({there.refused}): {why}", "red")
        return
    rows = (
        (one.patient, one.name, one.born, one.gender, " ".join(n.value for n in one.numbers), _state(one))
        for one in there.records
    )
    output().print(table(("Patient", "Name", "Born", "Gender", "Numbers", "State"), rows))
    if there.visits_refused:
        print_line(f"the visits could not be read: {there.visits_refused}", "red")
    visits = (
        (" ".join(one.numbers), phrase(one.status, "visit"), one.kind, one.start, one.end, one.place)
        for one in there.visits
    )
    output().print(table(("Visit", "State", "Kind", "From", "To", "Place"), visits))


def _state(one: Record) -> str:
    links = [f"{phrase(other.kind, 'link')} {other.patient}" for other in one.links]
    return ", ".join(["merged away" if one.merged else "active" if one.active else "inactive", *links])


def _stands(one: NumberView) -> str:
    return ", ".join(
        f"{at.destination} {at.patient} {phrase(at.status, 'number')}{f' into {at.survivor}' if at.survivor else ''}"
        for at in one.at
    )
