"""`adt-engine mappings diff`: what another mapping would make otherwise, of the messages that really came."""

from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Annotated, Final

import orjson
import typer

from engine.config.settings import shipped
from engine.errors import UsageError
from engine.fhir.json import Json, JsonObject
from engine.journal.read.dry_runs import shadowed
from engine.mapping.authoring.difference import Comparison, DifferenceGroup, DifferenceGrouping, DifferenceKind
from engine.mapping.compile import compile_mapping, read
from engine.ops.cli.mapping.mappings import (
    AtDestination,
    MappingOf,
    channel_in,
    check_server,
    chosen_mapping,
    folders_of,
)
from engine.ops.cli.mapping.page import Html, ReportSection, write_page
from engine.ops.cli.mapping.traffic import Files, Journal, Limit, MessageSelection, On, Values, each_message
from engine.ops.cli.messages.number_forms import numbers_changed
from engine.ops.operations.filters import SearchFilter
from engine.ops.terminal.command import takes
from engine.ops.views.differences import summed
from engine.terminal.options import AsJson
from engine.terminal.table import print_json

SHIPPED: Final = "shipped"
# Their texts are codes of the engine and names of rules, never values of a message.
PLAIN: Final = frozenset(
    {DifferenceKind.RULE, DifferenceKind.ACTION, DifferenceKind.ERROR, DifferenceKind.STEP, DifferenceKind.WARNING}
)
# The filters that the differences of channels in shadow know.
SHADOWED: Final = frozenset({"event", "since"})

Folder = Annotated[str, typer.Argument(help="A mapping folder, or `shipped`.")]
Server = Annotated[bool, typer.Option("--server", help="What a channel in shadow would change at its server.")]


@takes(SearchFilter, channel=None)
def diff(
    filters: SearchFilter,
    old: Folder = "",
    new: Folder = "",
    files: Files = None,
    data: Journal = None,
    channel: On = None,
    destination: AtDestination = "",
    limit: Limit = 1000,
    name: MappingOf = "",
    values: Values = False,
    fail_on_change: Annotated[bool, typer.Option("--fail-on-change", help="Exit 1 if anything differs.")] = False,
    server: Server = False,
    html: Html = None,
    as_json: AsJson = False,
) -> None:
    """Compare what mappings make of messages, grouped by kind of change, with counts and an example each.

    With --server: what the entries of channels in shadow would have done at their servers, as it was found when they
    came in; no mappings are named then.

    Of a journal, and in an HTML file, no values are shown unless --values says so. Exit 0, or 1 with --fail-on-change
    if anything differs.

    Example: adt-engine mappings diff shipped my-mappings --data /var/lib/adt-engine --event A08
    """
    named, on = chosen_mapping(channel_in(channel), channel, name, destination)
    check_server(on, destination)
    chosen = filters.model_copy(update={"channel": on.channel if channel else ""})
    unreadable, numbers = None, []
    if server:
        if data is None or old or new:
            raise UsageError("--server needs --data with the data folder of an engine, and no mappings")
        if other := filters.model_fields_set - SHADOWED:
            raise UsageError(f"--server takes no --{min(other).replace('_', '-')}, only --event, --since and --channel")
        found = summed(shadowed(data, channel=chosen.channel, event=chosen.event, since=chosen.since, limit=limit))
    else:
        if not old or not new:
            raise UsageError("name two mapping folders, or `shipped`; or --server with --data")
        before, after = (compile_mapping(read(_folders(one), named), on) for one in (old, new))
        compared = Comparison(before, after)
        numbers = numbers_changed(data, on, before, after)
        unreadable = each_message(MessageSelection(files, data, chosen, limit), on, compared.add)
        found = compared.found
    shown = values or (data is None and not server)
    if html is not None:
        write_page(
            html,
            f"From {old} to {new}" if new else "Channels in shadow",
            [_total(found, unreadable)],
            *_paged(found, shown=values),
        )
    if as_json:
        print_json(_made(found, unreadable, shown=shown) | ({"numbers": numbers} if numbers else {}))
    else:
        typer.echo("\n".join((*numbers, *_lines(found, unreadable, shown=shown))))
    if found.differing and fail_on_change:
        raise typer.Exit(1)


def _folders(folder: str) -> list[Path]:
    if folder == SHIPPED:
        return [shipped("mappings")]
    if not Path(folder).is_dir():
        raise UsageError(f"{folder} is not a folder; give mapping folders, or `shipped`")
    return folders_of(Path(folder))


def _made(found: DifferenceGrouping, unreadable: int | None, *, shown: bool) -> dict[str, object]:
    """Return differences as JSON; `shown`: with the values of messages."""
    made = {"messages": found.messages, "differing": found.differing}
    changes = [_change(group, shown=shown or group.kind in PLAIN) for group in found.groups()]
    return made | ({} if unreadable is None else {"unreadable": unreadable}) | {"changes": changes}


def _change(group: DifferenceGroup, *, shown: bool) -> dict[str, object]:
    made = {"kind": group.kind.value, "path": group.path, "count": group.count, "example": group.example}
    return made | ({"before": group.before, "after": group.after} if shown else {})


def _lines(found: DifferenceGrouping, unreadable: int | None, *, shown: bool) -> Iterator[str]:
    """Yield differences as lines for people; `shown`: with the values of messages."""
    for kind, groups in groupby(found.groups(), key=lambda group: group.kind):
        yield f"{kind.value}:"
        for group in groups:
            is_shown = (shown or kind in PLAIN) and not (group.before is None and group.after is None)
            values = f": {_value(group.before)} -> {_value(group.after)}" if is_shown else ""
            yield f"  {group.count:>6}  {group.path}"
            yield f"          {group.example}{values}"
    yield _total(found, unreadable)


def _total(found: DifferenceGrouping, unreadable: int | None) -> str:
    if unreadable is None:
        return f"{found.messages} messages in shadow, {found.differing} would change something or not be delivered"
    lost = f", {unreadable} cannot be read" if unreadable else ""
    return f"{found.messages} messages, {found.differing} come out differently{lost}"


def _paged(found: DifferenceGrouping, *, shown: bool) -> tuple[list[ReportSection], JsonObject]:
    """Return a section for each kind of change, and its rows; without values the name of the example is none either."""
    sections: list[ReportSection] = []
    rows: JsonObject = {}
    for kind, groups in groupby(found.groups(), key=lambda group: group.kind):
        key = kind.name.lower()
        values = {"before": "Before", "after": "After"} if shown or kind in PLAIN else {}
        example = {"example": "Example"} if shown else {}
        sections.append(
            ReportSection(key, kind.value.capitalize(), {"path": "What", "count": "Messages", **values, **example})
        )
        rows[key] = [
            {**_change(group, shown=True), "before": _value(group.before), "after": _value(group.after)}
            for group in groups
        ]
    return sections, rows


def _value(value: Json) -> str:
    return "nothing" if value is None else value if isinstance(value, str) else orjson.dumps(value).decode()
