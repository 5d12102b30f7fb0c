"""`adt-engine mappings out`: check, try, explain and test what changes of a FHIR server become in HL7 v2."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Final

import orjson
import typer

from engine.config.source import AuthoredFile
from engine.errors import ConfigurationError, MappingError, UsageError
from engine.fhir.json import JsonObject
from engine.mapping.files.reference import nearest
from engine.mapping.outgoing.case import (
    OutgoingCaseResult,
    change_of,
    outgoing_cases,
    read_outgoing_cases,
    run_outgoing_cases,
    setting_faults,
)
from engine.mapping.outgoing.change import (
    DEFAULT_CHARACTER_SET,
    DEFAULT_VERSION,
    ChangeKind,
    FhirChange,
    NothingToSend,
    OutgoingSetting,
)
from engine.mapping.outgoing.compile import MISSING, OutgoingMapping, OutgoingOutcome, compile_outgoing, read_outgoing
from engine.mapping.outgoing.coverage import unused_rules
from engine.mapping.outgoing.write import UNWRITABLE
from engine.ops.cli.mapping.mappings import OfChannel, bytes_of, channel_in, folders_of, show_problems
from engine.terminal.options import AsJson, MappingName, Mappings
from engine.terminal.table import print_json

SUBJECTS: Final = ("Encounter", "Patient")
CONTROL_ID: Final = "1"
REMEDIES: Final = {
    UNWRITABLE: "the character set lacks a character of it: take another one",
    MISSING: "the event requires this segment: give the resource what it needs, a number for PID and MRG",
}

File = Annotated[Path, typer.Argument(help="A JSON file: a Patient, an Encounter, or a Bundle.", metavar="FILE")]
Kind = Annotated[
    str,
    typer.Option("--change", metavar="KIND", help="What happened: visit-started ...; by default updated."),
]
Version = Annotated[str, typer.Option("--version", help="The version of HL7 of the message, 2.3 to 2.9.1.")]
CharacterSet = Annotated[str, typer.Option("--character-set", help="Its character set, as MSH-18 names it.")]

app = typer.Typer(help="Check, try, explain and test the way back: FHIR to HL7 v2.", no_args_is_help=True)


@app.command()
def check(mappings: Mappings = None, name: MappingName = "adt", as_json: AsJson = False) -> None:
    """Check every file of an outgoing mapping and report all problems, each with file, line and column.

    Exit 0 if there are none, 1 otherwise.

    Example: adt-engine mappings out check --mappings mappings
    """
    try:
        source = read_outgoing(folders_of(mappings), name)
        mapping = compile_outgoing(source)
    except ConfigurationError as error:
        show_problems(name, error, as_json=as_json)
        raise typer.Exit(1) from error
    if as_json:
        print_json({"mapping": name, "hash": mapping.hash, "problems": []})
    else:
        documents = sum(1 for _ in source.documents.everything())
        typer.echo(f"{name}: {documents} files, no problems; {mapping.hash[:12]}")


@app.command(name="try")
def try_(
    file: File,
    kind: Kind = "",
    version: Version = DEFAULT_VERSION,
    character_set: CharacterSet = DEFAULT_CHARACTER_SET,
    channel: OfChannel = None,
    mappings: Mappings = None,
    name: MappingName = "adt",
    as_json: AsJson = False,
) -> None:
    """Show the message that a change makes, and what it cannot say of it. Nothing is sent.

    Of a Bundle the first Encounter, or else the first Patient, is the one that changed; the others are what it refers
    to. The output holds patient data. Exit 0 if a message is made, 1 otherwise.

    Example: adt-engine mappings out try patient.json --change patient-created --version 2.3
    """
    mapping = compile_outgoing(read_outgoing(folders_of(mappings), name), _setting(channel, version, character_set))
    _show(_outcome(mapping, file, kind), as_json=as_json, explained=False)


@app.command()
def explain(
    file: File,
    kind: Kind = "",
    field: Annotated[str, typer.Option(help="Only this field, such as PID-5.")] = "",
    version: Version = DEFAULT_VERSION,
    character_set: CharacterSet = DEFAULT_CHARACTER_SET,
    channel: OfChannel = None,
    mappings: Mappings = None,
    name: MappingName = "adt",
    as_json: AsJson = False,
) -> None:
    """Say why each field of a message came out as it did: the rule, the path, and what it found.

    The output holds patient data. Exit 0 if a message is made, 1 otherwise.

    Example: adt-engine mappings out explain patient.json --field PID-5
    """
    mapping = compile_outgoing(read_outgoing(folders_of(mappings), name), _setting(channel, version, character_set))
    found = _outcome(mapping, file, kind)
    kept = tuple(one for one in found.trace if not field or _within(one.place, field))
    _show(found._replace(trace=kept), as_json=as_json, explained=True)


@app.command(name="test")
def try_cases(
    files: Annotated[list[Path] | None, typer.Argument(help="Case files; by default all of out/tests/.")] = None,
    mappings: Mappings = None,
    name: MappingName = "adt",
    unused: Annotated[bool, typer.Option("--unused", help="List the rules that no case uses.")] = False,
    as_json: AsJson = False,
) -> None:
    """Run the cases of an outgoing mapping and show what differs, and how many of its rules they use.

    Exit 0 if nothing differs, 1 otherwise.

    Example: adt-engine mappings out test --mappings mappings
    """
    folders = folders_of(mappings)
    source = read_outgoing(folders, name)
    cases = read_outgoing_cases(files) if files else outgoing_cases(folders[0])
    if not cases:
        raise UsageError("there are no case files; write some in out/tests/ of the mapping's folder")
    results = run_outgoing_cases(cases, source)
    failed = [one for one in results if one.differences]
    rest = unused_rules(source.documents, [one.trace for one in results])
    if as_json:
        print_json({
            "cases": len(cases),
            "failed": [_failure(one) for one in failed],
            "rules_never_used": [one._asdict() for one in rest],
        })  # fmt: skip
    else:
        for one in failed:
            place = f"{one.case.source.file}:{one.case.line}: {one.case.name}"
            typer.echo("\n    ".join((place, *one.differences)))
        typer.echo(f"{len(cases)} cases, {len(failed)} differ")
        hint = "" if unused or not rest else " (--unused lists them)"
        typer.echo(f"never used: {len(rest)} rules{hint}")
        for rule in rest if unused else ():
            typer.echo(f"  {rule.file}:{rule.line}  {rule.place}: {rule.rule}")
    if failed:
        raise typer.Exit(1)


def _failure(result: OutgoingCaseResult) -> JsonObject:
    case = result.case
    return {"file": case.source.file, "line": case.line, "case": case.name, "differences": list(result.differences)}


def _setting(channel: Path | None, version: str, character_set: str) -> OutgoingSetting:
    """Return the setting of options, with a channel's zone and authorities; UsageError for what is unusable."""
    given = {"version": version, "character_set": character_set}
    fault = next(setting_faults(AuthoredFile("", given, {}), given, ()), None)
    if fault is not None:
        raise UsageError(f"--{fault.path.replace('_', '-')}: {fault.found}; {fault.expected}")
    on = channel_in(channel)
    return OutgoingSetting(version, character_set, zone=on.zone, authorities=on.authorities, base_uri=on.base_uri)


def _outcome(mapping: OutgoingMapping, file: Path, kind: str) -> OutgoingOutcome:
    try:
        return mapping.explained(_change(file, kind), CONTROL_ID, datetime.now(UTC))
    except MappingError as error:
        raise UsageError(
            f"no message can be made: {error.reason} {error.location}; {REMEDIES[error.reason]}"
        ) from error


def _change(file: Path, kind: str) -> FhirChange:
    """Return the change of a file; UsageError for what holds no Patient or Encounter, and for an unknown kind."""
    try:
        body = orjson.loads(bytes_of(file))
    except orjson.JSONDecodeError as error:
        raise UsageError(f"{file} is not JSON ({error})") from error
    resources = _resources(body)
    found = [one for type_ in SUBJECTS for one in resources.values() if one.get("resourceType") == type_]
    if not found:
        raise UsageError(f"{file} holds no Patient and no Encounter; give one, or a Bundle with one")
    default = ChangeKind.VISIT_UPDATED if found[0]["resourceType"] == "Encounter" else ChangeKind.PATIENT_UPDATED
    kinds = {one.value: one for one in ChangeKind}
    if kind and kind not in kinds:
        raise UsageError(f"--change {kind} is no kind of change; {nearest(kind, kinds)}")
    chosen = kinds.get(kind, default)
    of_type = [one for one in found if (one["resourceType"] == "Encounter") == chosen.of_visit]
    if not of_type:
        raise UsageError(f"{file} holds no {'Encounter' if chosen.of_visit else 'Patient'}, of which {kind} is")
    return change_of(chosen, resources, of_type[0], None)


def _resources(body: Any) -> dict[str, JsonObject]:
    """Return the resources of a Bundle, or the one resource, by reference and by full URL."""
    entries = body.get("entry") if isinstance(body, dict) and body.get("resourceType") == "Bundle" else None
    found: dict[str, JsonObject] = {}
    for entry in entries if isinstance(entries, list) else [{"resource": body}]:
        resource = entry.get("resource") if isinstance(entry, dict) else None
        if isinstance(resource, dict) and resource.get("resourceType"):
            found[f"{resource['resourceType']}/{resource.get('id', len(found))}"] = resource
            if isinstance(entry.get("fullUrl"), str):
                found[entry["fullUrl"]] = resource
    return found


def _within(place: str, field: str) -> bool:
    return place == field or place.startswith((f"{field}.", f"{field}("))


def _show(found: OutgoingOutcome, *, as_json: bool, explained: bool) -> None:
    made = found.made
    if as_json:
        told: dict[str, Any] = {"rule": {"file": found.rule[0], "line": found.rule[1]}}
        if isinstance(made, NothingToSend):
            told["nothing"] = made.reason
        else:
            told |= {"event": made.event, "message": _text(made.raw), "notes": list(made.notes)}
        print_json(told | ({"fields": [one._asdict() for one in found.trace]} if explained else {}))
    else:
        typer.echo("\n".join(_lines(found, explained=explained)))
    if isinstance(made, NothingToSend):
        raise typer.Exit(1)


def _lines(found: OutgoingOutcome, *, explained: bool) -> Iterator[str]:
    made = found.made
    place = f"{found.rule[0]}:{found.rule[1]}" if found.rule[0] else ""
    if isinstance(made, NothingToSend):
        yield f"nothing to send: {made.reason}  {place}".rstrip()
        return
    yield f"{made.event}  {place}"
    if not explained:
        yield from (f"  {line}" for line in _text(made.raw).split("\r") if line)
    for note in made.notes:
        yield f"  note         {note}"
    for one in found.trace if explained else ():
        yield ""
        yield f"  {one.place} = {_shown(one.made)}"
        yield f"    {one.file}:{one.line}  {one.rule}"
        yield f"    found {orjson.dumps(one.found).decode()}"


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")


def _shown(made: Any, separator: str = "^") -> str:
    if isinstance(made, list):
        return separator.join("" if one is None else _shown(one, "&") for one in made).rstrip(separator)
    return "~".join(map(_shown, made)) if isinstance(made, tuple) else str(made)
