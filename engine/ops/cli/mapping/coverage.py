"""`adt-engine mappings coverage`: what a mapping leaves out of real messages, and what they leave out of it."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Final

import typer

from engine.fhir.json import JsonObject
from engine.mapping.authoring.coverage import Coverage
from engine.mapping.compile import read
from engine.mapping.files.overlay import FIELD
from engine.ops.cli.mapping.mappings import (
    AtDestination,
    MappingOf,
    channel_file,
    channel_in,
    check_server,
    chosen_mapping,
    folders_of,
)
from engine.ops.cli.mapping.page import Html, ReportSection, write_page
from engine.ops.cli.mapping.traffic import Files, Journal, Limit, MessageSelection, On, Values, each_message
from engine.ops.operations.filters import SearchFilter
from engine.ops.terminal.command import takes
from engine.terminal.options import AsJson, Mappings
from engine.terminal.table import print_json

Unused = Annotated[bool, typer.Option("--unused", help="List the elements and rules that were never used.")]
SECTIONS: Final = (
    ReportSection("outcomes", "Events", {"event": "Event", "action": "Action", "rule": "Rule", "count": "Messages"}),
    ReportSection(
        "filters",
        "Filters",
        {"rule": "Rule", "does": "Does", "send_to": "Sends to", "file": "File", "line": "Line", "count": "Messages"},
    ),
    ReportSection("unread", "Read by no rule", {"path": "Field", "name": "Name", "count": "Messages"}),
    ReportSection(
        "unmapped", "Codes that no table has", {"table": "Table", "code": "Code", "field": "Field", "count": "Times"}
    ),
    ReportSection("elements_never_produced", "Elements never produced", {"element": "Element"}),
    ReportSection(
        "rules_never_used", "Rules never used", {"element": "Element", "rule": "Rule", "file": "File", "line": "Line"}
    ),
)


@takes(SearchFilter, channel=None)
def coverage(
    filters: SearchFilter,
    files: Files = None,
    data: Journal = None,
    channel: On = None,
    destination: AtDestination = "",
    limit: Limit = 1000,
    mappings: Mappings = None,
    name: MappingOf = "",
    values: Values = False,
    unused: Unused = False,
    html: Html = None,
    as_json: AsJson = False,
) -> None:
    """Show which fields no rule reads, which codes no table has, and which elements and rules messages never use.

    Of a journal, and in an HTML file, codes are counted but not shown, unless --values says so. Elements and rules are
    counted, and listed with --unused.

    Example: adt-engine mappings coverage samples/04-a01-admit.hl7 --mappings my-mappings
    """
    named, on = chosen_mapping(channel_in(channel), channel, name, destination)
    check_server(on, destination)
    found = Coverage(read(folders_of(mappings), named), on, channel_file(channel))
    chosen = filters.model_copy(update={"channel": on.channel if channel else ""})
    unreadable = each_message(
        MessageSelection(files, data, chosen, limit), on, lambda _name, message: found.add(message)
    )
    made = _made(found, unreadable, shown=values or data is None)
    if html is not None:
        paged = _made(found, unreadable, shown=values)
        # A line that is no segment counts as one: its text takes the place of its name.
        paged["unread"] = [one for one in paged["unread"] if values or FIELD.fullmatch(one["path"])]
        sections = [_without_code(one) if one.key == "unmapped" and not values else one for one in SECTIONS]
        write_page(html, "Coverage of a mapping", [_total(made)], sections if unused else sections[:4], paged)
    if as_json:
        print_json(made)
    else:
        typer.echo("\n".join(_lines(made, unused=unused)))


def _made(found: Coverage, unreadable: int, *, shown: bool) -> JsonObject:
    return {
        "messages": found.messages,
        "unreadable": unreadable,
        "outcomes": [
            {"event": event, "action": action, "rule": rule, "count": count}
            for (event, action, rule), count in sorted(found.outcomes.items())
        ],
        "filters": [
            {**one._asdict(), "send_to": ", ".join(one.send_to), "count": count} for one, count in found.filters.items()
        ],
        "unread": [{"path": path, "name": name, "count": count} for path, name, count in found.unread_named()],
        "unmapped": _codes(found, shown=shown),
        "elements_never_produced": found.never_produced(),
        "rules_never_used": [unused._asdict() for unused in found.never_used()],
    }


def _codes(found: Coverage, *, shown: bool) -> list[JsonObject]:
    """Return unmapped codes by table, the most frequent first; without codes only the counts of tables and fields."""
    counts: dict[tuple[str, str, str], int] = {}
    for one, count in found.codes.items():
        key = (one.table, one.code if shown else "", one.field)
        counts[key] = counts.get(key, 0) + count
    return [
        {"table": table, **({"code": code} if shown else {}), "field": field, "count": count}
        for (table, code, field), count in sorted(counts.items(), key=lambda one: (one[0][0], -one[1], one[0]))
    ]


def _without_code(section: ReportSection) -> ReportSection:
    return section._replace(columns={key: title for key, title in section.columns.items() if key != "code"})


def _total(made: JsonObject) -> str:
    plural = "" if made["messages"] == 1 else "s"
    return f"{made['messages']} message{plural}" + (
        f", {made['unreadable']} cannot be read" if made["unreadable"] else ""
    )


def _lines(made: JsonObject, *, unused: bool) -> Iterator[str]:
    yield _total(made)
    for one in made["outcomes"]:
        yield f"  {one['count']:>6}  {one['event']}  {one['action']} ({one['rule']})"
    filters = (
        f"{one['rule']}  {one['does']} {one['send_to']}".rstrip() + f"  {one['file']}:{one['line']}"
        for one in made["filters"]
    )
    yield from _section("filters", filters, made["filters"])
    yield from _section(
        "read by no rule", (f"{one['path']:<10} {one['name']}" for one in made["unread"]), made["unread"]
    )
    codes = (f"{one['table']:<24} {one.get('code', ''):<12} {one['field']}" for one in made["unmapped"])
    yield from _section("codes that no table has", codes, made["unmapped"])
    never = len(made["elements_never_produced"]), len(made["rules_never_used"])
    if not unused:
        yield "never produced: {} elements; never used: {} rules (--unused lists them)".format(*never)
        return
    yield from _section("elements never produced", iter(made["elements_never_produced"]), [])
    rules = (f"{one['file']}:{one['line']}  {one['element']}: {one['rule']}" for one in made["rules_never_used"])
    yield from _section("rules never used", rules, [])


def _section(title: str, lines: Iterator[str], counted: Sequence[Mapping[str, object]]) -> Iterator[str]:
    found = list(lines)
    if not found:
        return
    yield f"{title}:"
    counts = [f"{one['count']:>6}  " for one in counted] or ["  "] * len(found)
    yield from (f"  {count}{line}".rstrip() for count, line in zip(counts, found, strict=True))
