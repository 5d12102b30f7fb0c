"""`adt-engine patients`: find patients by names and numbers, and show what happened to one and everything about one."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import typer

from engine.errors import AdtEngineError, UsageError
from engine.ops.cli.messages.listing import show as show_rows
from engine.ops.cli.messages.number_forms import normalise
from engine.ops.operations.fields import digits_of
from engine.ops.operations.messages import ListMessages
from engine.ops.operations.patients import FindPatients, NameEntries, SearchPatients, ShowPatient
from engine.ops.terminal.command import ask
from engine.ops.views.patient import (
    PARTS,
    AtDestination,
    FoundPatients,
    NumberView,
    Other,
    PatientView,
    Record,
    amount_of,
    limits_of,
    sorted_by_name,
)
from engine.ops.views.phrases import phrase
from engine.ops.views.reasons import reason_of
from engine.ops.views.verdict import PatientVerdictKind
from engine.terminal.options import DATA, AsJson, Data
from engine.terminal.table import output, print_json, print_line, remark, table, utc

app = typer.Typer(help="Find patients by names and numbers, and show everything about one.", no_args_is_help=True)
app.command()(normalise)

HEADINGS: Final = ("Entry #", "Name", "Numbers", "Lane #")
STYLES: Final = {
    PatientVerdictKind.HELD: "red",
    PatientVerdictKind.REFUSED: "red",
    PatientVerdictKind.MISSING: "red",
    PatientVerdictKind.WAITING: "yellow",
    PatientVerdictKind.UNDELIVERED: "yellow",
    PatientVerdictKind.DELIVERED: "green",
}
NUMBER: Final = typer.Argument(
    ...,
    metavar="NUMBER",
    help="A number: value, or system|value; else parts of a name or number, from 3 characters.",
)
WHO: Final = typer.Argument(
    "", metavar="[NUMBER]", help="The patient's number: value, or system|value; also the number of an entry."
)
ENTRY: Final = typer.Option(0, "--entry", metavar="N", min=0, help="The patient of this entry.")
LANE: Final = typer.Option(0, "--lane", min=0, help="Which patient, where several are meant: the lane, as listed.")
BEFORE: Final = typer.Option(0, "--before", min=0, help="Only messages with a smaller number: the next page.")


@app.command()
def find(number: str = NUMBER, data: Data = DATA, as_json: AsJson = False) -> None:
    """Find patients by a number (value, or system|value), else by parts of a name or number; with the newest entry.

    Example: adt-engine patients find RB-1004 --data /var/lib/adt-engine
    """
    found, searched = _found(data, number)
    if as_json:
        print_json(found)
        return
    output().print(table(HEADINGS, map(_row, found)))
    if searched and (limits := limits_of(searched)):
        remark(limits)
    if searched and not found:
        remark(f"nobody found in {amount_of(searched.messages, searched.oldest_at)}; searched: {PARTS}")
    if found:
        print_line(f"all about one: adt-engine patients show --entry {found[0].entry} --lane {found[0].lane}")


def _found(data: Path, text: str) -> tuple[list[Other], FoundPatients | None]:
    """Return the patients who have a number, else those who have all parts, by name; with what was searched then."""
    unclear: AdtEngineError | None = None
    try:
        if exact := ask(data, FindPatients.parse({"patient": text})):
            return exact, None
    except UsageError as error:
        unclear = error
    try:
        searched = ask(data, SearchPatients.parse({"text": text}))
    except AdtEngineError as error:
        raise unclear or error from error
    entries = [one.entry for one in searched.patients]
    named = {one.entry: one for one in ask(data, NameEntries.parse({"entries": entries}))} if entries else {}
    return sorted_by_name(searched.patients, named), searched


@app.command()
def show(
    who: str = WHO,
    entry: int = ENTRY,
    lane: int = LANE,
    before: int = BEFORE,
    data: Data = DATA,
    as_json: AsJson = False,
) -> None:
    """Show what happened to a patient, by a number or an entry: a verdict, records now, numbers, merges, messages.

    Where several are meant they are listed, and nothing else is shown.

    Example: adt-engine patients show RB-1004 --data /var/lib/adt-engine
    """
    meant = _meant(data, who, entry, lane)
    if len(meant) != 1:
        _choose(meant, as_json=as_json)
        raise typer.Exit(1)
    found = ask(data, ShowPatient.parse({"entry": meant[0].entry, "lane": meant[0].lane, "before": before}))
    (print_json if as_json else _show)(found)


def _meant(data: Path, who: str, entry: int, lane: int) -> list[Other]:
    """Return the patients that are meant: those who have the number; of an entry's number also that entry's."""
    if bool(who) is bool(entry):
        raise UsageError("name a patient: a number (value, or system|value), or --entry N")
    if entry:
        return [Other(lane=lane, entry=entry, name="", numbers=())]
    number = digits_of(who)
    try:
        found = ask(data, FindPatients.parse({"patient": who}))
    except UsageError:
        if not number:
            raise
        found = []
    if number and _is_entry(data, number):
        found = [*found, Other(lane=0, entry=number, name=f"the patient of entry {number}", numbers=())]
    found = [one for one in found if one.lane == lane or not one.lane] if lane else found
    if not found:
        raise UsageError("nobody has this number: `adt-engine patients find` takes parts of names and numbers, too")
    return found


def _is_entry(data: Path, number: int) -> bool:
    page = ask(data, ListMessages.parse({"before": number + 1, "limit": 1}))
    return any(one.entry == number for one in page.entries)


def _choose(found: Sequence[Other], *, as_json: bool) -> None:
    if as_json:
        print_json(found)
        return
    print_line(f"{len(found)} patients are meant:", "yellow")
    output().print(table(HEADINGS, map(_row, found)))
    print_line(f"choose one: adt-engine patients show --entry {found[0].entry} --lane {found[0].lane}")


def _row(one: Other) -> tuple[object, ...]:
    return one.entry, one.name, " ".join(one.numbers), one.lane


def _show(found: PatientView) -> None:
    print_line(f"{found.name or 'a patient without a name'} {found.born}".rstrip(), "bold")
    print_line(found.verdict.sentence, STYLES.get(found.verdict.kind, ""))
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
        print_line(f"next page: --entry {found.entry} --lane {found.lane} --before {found.before}")


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
