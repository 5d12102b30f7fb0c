"""`adt-engine mappings diff`: what another mapping would make otherwise, of the messages that really came."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Final

import orjson
import typer

from engine.config.shipped import shipped
from engine.errors import UsageError
from engine.journal.rehearsals import shadowed
from engine.mapping.compile import compile_mapping, load
from engine.mapping.difference import Comparison, Group, Kind
from engine.ops.authored import folders_of
from engine.ops.differences import Summary, summed
from engine.ops.options import Json
from engine.ops.searching import filters_of
from engine.ops.traffic import (
    Event,
    Files,
    Journal,
    Limit,
    On,
    Patient,
    Since,
    State,
    Values,
    channel_in,
    chosen,
    samples,
    waiting,
)

SHIPPED: Final = "shipped"
# Their texts are codes of the engine and names of rules, never values of a message.
PLAIN: Final = frozenset({Kind.RULE, Kind.ACTION, Kind.ERROR, Kind.STEP, Kind.WARNING})

Folder = Annotated[str, typer.Argument(help="A mapping folder, or `shipped`.")]
Server = Annotated[bool, typer.Option("--server", help="What a channel in shadow would change at its server.")]


def diff(
    old: Folder = "",
    new: Folder = "",
    files: Files = None,
    data: Journal = None,
    channel: On = None,
    event: Event = "",
    state: State = "",
    since: Since = "",
    patient: Patient = "",
    limit: Limit = 1000,
    name: Annotated[str, typer.Option("--name", help="The mapping; by default the channel's own.")] = "",
    values: Values = False,
    fail_on_change: Annotated[bool, typer.Option("--fail-on-change", help="Exit 1 if anything differs.")] = False,
    server: Server = False,
    as_json: Json = False,
) -> None:
    """Show what would come out differently of messages, grouped by kind of change, with counts and an example each.

    With --server: what the entries of channels in shadow would have done at their servers, as it was found when they
    came in; no mappings are named then.

    Of a journal no values are shown unless --values says so. Exit 0, or 1 with --fail-on-change if anything differs.

    Example: adt-engine mappings diff shipped my-mappings --data /var/lib/adt-engine --event A08
    """
    on = channel_in(channel)
    if server:
        if data is None or old or new:
            raise UsageError("--server needs --data with the data folder of an engine, and no mappings")
        moment = filters_of({"since": since}).since
        name_of = on.channel if channel else ""
        told = summed(shadowed(data, channel=name_of, event=event, since=moment, limit=limit))
        differing = _of_server(told, shown=values, as_json=as_json)
        raise typer.Exit(1 if differing and fail_on_change else 0)
    if not old or not new:
        raise UsageError("name two mapping folders, or `shipped`; or --server with --data")
    choice = chosen(
        files,
        data,
        limit,
        event=event,
        state=state,
        since=since,
        patient=patient,
        channel=on.channel if channel else "",
    )
    before, after = (compile_mapping(load(_folders(folder), name or on.mapping), on) for folder in (old, new))
    found = Comparison(before, after)
    unreadable = 0
    with waiting():
        for sample in samples(choice, on):
            if sample.message is None:
                unreadable += 1
            else:
                found.add(sample.name, sample.message)
    shown = values or data is None
    if as_json:
        made = {"messages": found.messages, "unreadable": unreadable, "differing": found.differing}
        changes = [_plain(group, shown=shown) for group in found.groups()]
        typer.echo(orjson.dumps({**made, "changes": changes}, option=orjson.OPT_INDENT_2))
    else:
        typer.echo("\n".join(_told(found, unreadable, shown=shown)))
    if found.differing and fail_on_change:
        raise typer.Exit(1)


def _of_server(found: Summary, *, shown: bool, as_json: bool) -> int:
    """Print what channels in shadow would have done, and return how many entries would have done something."""
    if as_json:
        changes = [
            {"kind": one.kind.value, "path": one.path, "count": one.count, "example": one.example}
            | ({"before": one.before, "after": one.after} if shown else {})
            for one in found.sums()
        ]
        made = {"messages": found.messages, "differing": found.differing, "changes": changes}
        typer.echo(orjson.dumps(made, option=orjson.OPT_INDENT_2))
    else:
        typer.echo("\n".join(_lines(found, shown=shown)))
    return found.differing


def _lines(found: Summary, *, shown: bool) -> Iterator[str]:
    kind = None
    for one in found.sums():
        if one.kind is not kind:
            kind = one.kind
            yield f"{kind.value}:"
        yield f"  {one.count:>6}  {one.path}"
        values = f": {_value(one.before)} -> {_value(one.after)}" if shown and (one.before or one.after) else ""
        yield f"          {one.example}{values}"
    yield f"{found.messages} messages in shadow, {found.differing} would change something or not be delivered"


def _folders(folder: str) -> list[Path]:
    if folder == SHIPPED:
        return [shipped("mappings")]
    if not Path(folder).is_dir():
        raise UsageError(f"{folder} is no folder; give mapping folders, or `shipped`")
    return folders_of(Path(folder))


def _plain(group: Group, *, shown: bool) -> dict[str, Any]:
    made: dict[str, Any] = {"kind": group.kind.value, "path": group.path, "count": group.count}
    made["example"] = group.example
    if shown or group.kind in PLAIN:
        made |= {"before": group.before, "after": group.after}
    return made


def _told(found: Comparison, unreadable: int, *, shown: bool) -> Iterator[str]:
    kind = None
    for group in found.groups():
        if group.kind is not kind:
            kind = group.kind
            yield f"{kind.value}:"
        yield f"  {group.count:>6}  {group.path}"
        example = f"          {group.example}"
        if shown or group.kind in PLAIN:
            example += f": {_value(group.before)} -> {_value(group.after)}"
        yield example
    lost = f", {unreadable} cannot be read" if unreadable else ""
    yield f"{found.messages} messages, {found.differing} come out differently{lost}"


def _value(value: Any) -> str:
    return "nothing" if value is None else value if isinstance(value, str) else orjson.dumps(value).decode()
