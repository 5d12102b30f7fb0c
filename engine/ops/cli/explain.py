"""`adt-engine mappings explain`: why each element came out as it did, and what became of each field."""

from collections.abc import Iterator
from collections.abc import Mapping as MappingOf
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import orjson
import typer

from engine.config.channel import Channel
from engine.config.source import read as read_file
from engine.config.source import validate
from engine.errors import AdtEngineError, MessageError, UsageError
from engine.hl7.leaf import NULL
from engine.hl7.message import parse
from engine.journal.read.reading import Reader
from engine.mapping.authoring.case import channel_of
from engine.mapping.authoring.explain import Evidence, Explanation, explain
from engine.mapping.authoring.survey import Survey, name_of
from engine.mapping.compile import MappingSource, load
from engine.mapping.files.entry import FIELD
from engine.mapping.files.reference import nearest
from engine.mapping.language.written import written_head
from engine.ops.cli.authored import folders_of, messages_in
from engine.ops.request import entry_in, text_in
from engine.ops.socket import admin
from engine.ops.terminal.options import DATA, Data, Entry, Json, Mappings
from engine.pipeline.configuration import Files


def explain_(
    file: Annotated[Path, typer.Argument(help="A file of HL7 messages.", metavar="FILE")],
    element: Annotated[str, typer.Option(help="Only this element, such as Patient.birthDate.")] = "",
    field: Annotated[str, typer.Option(help="Only what this field went into, such as PID-7.")] = "",
    channel: Annotated[Path | None, typer.Option("--channel", help="Map as on the channel of this file.")] = None,
    mappings: Mappings = None,
    name: Annotated[str, typer.Option("--name", help="The mapping; by default the channel's own.")] = "",
    as_json: Json = False,
) -> None:
    """Say why each element came out as it did: the rule, what it read, what was done with it; and what nobody read.

    The output holds patient data. Exit 0 if every message was read, 1 otherwise.

    Example: adt-engine mappings explain samples/01-a28-add-person.hl7 --element Patient.birthDate
    """
    _check(element, field)
    on = validate(read_file(channel), Channel) if channel else channel_of({})
    source = load(folders_of(mappings), name or on.mapping)
    made = [{"file": str(file), **_explained(source, on, raw, element, field)} for raw in messages_in(file)]
    if as_json:
        typer.echo(orjson.dumps(made, option=orjson.OPT_INDENT_2, default=_plain))
    else:
        typer.echo("\n\n".join("\n".join(_told(one, element, field)) for one in made))
    if any("error" in one and "elements" not in one for one in made):
        raise typer.Exit(1)


def explain_entry(
    entry: Entry,
    element: Annotated[str, typer.Option(help="Only this element, such as Patient.birthDate.")] = "",
    field: Annotated[str, typer.Option(help="Only what this field went into, such as PID-7.")] = "",
    data: Data = DATA,
    as_json: Json = False,
) -> None:
    """Say why a journaled message comes out as it does, by the mapping files of the running engine.

    The output holds patient data. Exit 0 if the message can be read, 1 otherwise.

    Example: adt-engine messages explain 37 --element Patient.birthDate --data /var/lib/adt-engine
    """
    try:
        made = admin.ask(data, "messages.explain", {"entry": entry, "element": element, "field": field})
    except ConnectionError as error:
        raise AdtEngineError(
            f"no engine runs on {data}: start it, or explain a file with `adt-engine mappings explain FILE`"
        ) from error
    if as_json:
        typer.echo(orjson.dumps(made, option=orjson.OPT_INDENT_2))
    else:
        typer.echo("\n".join(_told(made, element, field)))
    if "error" in made and "elements" not in made:
        raise typer.Exit(1)


def explained_entry(files: Files, channels: MappingOf[str, Channel], given: MappingOf[str, Any]) -> dict[str, Any]:
    """Return why a journaled entry would come out as it does under the mapping files of now.

    Given `entry`, and `element` or `field` to be told of that alone. Returns `{entry, event, control_id, action, rule:
    {name, file, line}, elements: [{element, made, source, raw, functions, rows, file, line, rule ...}], unread: [{path,
    name}], mapping}`; `error` where it cannot be mapped. `mapping` is the hash of the mapping, to be compared with the
    one that a delivery recorded. UsageError where its channel is gone.
    """
    seq = entry_in(given)
    element, field = text_in(given, "element"), text_in(given, "field")
    _check(element, field)
    with Reader(files.data) as reader:
        view = reader.show(seq)
    channel = channels.get(view.row.channel)
    if channel is None:
        raise UsageError(f"entry {seq} came on the channel {view.row.channel}, which is no longer configured")
    source = load(folders_of(files.mappings), channel.mapping)
    made = _explained(source, channel, view.raw, element, field, charset=channel.charset)
    plain: dict[str, Any] = orjson.loads(orjson.dumps(made, default=_plain))
    return {"entry": seq, **plain}


def _check(element: str, field: str) -> None:
    if element and field:
        raise UsageError("give --element or --field, not both")
    if field and not FIELD.fullmatch(field):
        raise UsageError(f"{field!r} is not a field; give one such as PID-7 or PID-5.1")


def _explained(
    source: MappingSource, channel: Channel, raw: bytes, element: str, field: str, *, charset: str = "UTF-8"
) -> dict[str, Any]:
    try:
        message = parse(raw, charset=charset, undecodable="replace" if channel.undecodable == "replace" else "refuse")
    except MessageError as error:
        return {"error": str(error)}
    found = explain(source, channel, message)
    survey = Survey(found.trace, source.documents)
    chosen = found.of_element(element) if element else found.of_field(field) if field else found.evidence
    made: dict[str, Any] = {
        "event": message.trigger,
        "control_id": message.control_id,
        "action": found.outcome["action"],
        "rule": {"name": found.outcome["rule"], "file": found.file, "line": found.line},
        "mapping": found.hash,
        "elements": [_plainly(one) for one in chosen if one.made is not None or element],
    }
    if "error" in found.outcome:
        made["error"] = found.outcome["error"]
    if field:
        made["rules"] = _rules_of(found, field)
    if element and not chosen:
        rules = found.rules_for(element)
        made["rules"] = [{"file": file, "line": line, "reads": text} for file, line, text in rules]
        made["nearest"] = "" if rules else nearest(element, found.elements())
    if not element and not field:
        made["unread"] = [unread._asdict() for unread in survey.unread(message)]
    return made


def _rules_of(found: Explanation, field: str) -> list[dict[str, Any]]:
    """Return where a mapping names a field, whether or not the message fills it."""
    wanted = field.partition(".")[0]
    named = [(read.scope, written_head(read.head)) for read in found.trace.reads]
    named += [(each.scope, f"each {each.source}") for each in found.trace.eaches]
    places = {
        (*scope.document.place(scope.path), text)
        for scope, text in named
        if text.removeprefix("each ").split("(")[0].split("[")[0].split(".")[0] == wanted
    }
    return [{"file": file, "line": line, "reads": text} for file, line, text in sorted(places)]


def _plainly(one: Evidence) -> dict[str, Any]:
    plain = asdict(one)
    plain["functions"] = [asdict(applied) for applied in one.functions]
    plain["rows"] = [asdict(row) for row in one.rows]
    return plain


def _told(made: dict[str, Any], element: str, field: str) -> Iterator[str]:
    if "elements" not in made:
        yield f"message: {made['error']}"
        return
    rule = made["rule"]
    yield f"{made['event']} {made['control_id']}: {made['action']} ({rule['name']})  {rule['file']}:{rule['line']}"
    if "error" in made:
        yield f"  not mapped: {made['error']}"
    for one in made["elements"]:
        yield ""
        yield from _element(one)
    if not made["elements"] and field:
        yield ""
        yield f"  nothing was made of {field} {name_of(field)}".rstrip()
    if not made["elements"] and element:
        yield ""
        if not made["rules"]:
            yield f"  no rule makes {element}; {made['nearest']}"
            return
        yield f"  nothing was made of {element}: the message has nothing that these rules read"
        yield from (f"    {one['file']}:{one['line']}  {one['reads']}" for one in made["rules"])
    if field:
        yield ""
        yield f"  rules that read {field} {name_of(field)}".rstrip() + (":" if made["rules"] else ": none")
        yield from (f"    {one['file']}:{one['line']}  {one['reads']}" for one in made["rules"])
    if made.get("unread"):
        yield ""
        yield "  read by no rule:"
        yield from (f"    {one['path']:<10} {one['name']}".rstrip() for one in made["unread"])


def _element(one: dict[str, Any]) -> Iterator[str]:
    yield f"  {one['element']} = {_value(one['made']) if one['made'] is not None else 'nothing'}"
    if one["source"]:
        segment = f" (in {one['source'][:3]} number {one['segment']})" if one["segment"] else ""
        found = _value(one["raw"]) if one["asked"] else "not there, or a condition does not hold"
        yield f"      {one['source']}{segment}: {found}"
    for applied in one["functions"]:
        made = "" if applied["made"] == one["made"] else f": {_value(applied['made'])}"
        yield f"      {applied['function']}{made}"
    for row in one["rows"]:
        where = f"{row['file']}:{row['line']}" if row["line"] else "no such row"
        yield f"      table {row['table']}, {row['code']}: {where}"
    yield f"      {one['file']}:{one['line']}  {one['rule']}"


def _value(value: Any) -> str:
    if value is NULL:
        return '"" (delete)'
    if value is None:
        return "nothing"
    return value if isinstance(value, str) else orjson.dumps(value, default=_plain).decode()


def _plain(value: Any) -> Any:
    """Return a null as HL7 writes it."""
    return '""' if value is NULL else str(value)
