"""`adt-engine mappings explain`: why each element came out as it did, and what became of each field."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import orjson
import typer

from engine.config.channel import Channel
from engine.config.source import read as read_file
from engine.config.source import validate
from engine.errors import AdtEngineError
from engine.hl7.leaf import NULL
from engine.mapping.authoring.case import channel_of
from engine.mapping.authoring.survey import name_of
from engine.mapping.compile import load
from engine.ops.cli.mapping.authored import folders_of, messages_in
from engine.ops.operations.messages import ExplainMessage
from engine.ops.terminal.command import ask_if_running, takes
from engine.ops.terminal.options import DATA, Data, Json, Mappings
from engine.ops.terminal.table import print_json
from engine.ops.views.explaining import check_parts, explained, plain


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
    check_parts(element, field)
    on = validate(read_file(channel), Channel) if channel else channel_of({})
    source = load(folders_of(mappings), name or on.mapping)
    made = [{"file": str(file), **explained(source, on, raw, element, field)} for raw in messages_in(file)]
    if as_json:
        typer.echo(orjson.dumps(made, option=orjson.OPT_INDENT_2, default=plain))
    else:
        typer.echo("\n\n".join("\n".join(_lines(one, element, field)) for one in made))
    if any("error" in one and "elements" not in one for one in made):
        raise typer.Exit(1)


@takes(ExplainMessage, entry="ENTRY")
def explain_entry(request: ExplainMessage, data: Data = DATA, as_json: Json = False) -> None:
    """Say why a journaled message comes out as it does, by the mapping files of the running engine.

    The output holds patient data. Exit 0 if the message can be read, 1 otherwise.

    Example: adt-engine messages explain 37 --element Patient.birthDate --data /var/lib/adt-engine
    """
    found = ask_if_running(data, request)
    if found is None:
        raise AdtEngineError(
            f"no engine runs on {data}: start it, or explain a file with `adt-engine mappings explain FILE`"
        )
    made = ExplainMessage.to_json(found)
    if as_json:
        print_json(made)
    else:
        typer.echo("\n".join(_lines(made, request.element, request.field)))
    if "error" in made and "elements" not in made:
        raise typer.Exit(1)


def _lines(made: dict[str, Any], element: str, field: str) -> Iterator[str]:
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
    return value if isinstance(value, str) else orjson.dumps(value, default=plain).decode()
