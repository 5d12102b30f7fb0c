"""`adt-engine mappings diff`: what another mapping would make otherwise, of the messages that really came."""

from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any, Final

import orjson
import typer

from engine.config.shipped import shipped
from engine.errors import UsageError
from engine.journal.read.dry_runs import shadowed
from engine.mapping.authoring.difference import Comparison, Kind
from engine.mapping.authoring.grouping import Group, Grouping
from engine.mapping.compile import compile_mapping, load
from engine.ops.cli.mapping.authored import folders_of
from engine.ops.cli.mapping.traffic import (
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
    handed,
)
from engine.ops.operations.fields import moment_of
from engine.ops.terminal.options import Json
from engine.ops.views.differences import summed

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
    """Compare what mappings make of messages, grouped by kind of change, with counts and an example each.

    With --server: what the entries of channels in shadow would have done at their servers, as it was found when they
    came in; no mappings are named then.

    Of a journal no values are shown unless --values says so. Exit 0, or 1 with --fail-on-change if anything differs.

    Example: adt-engine mappings diff shipped my-mappings --data /var/lib/adt-engine --event A08
    """
    on = channel_in(channel)
    only = on.channel if channel else ""
    if server:
        if data is None or old or new:
            raise UsageError("--server needs --data with the data folder of an engine, and no mappings")
        moment = moment_of(since)
        found = summed(shadowed(data, channel=only, event=event, since=moment, limit=limit))
        told = _Told(found, "{} messages in shadow, {} would change something or not be delivered", shown=values)
    else:
        if not old or not new:
            raise UsageError("name two mapping folders, or `shipped`; or --server with --data")
        choice = chosen(files, data, limit, event=event, state=state, since=since, patient=patient, channel=only)
        compared = Comparison(*(compile_mapping(load(_folders(one), name or on.mapping), on) for one in (old, new)))
        unreadable = handed(choice, on, compared.add)
        found = compared.found
        told = _Told(found, "{} messages, {} come out differently", shown=values or data is None, unreadable=unreadable)
    typer.echo(told.json() if as_json else "\n".join(told.lines()))
    if found.differing and fail_on_change:
        raise typer.Exit(1)


def _folders(folder: str) -> list[Path]:
    if folder == SHIPPED:
        return [shipped("mappings")]
    if not Path(folder).is_dir():
        raise UsageError(f"{folder} is not a folder; give mapping folders, or `shipped`")
    return folders_of(Path(folder))


class _Told:
    """Differences as they are printed; without `shown` no value of a message stands there."""

    def __init__(self, found: Grouping, conclusion: str, *, shown: bool, unreadable: int | None = None) -> None:
        self._found = found
        self._conclusion = conclusion
        self._shown = shown
        self._unreadable = unreadable

    def json(self) -> bytes:
        """Return them as JSON."""
        found = self._found
        made: dict[str, Any] = {"messages": found.messages, "differing": found.differing}
        if self._unreadable is not None:
            made["unreadable"] = self._unreadable
        made["changes"] = [self._plain(group) for group in found.groups()]
        return orjson.dumps(made, option=orjson.OPT_INDENT_2)

    def lines(self) -> Iterator[str]:
        """Yield them as lines for people."""
        for kind, groups in groupby(self._found.groups(), key=lambda group: group.kind):
            yield f"{kind.value}:"
            for group in groups:
                yield f"  {group.count:>6}  {group.path}"
                yield f"          {group.example}{self._values(group)}"
        lost = f", {self._unreadable} cannot be read" if self._unreadable else ""
        yield self._conclusion.format(self._found.messages, self._found.differing) + lost

    def _plain(self, group: Group) -> dict[str, Any]:
        made = {"kind": group.kind.value, "path": group.path, "count": group.count, "example": group.example}
        return made | ({"before": group.before, "after": group.after} if self._may_show(group) else {})

    def _values(self, group: Group) -> str:
        if not self._may_show(group) or (group.before is None and group.after is None):
            return ""
        return f": {_value(group.before)} -> {_value(group.after)}"

    def _may_show(self, group: Group) -> bool:
        return self._shown or group.kind in PLAIN


def _value(value: Any) -> str:
    return "nothing" if value is None else value if isinstance(value, str) else orjson.dumps(value).decode()
