"""`adt-engine mappings try` and `test`: what a mapping makes of messages, with a second opinion on each resource."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Final

import orjson
import typer

from engine.acknowledge.code import code_for
from engine.config.channel import Channel
from engine.config.channels import load_channels
from engine.config.relay import EDITED, OWN, Relay
from engine.config.settings import shipped
from engine.errors import MappingError, MessageError, UsageError
from engine.fhir.json import JsonObject
from engine.fhir.profiles import read_profiles
from engine.fhir.versions.conversion import convert
from engine.fhir.versions.direction import Direction
from engine.hl7.edit import differences
from engine.hl7.header import read_header
from engine.hl7.message import Message
from engine.journal.entry import State
from engine.mapping.authoring.case import (
    Case,
    CaseResult,
    cases_for,
    cases_of,
    read_cases,
    rewrite,
    run_cases,
    unreplaced,
)
from engine.mapping.authoring.conformance import ProfileReport, conformance
from engine.mapping.authoring.outcome import outcome
from engine.mapping.compile import Mapping as CompiledMapping
from engine.mapping.compile import compile_edits, compile_mapping, load, read
from engine.mapping.files.document import PACKS, pack_names
from engine.mapping.files.reference import nearest
from engine.mapping.relay.message_edit import MessageEdit
from engine.ops.cli.mapping.mappings import (
    AtDestination,
    MappingOf,
    OfChannel,
    channel_file,
    channel_in,
    chosen_mapping,
    folders_of,
    messages_in,
)
from engine.ops.views.plans import failed_cases, invalid, line_of, words_of
from engine.pipeline.inbound.judgement import Judgement, judge, read_message
from engine.terminal.options import CHANNELS, AsJson, Channels, MappingName, Mappings
from engine.terminal.table import print_json

# What became of a message, or one of its interactions, as JSON.
Made = JsonObject
STU3: Final = "STU3"
ABSENT: Final = "\N{EM DASH}"


def try_(
    files: Annotated[list[Path], typer.Argument(help="Files of HL7 messages.", metavar="FILE...")],
    channel: OfChannel = None,
    destination: AtDestination = "",
    mappings: Mappings = None,
    name: MappingOf = "",
    as_json: AsJson = False,
) -> None:
    """Show how messages would be answered, and what a mapping makes of them: plan and resource. Nothing is sent.

    With --destination of a relay (`type: mllp`): the message that would leave, and what its edit changes. `invalid`
    lists what fhir.resources, as a second opinion, finds wrong with the resources that would be created. The output
    holds patient data. Exit 0 if every message would be accepted and mapped (or edited), or filtered; else 1.

    Example: adt-engine mappings try samples/a01.hl7 --channel channels/riverbend-adt.yaml
    """
    on, folders, authored = channel_in(channel), folders_of(mappings), channel_file(channel)
    named, written = chosen_mapping(on, channel, name, destination)
    source = read(folders, named)
    mapping = compile_mapping(source, written, file=authored)
    relay = next((one for one in on.relays if one.name == destination), None)
    if relay is not None:
        edit = compile_edits(source, on, authored).get(relay.name)
        relayed = [_relayed(mapping, on, relay, edit, file, raw) for file in files for raw in messages_in(file)]
        _show(relayed, as_json=as_json)
        return
    judging = mapping if written is on else compile_mapping(read(folders, on.mapping), on, file=authored)
    made = [_made(judging, mapping, on, file, raw, destination) for file in files for raw in messages_in(file)]
    _show(made, as_json=as_json)


def _show(made: Sequence[Made], *, as_json: bool) -> None:
    if as_json:
        print_json(made)
    else:
        typer.echo("\n\n".join("\n".join(_lines(one)) for one in made))
    if any("error" in one or one["door"]["state"] == State.REJECTED for one in made):
        raise typer.Exit(1)


def try_cases(
    files: Annotated[list[Path] | None, typer.Argument(help="Case files; by default all of tests/.")] = None,
    mappings: Mappings = None,
    name: MappingName = "adt",
    channels: Channels = CHANNELS,
    destination: Annotated[
        str, typer.Option(metavar="NAME", help="Of the mapping of this destination in the channel files.")
    ] = "",
    update: Annotated[
        bool, typer.Option("--update", help="Update the expectations in the files with what was found.")
    ] = False,
    profile: Annotated[
        str, typer.Option("--profile", metavar="PACK", help="Also check what cases make against a pack's profiles.")
    ] = "",
    shipped_too: Annotated[bool, typer.Option("--shipped", help="Show shipped cases whose result changed.")] = False,
    as_json: AsJson = False,
) -> None:
    """Run a mapping's test cases and show what differs.

    Resources that would be created must also be valid FHIR R4, as fhir.resources reads it. With a folder of your own
    its cases must hold; the shipped ones show what the folder changes, and a case of the same file and name in your
    folder replaces the shipped one. A case with `channel: NAME` runs on that channel of the folder --channels, with its
    filters. With --profile every resource that a case makes is checked against the profiles that it claims, and what
    is not checked is listed; without a folder of your own it is the pack that is tested. Exit 0 if nothing differs, 1
    otherwise; with --update the files are rewritten where something does.

    Example: adt-engine mappings test --mappings mappings
    """
    pack = _pack(profile) if profile else None
    folders = folders_of(mappings or pack)
    mapping = load(folders, _mapping_at(channels, destination) if destination else name)
    cases = read_cases(files) if files else cases_of(folders[0])
    others = _beside(cases, folders) if not files else []
    if not cases and not others:
        raise UsageError("there are no case files; write some in tests/ of the mapping's folder")
    named = {channel.channel: channel for channel in load_channels(channels)} if any(case.on for case in cases) else {}
    if not files:
        cases, others = tuple(cases_for(cases, mapping, named)), cases_for(others, mapping)
    failed, changed = failed_cases(cases, mapping, named), failed_cases(others, mapping, named)
    report = None
    if pack is not None:
        report = conformance(run_cases((*cases, *others), mapping, named), read_profiles(pack))
    if update:
        rewrite([(case, found) for case, found, _ in failed])
    if as_json:
        made: dict[str, object] = {"cases": len(cases), "failed": [_failure(result) for result in failed]}
        made |= {"shipped": len(others), "changed": [_failure(result) for result in changed]}
        print_json(made | ({"profile": _report_as_json(report)} if report is not None else {}))
    else:
        _print_failed([*changed, *failed] if shipped_too else failed)
        typer.echo(f"{len(cases)} cases, {len(failed)} {'updated' if update else 'differ'}")
        if others:
            hint = "" if shipped_too or not changed else "; --shipped shows them"
            typer.echo(f"{len(others)} shipped cases, {len(changed)} change with this folder{hint}")
        _print_report(report)
    if (failed and not update) or (report is not None and report.violations):
        raise typer.Exit(1)


def _pack(name: str) -> Path:
    """Return the folder of a pack; UsageError where none of that name ships."""
    names = pack_names(shipped("mappings"))
    if name not in names:
        raise UsageError(f"no pack {name!r} ships; {nearest(name, names)}")
    return shipped("mappings") / PACKS / name


def _print_report(report: ProfileReport | None) -> None:
    """Print what does not hold to the profiles, and what was not checked."""
    if report is None:
        return
    for one in report.violations:
        typer.echo(f"{one.case.source.file}:{one.case.line}: {one.case.name}\n    {one.text} ({one.profile})")
    typer.echo(f"{report.guide}: {report.claims} claims of a profile checked, {len(report.violations)} violations")
    for line in report.unchecked:
        typer.echo(f"not checked: {line}")


def _report_as_json(report: ProfileReport) -> dict[str, object]:
    found = [
        {"file": one.case.source.file, "line": one.case.line, "case": one.case.name}
        | {"profile": one.profile, "violation": one.text}
        for one in report.violations
    ]
    counts = {"guide": report.guide, "claims": report.claims}
    return {**counts, "violations": found, "not_checked": list(report.unchecked)}


def _mapping_at(channels: Path, destination: str) -> str:
    """Return the mapping of a destination; UsageError where no channel has it, or channels have several for it."""
    places = [(one, at.name) for one in load_channels(channels) for at in one.destinations]
    if destination not in {name for _, name in places}:
        expected = nearest(destination, {name for _, name in places})
        raise UsageError(f"no channel in {channels} has a destination {destination!r}; {expected}")
    named = sorted({channel.mapping_at(name) for channel, name in places if name == destination})
    if len(named) > 1:
        raise UsageError(f"{destination} has the mappings {', '.join(named)}; give one with --name")
    return named[0]


def _beside(cases: Sequence[Case], folders: list[Path]) -> list[Case]:
    """Return the shipped cases, but those that a site's own ones take the place of."""
    others = [folder for folder in dict.fromkeys(folders[1:]) if folder != folders[0]]
    return [case for folder in others for case in unreplaced(cases, cases_of(folder))]


def _print_failed(failed: Sequence[CaseResult]) -> None:
    for case, _, found in failed:
        typer.echo("\n    ".join((f"{case.source.file}:{case.line}: {case.name}", *found)))


def _failure(result: CaseResult) -> dict[str, object]:
    case = result.case
    return {"file": case.source.file, "line": case.line, "case": case.name, "differences": list(result.differences)}


def _made(
    judging: CompiledMapping, mapping: CompiledMapping, channel: Channel, file: Path, raw: bytes, at: str = ""
) -> Made:
    """Return how a channel would answer a message, and what is made of it where it can be read.

    `judging`: the channel's mapping, by which it is answered; `mapping`: the one by which it is written.
    """
    named, message = _arrived(judging, channel, file, raw)
    if message is None:
        return named
    made = outcome(mapping, message)
    faults = {"invalid": found} if (found := invalid(made)) else {}
    stu3 = [one.name for one in channel.servers if one.fhir == STU3 and at in {"", one.name}]
    return {**named, "event": message.trigger, "control_id": message.control_id, **made, **faults, "stu3": stu3}


def _arrived(judging: CompiledMapping, channel: Channel, file: Path, raw: bytes) -> tuple[Made, Message | None]:
    """Return how a channel would answer a message, and the message; None, and the error, where it cannot be read."""
    header = read_header(raw, event_from_evn=channel.event_from_evn, charset=channel.charset)
    judged = judge(raw, header, channel, judging) if header else Judgement(State.REJECTED, "no-header")
    answered = {
        "state": str(judged.state),
        "ack": str(code_for(judged.findings)) if header and not judged.silent else "",
        "reason": judged.reason,
        "findings": [f"{one.code.value} {one.reason} {' '.join(one.locations)}".rstrip() for one in judged.findings],
    }
    named = {"file": str(file), "door": answered}
    try:
        return named, judged.message or read_message(raw, channel)
    except MessageError as error:
        return {**named, "rule": "", "action": "refuse", "error": str(error)}, None


def _relayed(
    judging: CompiledMapping, channel: Channel, relay: Relay, edit: MessageEdit | None, file: Path, raw: bytes
) -> Made:
    """Return how a channel would answer a message, and what would leave for a relay."""
    named, message = _arrived(judging, channel, file, raw)
    if message is None:
        return named
    subject = judging.identify(message)
    named |= {"event": message.trigger, "control_id": message.control_id, "rule": subject.rule}
    named |= {"action": subject.action.value, "relay": relay.name, "send": relay.send}
    if subject.filter is not None:
        named["filter"] = subject.filter._asdict()
    try:
        after = edit.edited(message) if edit is not None else message
        steps = edit.explained(message) if edit is not None else ()
    except MappingError as error:
        return {**named, "error": str(error)}
    return named | {
        "segments": list(after.texts),
        "differences": [one._asdict() for one in differences(message, after)],
        "own_control_id": relay.control_id == OWN,
        "steps": [{**one._asdict(), "changes": [change._asdict() for change in one.changes]} for one in steps],
    }


def _lines(made: Made) -> Iterator[str]:
    yield f"{made.get('event') or 'message'} {made.get('control_id', '')}: {made['action']} ({made['rule'] or ABSENT})"
    yield f"  {'file':<12} {made['file']}"
    yield f"  {'on arrival':<12} {_on_arrival(made['door'])}"
    for name in ("patients", "visit", "event_at", "findings", "flags", "error", "warnings", "invalid"):
        value = made.get(name)
        if value:
            yield f"  {name:<12} {line_of(value)}"
    if held := made.get("filter"):
        sent = f"sent to {', '.join(held['send_to'])} and to no other destination" if held["send_to"] else held["does"]
        yield f"  {'filter':<12} {held['rule']} ({held['file']}:{held['line']}): {sent}"
    if "segments" in made:
        yield from _relayed_lines(made)
    for interaction in made.get("interactions", ()):
        yield ""
        yield f"  {words_of(interaction)}"
        for name in ("identities", "sources", "reactivate", "stand_in", "status", "clears", "slices", "deletes"):
            if interaction.get(name):
                yield f"    {name:<12} {line_of(interaction[name])}"
        body = interaction.get("patient") or interaction.get("resource") or interaction.get("retired")
        text = orjson.dumps(body, option=orjson.OPT_INDENT_2).decode() if isinstance(body, dict) else ""
        yield from (f"    {line}" for line in text.splitlines())
        for name in made.get("stu3", ()) if isinstance(body, dict) else ():
            yield f"    as {name} gets it, in STU3:"
            text = orjson.dumps(convert(body, Direction.TO_STU3), option=orjson.OPT_INDENT_2).decode()
            yield from (f"    {line}" for line in text.splitlines())


def _relayed_lines(made: Made) -> Iterator[str]:
    """Yield what would leave for a relay: the segments, and what each step of its edit does."""
    if made["send"] != EDITED:
        yield f"  {'relay':<12} {made['relay']}: the bytes leave as they came in"
        return
    yield f"  {'relay':<12} {made['relay']}: the message leaves edited"
    for step in made["steps"]:
        held = "" if step["held"] else ": its condition does not hold"
        yield f"  {'step':<12} {step['step']} ({step['file']}:{step['line']}){held}"
        for change in step["changes"]:
            yield f"    {change['path']:<12} {_shown(change['before'])} -> {_shown(change['after'])}"
        yield from (f"    {note}" for note in step["notes"])
    if made["own_control_id"]:
        yield f"  {'MSH-10':<12} becomes a number of the engine's own"
    yield ""
    yield from (f"    {text}" for text in made["segments"])


def _shown(text: str | None) -> str:
    return ABSENT if text is None else text


def _on_arrival(made: Made) -> str:
    state = f"{made['state']} {made['reason']}".rstrip()
    why = f" ({'; '.join(made['findings'])})" if made["findings"] else ""
    return f"{state}, answered {made['ack']}{why}" if made["ack"] else f"{state}, not answered"
