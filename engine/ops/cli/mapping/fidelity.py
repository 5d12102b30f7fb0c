"""`adt-engine mappings fidelity`: which fields come back equal from HL7 v2 to FHIR to HL7 v2, and every loss."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Final

import typer

from engine.config.settings import shipped
from engine.errors import MessageError, UsageError
from engine.fhir.json import JsonObject
from engine.hl7.events import ADT
from engine.hl7.message import parse
from engine.mapping.authoring.fidelity import Fidelity, FidelityReport
from engine.mapping.compile import read
from engine.mapping.outgoing.compile import read_outgoing
from engine.ops.cli.mapping.mappings import OfChannel, channel_in, folders_of
from engine.ops.cli.mapping.traffic import messages_below
from engine.terminal.options import AsJson, MappingName, Mappings
from engine.terminal.table import print_json, progress

MOST_SHOWN: Final = 40


def fidelity(
    files: Annotated[
        list[Path] | None,
        typer.Argument(help="Files of HL7 messages, or folders of them; by default the samples.", metavar="[FILE...]"),
    ] = None,
    corpus: Annotated[
        Path | None,
        typer.Option("--corpus", metavar="FOLDER", help="A folder of messages, in addition to files."),
    ] = None,
    channel: OfChannel = None,
    mappings: Mappings = None,
    name: MappingName = "adt",
    at_least: Annotated[float, typer.Option("--at-least", min=0, max=100, help="Exit 1 below this share.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Map messages to FHIR and back, and show the share of the fields read that come back equal, and every loss.

    Equal are also timestamps of one moment, two codes that a table has for one FHIR code, and what comes back in the
    field or component that HL7 has put in the place of a withdrawn one. No value is shown. Exit 0, or 1 below
    --at-least.

    Example: adt-engine mappings fidelity samples --at-least 95
    """
    paths = [*(files or ()), *((corpus,) if corpus is not None else ())] or [shipped("samples")]
    folders, on = folders_of(mappings), channel_in(channel)
    found = Fidelity(read(folders, name), on, read_outgoing(folders, name), datetime.now(UTC))
    raws = [one.raw for one in messages_below(paths)]
    unreadable = 0
    with progress(shown=not as_json) as bar:
        for raw in bar.track(raws, description="messages"):
            try:
                message = parse(raw, charset=on.charset, event_from_evn=on.event_from_evn)
            except MessageError:
                unreadable += 1
                continue
            if message.message_type == ADT:
                found.add(message)
    report = found.report
    if not report.messages:
        raise UsageError("no message makes anything; give files of ADT messages that the mapping accepts")
    if as_json:
        print_json(_as_json(report, unreadable))
    else:
        typer.echo("\n".join(_lines(report, unreadable)))
    if report.share * 100 < at_least:
        raise typer.Exit(1)


def _as_json(report: FidelityReport, unreadable: int) -> JsonObject:
    return {
        "messages": report.messages,
        "unreadable": unreadable,
        "skipped": dict(sorted(report.skipped.items())),
        "fields": report.fields,
        "fields_equal": report.fields_equal,
        "share": round(report.share, 4),
        "values": report.values,
        "values_equal": report.values_equal,
        "not_of_the_version": report.foreign,
        "lost": [{**one._asdict(), "count": count} for one, count in report.lost.most_common()],
    }


def _lines(report: FidelityReport, unreadable: int) -> Iterator[str]:
    yield f"{report.messages} messages there and back"
    yield f"  {report.fields_equal} of {report.fields} fields equal: {report.share:.2%}"
    yield f"  {report.values_equal} of {report.values} values in them"
    if report.foreign:
        yield f"  {report.foreign} values more are of no field that their message's version has"
    reasons = {**report.skipped, **({"unreadable": unreadable} if unreadable else {})}
    if reasons:
        yield "  not sent: " + ", ".join(f"{count} {reason}" for reason, count in sorted(reasons.items()))
    if report.lost:
        yield "lost: how often, what, read by, written by"
    for one, count in report.lost.most_common(MOST_SHOWN):
        yield f"  {count:>6}  {one.path:<12} {one.incoming}  {one.outgoing}"
    if (rest := len(report.lost) - MOST_SHOWN) > 0:
        yield f"  and {rest} more (--json lists all)"
