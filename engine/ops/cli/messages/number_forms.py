"""`adt-engine patients normalise`: what `identity.normalise` is to the numbers that are known, and changes of them."""

import os
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Final
from urllib.parse import unquote

import typer

from engine.config.channel import Channel
from engine.errors import UsageError
from engine.fhir.plan import Identity
from engine.hl7.delimiters import STANDARD
from engine.hl7.escape import escape
from engine.journal.opening import open_reader
from engine.mapping.compile import Mapping as CompiledMapping
from engine.mapping.files.reference import nearest
from engine.mapping.language.number_form import AS_IT_CAME
from engine.pipeline.configuration import Configuration, Files, configure
from engine.pipeline.outbound.number_forms import FormReport, reports, searched, survey
from engine.terminal.options import CHANNELS, DATA, AsJson, Channels, Data, Mappings
from engine.terminal.table import output, print_json, print_line, table

HEADINGS: Final = (
    "Destination",
    "System",
    "Searched now",
    "By the files",
    "In form",
    "To change",
    "Several charts",
    "Sealed",
)
SENDER: Final = "ADT-ENGINE|NORMALISE"
Out = Annotated[Path | None, typer.Option("--out", help="Write the changes, as messages (A47), to this new file.")]
Sender = Annotated[str, typer.Option("--as", metavar="MSH-3|MSH-4", help="Who sends the changes.")]


def number_reports(files: Files, configuration: Configuration) -> list[FormReport]:
    """Return what the forms of numbers are to those that the journal of a data folder knows."""
    with closing(open_reader(files.data)) as connection:
        return reports(connection, configuration.channels, configuration.mappings)


def numbers_changed(data: Path | None, channel: Channel, old: CompiledMapping, new: CompiledMapping) -> list[str]:
    """Return a line for each system whose numbers two mappings search in other forms.

    With the data folder of an engine also what that is to the numbers known at each server of the channel.
    """
    systems = dict.fromkeys((*old.number_forms, *new.number_forms))
    forms = {system: (old.number_forms.get(system, AS_IT_CAME), new.number_forms.get(system, AS_IT_CAME))
             for system in systems}  # fmt: skip
    changed = {system: both for system, both in forms.items() if not both[0].same_as(both[1])}
    if data is None:
        return [f"{system}: {searched(was.text(), will.text())}" for system, (was, will) in changed.items()]
    with closing(open_reader(data)) as connection:
        return [
            FormReport(
                server.name, system, was.text(), will.text(), survey(connection, server.name, {system: will})
            ).text()
            for server in channel.servers
            for system, (was, will) in changed.items()
        ]


def normalise(
    channel: Annotated[
        str, typer.Argument(metavar="CHANNEL", help="The channel whose mapping has `identity.normalise`.")
    ],
    channels: Channels = CHANNELS,
    mappings: Mappings = None,
    data: Data = DATA,
    out: Out = None,
    sender: Sender = SENDER,
    as_json: AsJson = False,
) -> None:
    """Show what `identity.normalise` is to the numbers that are known, and write the changes of number to a file.

    Without --out this is a dry run: counts, no numbers. With --out a new file gets one A47 for each number that is
    known in another form; send it to the channel, before or after the rule is in force. What has several charts is
    never changed: ask registration for a merge (A40) first. Charts that nobody changes get their form with the
    next message about them.

    Example: adt-engine patients normalise riverbend-adt --mappings my-mappings --out changes.hl7
    """
    files = Files(channels, mappings, data.resolve())
    configuration = configure(files, machine=False)
    if channel not in configuration.channels:
        raise UsageError(f"no channel {channel!r}; {nearest(channel, configuration.channels, 'the files of channels')}")
    mine = configuration.channels[channel]
    servers = {server.name for server in mine.servers}
    found = [one for one in number_reports(files, configuration) if one.destination in servers]
    changes = dict.fromkeys(change for one in found for change in _changes(one))
    if out is not None:
        _write(out, mine, list(changes), sender)
    if as_json:
        print_json({"reports": [_row_json(one) for one in found], "changes": len(changes)})
        return
    output().print(table(HEADINGS, map(_row, found)))
    if out is not None:
        print_line(f"{len(changes)} changes of number in {out}; send them: adt-engine send {out} --to HOST:PORT")
    elif changes:
        print_line(f"{len(changes)} numbers to change; --out FILE writes the messages that change them")
    else:
        print_line("nothing to change")


def _changes(report: FormReport) -> Iterator[tuple[Identity, Identity]]:
    """Yield each known number that is to be changed, with its form."""
    for formed, sent in report.survey.changing.items():
        for one in sent:
            yield one, formed


def _row(one: FormReport) -> tuple[object, ...]:
    found = one.survey
    forms = (one.in_force or "as sent", one.by_files or "as sent")
    changing = sum(map(len, found.changing.values()))
    return one.destination, one.system, *forms, found.same, changing, len(found.clashes), found.sealed


def _row_json(one: FormReport) -> dict[str, object]:
    keys = ("destination", "system", "in_force", "by_files", "in_form", "to_change", "several_charts", "sealed")
    return dict(zip(keys, _row(one), strict=True))


def _write(out: Path, channel: Channel, changes: list[tuple[Identity, Identity]], sender: str) -> None:
    """Write the changes to a new file that nobody else can read; UsageError where there is one."""
    application, _, facility = sender.partition("|")
    stamp = datetime.now(UTC).strftime("%Y%m%d%H%M%S+0000")
    try:
        descriptor = os.open(out, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        raise UsageError(f"{out} is there already: name a new file") from None
    except OSError as error:
        raise UsageError(f"{out} cannot be written: {error.strerror}") from error
    head = "|".join((escape(application, STANDARD), escape(facility, STANDARD)))
    with os.fdopen(descriptor, "w", encoding="utf-8", newline="") as file:
        for number, (sent, formed) in enumerate(changes, 1):
            msh = f"MSH|^~\\&|{head}|||{stamp}||ADT^A47^ADT_A30|NF{number:07}|P|2.5.1||||||UNICODE UTF-8"
            segments = (msh, f"EVN||{stamp}", f"PID|1||{_cx(formed, channel)}", f"MRG|{_cx(sent, channel)}")
            file.write("\r".join((*segments, "")))


def _cx(identity: Identity, channel: Channel) -> str:
    """Return a number as the channel reads it: with an authority that has its system there."""
    system, base = identity.system, channel.base_uri
    names = (name for name, uri in channel.authorities.items() if uri == system and "^" not in name)
    if (name := next(names, None)) is not None:
        authority = escape(name, STANDARD)
    elif system.startswith(base):
        authority = escape(unquote(system.removeprefix(base)), STANDARD)
    else:
        oid = system.removeprefix("urn:oid:")
        authority = f"&{oid}&ISO" if oid != system else f"&{escape(system, STANDARD)}&URI"
    return f"{escape(identity.value, STANDARD)}^^^{authority}"
