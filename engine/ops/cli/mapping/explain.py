"""`adt-engine mappings explain`: why each element came out as it did, and what became of each field."""

import re
from collections.abc import Iterator
from functools import partial
from itertools import groupby, islice
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple

import orjson
import typer

from engine.errors import AdtEngineError, UsageError
from engine.fhir.json import Json
from engine.hl7.leaf import NULL
from engine.mapping.authoring.explain import watch
from engine.mapping.authoring.survey import name_of
from engine.mapping.compile import MappingSource, read
from engine.mapping.files.reference import nearest
from engine.ops.cli.mapping.mappings import (
    AtDestination,
    MappingOf,
    OfChannel,
    channel_file,
    channel_in,
    check_server,
    chosen_mapping,
    folders_of,
    messages_in,
)
from engine.ops.operations.explaining import ExplainMessage, check_parts
from engine.ops.terminal.command import ask_if_running, takes
from engine.ops.views.entry import Condition, Element, Explained, ReadBeside
from engine.ops.views.explaining import explained, plain
from engine.terminal.options import DATA, AsJson, Data, Mappings
from engine.terminal.table import print_json

SEGMENT: Final = re.compile(r"[A-Z][A-Z0-9]{2}")


def explain_(
    file: Annotated[Path, typer.Argument(help="A file of HL7 messages.", metavar="FILE")],
    element: Annotated[str, typer.Option(help="Only this element, such as Patient.birthDate.")] = "",
    field: Annotated[str, typer.Option(help="Only what this field went into, such as PID-7.")] = "",
    segment: Annotated[str, typer.Option(help="Only what came from this segment, such as PV1.")] = "",
    rule_file: Annotated[
        str, typer.Option(help="Only what rules of this mapping file made, such as encounter.yaml.", metavar="FILE")
    ] = "",
    channel: OfChannel = None,
    destination: AtDestination = "",
    mappings: Mappings = None,
    name: MappingOf = "",
    as_json: AsJson = False,
) -> None:
    """Say why each element came out as it did: the rule, what it read, what was done with it; and what nobody read.

    An element includes all below it: Encounter, Patient.name. The output holds patient data. Exit 0 if every message
    was read, 1 otherwise.

    Example: adt-engine mappings explain samples/01-a28-add-person.hl7 --element Patient.birthDate
    """
    check_parts(element, field)
    named, on = chosen_mapping(channel_in(channel), channel, name, destination)
    check_server(on, destination)
    source = read(folders_of(mappings), named)
    chosen = ExplanationFilter(_segment(segment), _rule_file(rule_file, source))
    watched = partial(watch, source, on, channel_file(channel))
    made = [chosen.of(explained(watched, on, raw, element, field)) for raw in messages_in(file)]
    found = [Explained.model_validate({"entry": 0, **orjson.loads(orjson.dumps(one, default=plain))}) for one in made]
    if as_json:
        typer.echo(
            orjson.dumps([{"file": str(file), **one} for one in made], default=plain, option=orjson.OPT_INDENT_2)
        )
    else:
        texts = (_lines(one, element, field, chosen) if _any(one, chosen) else _nothing(one) for one in found)
        typer.echo("\n\n".join(map("\n".join, texts)))
    if any(one.rule is None for one in found):
        raise typer.Exit(1)


def _any(found: Explained, chosen: "ExplanationFilter") -> bool:
    """True if there is anything to show of what is chosen."""
    return not any(chosen) or bool(found.elements or found.conditions or found.lines)


class ExplanationFilter(NamedTuple):
    """What is shown of explanations: what came from a segment, what rules of a file made; empty for all."""

    segment: str
    file: str

    def of(self, made: dict[str, Any]) -> dict[str, Any]:
        """Return an explanation without what is not chosen."""
        if not (self.segment or self.file) or "elements" not in made:
            return made
        elements = [one for one in made["elements"] if self._has(one["source"], one["file"])]
        more = {
            "unread": [unread for unread in made.get("unread", ()) if self._has(unread["path"], "")],
            "conditions": [condition for condition in made.get("conditions", ()) if self._decides(condition)],
            "lines": [line for line in made.get("lines", ()) if self.file and self._decides(line)],
        }
        return {**made, "elements": elements, **{key: one for key, one in more.items() if key in made}}

    def _decides(self, one: dict[str, Any]) -> bool:
        """Say whether a condition or a line is of the file, and reads the segment, that are chosen."""
        read = self.segment and not any(read["source"].startswith(f"{self.segment}-") for read in one["read"])
        return not read and (not self.file or self._has(f"{self.segment}-", one["file"]))

    def _has(self, path: str, file: str) -> bool:
        if self.segment and path.partition("-")[0] != self.segment:
            return False
        parts = Path(self.file).parts
        return not parts or Path(file).parts[-len(parts) :] == parts


ALL: Final = ExplanationFilter("", "")


def _segment(name: str) -> str:
    if name and not SEGMENT.fullmatch(name):
        raise UsageError(f"--segment {name} is not a segment; give its name of three characters, such as PV1 or ZPI")
    return name


def _rule_file(name: str, source: MappingSource) -> str:
    """Return the end of the path of a mapping file; UsageError where the mapping has no such file."""
    if not name:
        return ""
    files = sorted({Path(one.source.file).name for one in source.documents.everything()})
    if Path(name).name not in files:
        raise UsageError(f"--rule-file {name} is not a file of this mapping; {nearest(Path(name).name, files)}")
    return name


@takes(ExplainMessage, entry="ENTRY")
def explain_entry(request: ExplainMessage, data: Data = DATA, as_json: AsJson = False) -> None:
    """Say why a journaled message comes out as it does, by the mapping files of the running engine.

    The output holds patient data. Exit 0 if the message can be read, 1 otherwise.

    Example: adt-engine messages explain 37 --element Patient.birthDate --data /var/lib/adt-engine
    """
    found = ask_if_running(data, request)
    if found is None:
        raise AdtEngineError(
            f"no engine runs on {data}: start it, or explain a file with `adt-engine mappings explain FILE`"
        )
    if as_json:
        print_json(ExplainMessage.to_json(found))
    else:
        typer.echo("\n".join(_lines(found, request.element, request.field)))
    if found.error and found.rule is None:
        raise typer.Exit(1)


def _nothing(found: Explained) -> Iterator[str]:
    yield from islice(_lines(found, "", ""), 2 if found.rule and found.error else 1)
    if found.rule is not None:
        yield "  nothing was made of what is chosen"


def _lines(found: Explained, element: str, field: str, chosen: ExplanationFilter = ALL) -> Iterator[str]:
    rule = found.rule
    if rule is None:
        yield from [f"message: {found.error}"] if found.error else []
        yield from (one.words for one in found.relays)
        return
    yield f"{found.event} {found.control_id}: {found.action} ({rule.name})  {rule.file}:{rule.line}"
    if found.destination or found.own_mappings:
        whose = f"the destination {found.destination}" if found.destination else "the channel"
        others = (f"{name} has {own}" for name, own in found.own_mappings.items() if name != found.destination)
        hint = "; ".join((f"by the mapping {found.mapping_name} of {whose}", *others))
        yield f"  {hint}"
    if sent := found.sent_by:
        yield f"  sent to {', '.join(sent.send_to)} only ({sent.name})  {sent.file}:{sent.line}"
    yield from (f"  {one.words}" for one in found.relays)
    if found.error:
        yield f"  not mapped: {found.error}"
    for one in found.elements:
        yield ""
        yield from _element(one)
    if chosen.file or not (element or field):
        yield from _beside(found, chosen)
    if not found.elements and field:
        yield ""
        yield f"  nothing was made of {field} {name_of(field)}".rstrip()
    reads = [f"    {one.file}:{one.line}  {one.reads}" for one in found.rules]
    if not found.elements and element:
        yield ""
        if not reads:
            yield f"  no rule makes {element}; {found.nearest}"
            return
        yield f"  nothing was made of {element}: the message has nothing that these rules read"
        yield from reads
    if field:
        yield ""
        yield f"  rules that read {field} {name_of(field)}".rstrip() + (":" if reads else ": none")
        yield from reads
    if found.unread:
        yield ""
        yield "  read by no rule:"
        yield from (f"    {one.path:<10} {one.name}".rstrip() for one in found.unread)


def _beside(found: Explained, chosen: ExplanationFilter) -> Iterator[str]:
    """Yield what no element has: conditions, and of a file that is chosen the lines that held."""
    if found.conditions:
        yield ""
        yield "  conditions of filters, resources and moves of a status:"
        for condition in found.conditions:
            yield f"    {condition.element or 'filter'} {_condition(condition)}"
    if chosen.file and found.lines:
        yield ""
        yield "  other lines that the message was read by:"
        for (file, number, key), group in groupby(found.lines, lambda one: (one.file, one.line, one.key)):
            said = [f"{line.text}{_read_by(line.read)}" for line in group]
            yield f"    {file}:{number}  {key}: {', '.join(said)}"


def _element(one: Element) -> Iterator[str]:
    yield f"  {one.element} = {_value(one.made)}"
    if one.source:
        segment = f" (in {one.source[:3]} number {one.segment})" if one.segment else ""
        found = _value(one.raw) if one.asked else "not there, or a condition does not hold"
        yield f"      {one.source}{segment}: {found}"
    yield from (f"      {read.source}: {_value(read.raw)}" for read in one.read)
    for applied in one.functions:
        made = "" if applied["made"] == one.made else f": {_value(applied['made'])}"
        yield f"      {applied['function']}{made}"
    for row in one.rows:
        where = f"{row['file']}:{row['line']}" if row["line"] else "no such row"
        if row["policy"]:
            where += f"; unmapped: {row['policy']}  {row['policy_file']}:{row['policy_line']}"
        yield f"      table {row['table']}, {row['code']}: {where}"
    yield from (f"      warning: {warning}" for warning in one.warnings)
    yield from (f"      {_condition(condition)}" for condition in one.conditions)
    yield f"      {one.file}:{one.line}  {one.rule}"
    yield from (f"      in {line.file}:{line.line}  {line.text}" for line in reversed(one.through))


def _condition(one: Condition) -> str:
    met = "lets it through" if one.passed else "does not let it through"
    return f"{one.text}: {met}{_read_by(one.read)}  {one.file}:{one.line}"


def _read_by(read: tuple[ReadBeside, ...]) -> str:
    return f" ({', '.join(f'{one.source}: {_value(one.raw)}' for one in read)})" if read else ""


def _value(value: Json) -> str:
    """Return a value as it is read; a null of HL7 deletes."""
    if value == plain(NULL):
        return f"{value} (delete)"
    return "nothing" if value is None else value if isinstance(value, str) else orjson.dumps(value).decode()
