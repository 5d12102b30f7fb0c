"""`adt-engine messages edit`, `resolve` and `retry`: entries mended by hand, each step shown before it is done."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from engine.errors import MessageError, UsageError
from engine.hl7.message import parse
from engine.ops.cli.messages.replays import act_on, print_dry_run, print_what_a_dry_run_leaves_open
from engine.ops.operations.entries import DryRunMessage, EditMessage, ListMatches, ResolvePatient, RetryMessage
from engine.ops.terminal.asking import asked
from engine.ops.terminal.options import DATA, Data, Entries, Entry
from engine.ops.terminal.table import cell, output, table


def edit(
    entry: Entry,
    file: Annotated[Path | None, typer.Option(help="A file with the whole edited message.")] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="A part to change, such as PID-5.1=Quintero; repeatable.")
    ] = None,
    discard_original: Annotated[
        bool, typer.Option("--discard-original", help="Discard the original entry if it is unfinished.")
    ] = False,
    reason: Annotated[str, typer.Option(help="Reason for discarding the original.")] = "",
    force: Annotated[bool, typer.Option("--force", help="Even if something newer has been applied since.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would happen at the server; change nothing.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
    data: Data = DATA,
) -> None:
    """Edit an entry's message and deliver it as a new entry, judged as if it had just come in; the original stays.

    Shows what differs and what it would do at the server, asks, and does it. The difference is kept with the new entry.

    Example: adt-engine messages edit 37 --set PID-7=19840229 --set PID-5.1=Quintero --data /var/lib/adt-engine

    Example: adt-engine messages edit 37 --file mended.hl7 --discard-original --reason "typo" --data /var/lib/adt-engine
    """
    edited = _edited(file, set_ or [])
    told = asked(data, DryRunMessage, entry=entry, **edited)
    print_dry_run(told)
    print_what_a_dry_run_leaves_open()
    if dry_run or told.refused:
        if told.refused:
            raise typer.Exit(1)
        return
    if not yes and not typer.confirm("record and deliver it?"):
        return
    more = {"discard_original": discard_original, "reason": reason, "force": force}
    made = asked(data, EditMessage, entry=entry, **edited, **more)
    output().print(f"entry {made.entry} made from {entry}, which is {made.original}")
    if made.next_step:
        output().print(made.next_step)


def retry(entries: Entries, data: Data = DATA) -> None:
    """Retry entries now that are held or waiting for their next attempt.

    Example: adt-engine messages retry 37 --data /var/lib/adt-engine
    """
    act_on(data, RetryMessage, entries, "is tried now")


def resolve(
    entry: Entry,
    patient: Annotated[str, typer.Option(help="The id of the Patient at the server; without it, the matches.")] = "",
    destination: Annotated[str, typer.Option(help="The destination, if it is held at several.")] = "",
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
    data: Data = DATA,
) -> None:
    """Choose which of the server's records an ambiguous patient is, and let the entry go on; nothing is merged.

    Without --patient the records are listed that it may be, and whether a release is enough by now.
    The choice is checked at the server, kept and audited.

    Example: adt-engine messages resolve 37 --data /var/lib/adt-engine

    Example: adt-engine messages resolve 37 --patient 6543a1b2c3d4e5f601234567 --data /var/lib/adt-engine
    """
    told = asked(data, ListMatches, entry=entry, destination=destination)
    output().print(f"held {told.reason} at {told.destination} for {', '.join(told.identities)}")
    headings = ("Patient", "Name", "Born", "Gender", "Active", "Numbers")
    rows = (
        (
            one.patient, one.name, one.birthDate, one.gender,
            "merged away" if one.merged else "yes" if one.active else "no", ", ".join(one.identifiers),
        )
        for one in told.matches
    )  # fmt: skip
    output().print(table(headings, rows))
    if not patient:
        output().print(cell(told.next_step or "choose one: --patient ID"), soft_wrap=True)
        return
    if not yes and not typer.confirm(f"the patient of entry {entry} is Patient {patient}, from now on?"):
        return
    asked(data, ResolvePatient, entry=entry, patient=patient, destination=told.destination)
    output().print(f"{entry} released to Patient {patient}")


def _edited(file: Path | None, parts: list[str]) -> Mapping[str, object]:
    """Return what an edit is given; UsageError unless it is a file or parts."""
    if bool(file) == bool(parts):
        raise UsageError("give the whole message, or the parts to set: --file FILE, or --set PID-5.1=TEXT")
    if file is not None:
        try:
            return {"message": parse(file.read_bytes()).text}
        except OSError as error:
            raise UsageError(f"{file} cannot be read: {error.strerror}") from error
        except MessageError as error:
            raise UsageError(f"{file}: {error}") from error
    pairs = [part.partition("=") for part in parts]
    if wrong := [path for path, mark, _ in pairs if not mark]:
        raise UsageError(f"--set {wrong[0]} says no value: write PID-5.1=TEXT, or PID-5.1= to empty it")
    return {"set": {path: value for path, _, value in pairs}}
