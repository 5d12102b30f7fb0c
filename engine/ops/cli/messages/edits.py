"""`adt-engine messages edit`, `resolve`, `retry`, `release`, `discard`: entries repaired by hand, step by step."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Final

import typer

from engine.errors import MessageError, UsageError
from engine.hl7.message import Message, parse
from engine.ops.cli.messages.replays import ask_each, left_open, print_dry_run
from engine.ops.operations.entries import (
    Destinations,
    DiscardMessage,
    DryRunMessage,
    EditMessage,
    ListMatches,
    Match,
    Matches,
    ReleaseMessage,
    ResolvePatient,
    RetryMessage,
)
from engine.ops.operations.messages import ShowMessage
from engine.ops.terminal.command import ask, takes, takes_entries
from engine.ops.views.segments import UTF_8, guessed_charset, names_charset
from engine.terminal.options import DATA, AsJson, Data, Yes, agreed
from engine.terminal.table import output, print_json, print_line, table

CODEC: Final = "utf-8"


@takes(EditMessage, entry="ENTRY", message=None, set=None)
def edit(
    request: EditMessage,
    file: Annotated[Path | None, typer.Option(help="A file with the whole edited message.")] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="A part to change, such as PID-5.1=Quintero; repeatable.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would happen at the server; change nothing.")
    ] = False,
    yes: Yes = False,
    data: Data = DATA,
    as_json: AsJson = False,
) -> None:
    """Edit an entry's message and deliver it as a new entry, judged as if it had just come in; the original stays.

    Shows what differs and what it would do at the server, asks, and does it. The difference is kept with the new entry.

    Example: adt-engine messages edit 37 --set PID-7=19840229 --set PID-5.1=Quintero --data /var/lib/adt-engine

    Example: adt-engine messages edit 37 --file edited.hl7 --discard-original --reason "typo" --data /var/lib/adt-engine
    """
    edited = _edited(file, set_ or [], data, request.entry)
    plan = ask(data, DryRunMessage.parse({**edited, "entry": request.entry}))
    ends_here = dry_run or plan.refused is not None
    if not as_json:
        print_dry_run(plan)
        left_open({place.type for place in plan.destinations})
    elif ends_here:
        print_json(plan)
    if plan.refused:
        raise typer.Exit(1)
    if ends_here or not agreed("record and deliver it?", yes=yes, as_json=as_json):
        return
    made = ask(data, EditMessage.parse({**request.given(), **edited}))
    if as_json:
        print_json(made)
        return
    print_line(f"entry {made.entry} made from {made.parent}, which is {made.original}")
    if made.next_step:
        print_line(made.next_step)


@takes_entries(RetryMessage)
def retry(requests: Sequence[RetryMessage], data: Data = DATA, as_json: AsJson = False) -> None:
    """Retry entries now that are held or waiting for their next attempt.

    Example: adt-engine messages retry 37 --data /var/lib/adt-engine
    """
    ask_each(data, requests, "is retried now", as_json=as_json)


@takes_entries(ReleaseMessage)
def release(requests: Sequence[ReleaseMessage], data: Data = DATA, as_json: AsJson = False) -> None:
    """Release held entries once the cause is fixed; they are retried. `lanes release` does it in bulk.

    Example: adt-engine messages release 37 --data /var/lib/adt-engine
    """
    ask_each(data, requests, "released", as_json=as_json)


@takes_entries(DiscardMessage, reason=typer.Option(..., help="The reason; stored with the entry."))
def discard(requests: Sequence[DiscardMessage], data: Data = DATA, as_json: AsJson = False) -> None:
    """Discard unfinished entries permanently; what is waiting behind them continues.

    Example: adt-engine messages discard 37 --reason "sent by mistake, ticket 4711" --data /var/lib/adt-engine
    """
    ask_each(data, requests, "discarded", as_json=as_json)


@takes(ResolvePatient, entry="ENTRY")
def resolve(request: ResolvePatient, yes: Yes = False, data: Data = DATA, as_json: AsJson = False) -> None:
    """Choose which of the server's records an ambiguous patient is, and let the entry go on; nothing is merged.

    Without --patient the possible records are listed, and whether a release is enough by now.
    The choice is checked at the server, kept and audited.

    Example: adt-engine messages resolve 37 --data /var/lib/adt-engine

    Example: adt-engine messages resolve 37 --patient 6543a1b2c3d4e5f601234567 --data /var/lib/adt-engine
    """
    entry, patient = request.entry, request.patient
    found = ask(data, ListMatches(entry=entry, destination=request.destination))
    if as_json:
        print_json(_resolved(data, request, found, yes=yes, as_json=True) if patient else found)
        return
    print_line(f"held {found.reason} at {found.destination} for {', '.join(found.identities)}")
    output().print(table(("Patient", "Name", "Born", "Gender", "Active", "Numbers"), map(_match, found.matches)))
    if not patient:
        print_line(found.next_step or "choose one: --patient ID")
    elif _resolved(data, request, found, yes=yes):
        print_line(f"{entry} released to Patient {patient}")


def _resolved(
    data: Path, request: ResolvePatient, found: Matches, *, yes: bool, as_json: bool = False
) -> Destinations | None:
    """Ask, and let the entry go on to the chosen patient; None where the answer is no."""
    question = f"is the patient of entry {request.entry} Patient {request.patient}, from now on?"
    if not agreed(question, yes=yes, as_json=as_json):
        return None
    return ask(data, request.model_copy(update={"destination": found.destination}))


def _match(one: Match) -> tuple[object, ...]:
    active = "merged away" if one.merged else "yes" if one.active else "no"
    return one.patient, one.name, one.birthDate, one.gender, active, ", ".join(one.identifiers)


def _message(file: Path, raw: bytes, data: Path, entry: int) -> Message:
    """Return what a file holds, read as its channel reads it; UsageError where the file is written in another set."""
    if names_charset(raw):
        return parse(raw)
    charset = ask(data, ShowMessage(entry=entry)).charset or UTF_8
    message = parse(raw, charset=charset)
    if message.charset != CODEC and guessed_charset(raw) == UTF_8:
        raise UsageError(
            f"{file} is written in UTF-8, and the channel reads {charset} where MSH-18 is empty: save it in that "
            "character set, or name the one that it has in MSH-18 (UNICODE UTF-8)"
        )
    return message


def _edited(file: Path | None, parts: list[str], data: Path, entry: int) -> Mapping[str, object]:
    """Return what an edit is given; UsageError unless it is a file or parts."""
    if bool(file) == bool(parts):
        raise UsageError("give the whole message, or the parts to set: --file FILE, or --set PID-5.1=TEXT")
    if file is not None:
        try:
            return {"message": _message(file, file.read_bytes(), data, entry).text}
        except OSError as error:
            raise UsageError(f"{file} cannot be read: {error.strerror}") from error
        except MessageError as error:
            raise UsageError(f"{file}: {error}") from error
    pairs = [part.partition("=") for part in parts]
    if wrong := [path for path, mark, _ in pairs if not mark]:
        raise UsageError(f"--set {wrong[0]} says no value: write PID-5.1=TEXT, or PID-5.1= to empty it")
    return {"set": {path: value for path, _, value in pairs}}
