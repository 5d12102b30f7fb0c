"""`adt-engine messages check`: how messages differ from their version of the standard, by place and in its words."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

import typer

from engine.errors import MessageError, UsageError
from engine.hl7.conformance.check import CODES, Deviation
from engine.hl7.conformance.check import check as deviations_of
from engine.hl7.finding import FindingSeverity
from engine.hl7.header import read_header
from engine.hl7.message import parse
from engine.journal.read.reading import Reader
from engine.ops.operations.fields import entry_of
from engine.ops.sender.feed import files_of, messages_of
from engine.receive.batch import unpack
from engine.terminal.options import DATA, AsJson, Data
from engine.terminal.table import NEGATIVE, cell, output, print_json, print_line, table

COLUMNS: Final = ("Place", "Name", "Rule", "Expected", "Found", "Code")


@dataclass(frozen=True, slots=True)
class CheckedMessage:
    """One message that was checked: where it is from, what it is, and what was found; `unreadable` says why not."""

    source: str
    control_id: str
    event: str
    version: str
    deviations: tuple[Deviation, ...] = ()
    unreadable: str = ""

    @property
    def errors(self) -> int:
        """How many deviations break a rule."""
        return sum(deviation.severity is FindingSeverity.ERROR for deviation in self.deviations)

    @property
    def bad(self) -> bool:
        """Whether it cannot be read, or breaks a rule."""
        return bool(self.unreadable or self.errors)


def check(
    files: Annotated[list[Path] | None, typer.Argument(help="Files, batch files, or folders of *.hl7 files.")] = None,
    ids: Annotated[
        list[int] | None,
        typer.Option("--id", metavar="ENTRY", parser=entry_of, help="An entry of the journal; repeatable."),
    ] = None,
    version: Annotated[str, typer.Option(help="HL7 version where MSH-12 is empty.")] = "2.5.1",
    charset: Annotated[str, typer.Option(help="Character set where MSH-18 is empty.")] = "UTF-8",
    errors_only: Annotated[bool, typer.Option("--errors-only", help="Hide warnings.")] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Exit 1 if a message breaks a rule.")] = False,
    data: Data = DATA,
    as_json: AsJson = False,
) -> None:
    """Compare messages with their version of the standard: structure, required, repetitions, lengths, types, tables.

    Each difference is shown under its message with its place and the standard's name, without values. A warning is
    what the standard leaves to sites or to later versions.

    Example: adt-engine messages check samples/01-a28-add-person.hl7
    """
    if not files and not ids:
        raise UsageError("say what to check: files, or --id N of an entry in --data DIR")
    found = [
        _checked(source, raw, event, version, charset, errors_only=errors_only)
        for source, raw, event in (*_filed(files or []), *_journaled(data, ids or []))
    ]
    if as_json:
        print_json([_as_json(one) for one in found])
    else:
        _show(found)
    if strict and any(one.bad for one in found):
        raise typer.Exit(1)


def _filed(paths: list[Path]) -> Iterator[tuple[str, bytes, str]]:
    for path in paths:
        for file in files_of(path):
            raws = [raw for block in messages_of(file) for raw in _unpacked(block)]
            for at, raw in enumerate(raws, 1):
                yield (f"{file} message {at}" if len(raws) > 1 else str(file)), raw, ""


def _journaled(data: Path, ids: list[int]) -> Iterator[tuple[str, bytes, str]]:
    """Yield entries with their events, which were read as their channels say."""
    if not ids:
        return
    with Reader(data) as reader:
        for number in ids:
            view = reader.show(number)
            yield f"entry {number}", view.raw, view.row.event


def _unpacked(block: bytes) -> tuple[bytes, ...]:
    batch = unpack(block)
    return batch.messages if batch else (block,)


def _checked(source: str, raw: bytes, known: str, version: str, charset: str, *, errors_only: bool) -> CheckedMessage:
    header = read_header(raw, event_from_evn=bool(known))
    if header is None:
        return CheckedMessage(source, "", "", "", unreadable="it does not begin with MSH")
    control_id = header.control_id.decode("ascii", "backslashreplace")
    event = "^".join(filter(None, (header.message_type, header.trigger)))
    try:
        message = parse(raw, charset=charset, event_from_evn=bool(known))
    except MessageError as error:
        return CheckedMessage(source, control_id, event, header.version, unreadable=str(error))
    found = deviations_of(message, version)
    kept = tuple(one for one in found if not errors_only or one.severity is FindingSeverity.ERROR)
    return CheckedMessage(source, control_id, event, header.version or version, kept)


def _as_json(one: CheckedMessage) -> dict[str, object]:
    return {
        "source": one.source,
        "control_id": one.control_id,
        "event": one.event,
        "version": one.version,
        "unreadable": one.unreadable,
        "errors": one.errors,
        "findings": [
            {
                "place": each.place,
                "rule": str(each.rule),
                "name": each.name,
                "expected": each.expected,
                "found": each.found,
                "severity": str(each.severity),
                "code": int(CODES[each.rule]),
            }
            for each in one.deviations
        ],
    }


def _show(found: list[CheckedMessage]) -> None:
    for one in found:
        if not one.deviations and not one.unreadable:
            continue
        result = one.unreadable or f"{one.errors} errors, {len(one.deviations) - one.errors} warnings"
        print_line(f"{one.source}: {one.event} {one.control_id} ({one.version}): {result}", "bold")
        if one.deviations:
            output().print(table(COLUMNS, map(_row, one.deviations)))
        print_line("")
    bad = sum(one.bad for one in found)
    warned = sum(bool(one.deviations) and not one.bad for one in found)
    neither = len(found) - bad - warned
    print_line(f"{len(found)} messages: {bad} break a rule, {warned} have warnings, {neither} neither")


def _row(one: Deviation) -> tuple[object, ...]:
    error = one.severity is FindingSeverity.ERROR
    return (
        one.place,
        one.name,
        cell(one.rule, NEGATIVE) if error else str(one.rule),
        one.expected,
        one.found,
        int(CODES[one.rule]) if error else "",
    )
