"""`adt-engine mappings infer`: what a site's messages are, and a first channel file and mapping for them."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Console

from engine.config.channel import Channel
from engine.errors import UsageError
from engine.fhir.json import JsonObject
from engine.mapping.authoring.case import channel_of
from engine.mapping.authoring.coverage import Coverage
from engine.mapping.authoring.draft_channel import authorities_of, draft, feed_name, mapping_for
from engine.mapping.authoring.draft_mapping import UnmappedContent, ships
from engine.mapping.authoring.feed import FeedSurvey, event_shown, read_sample
from engine.mapping.compile import MappingSource, load
from engine.ops.cli.mapping.feed_report import FIRSTS, SECTIONS, EventOutcomes, codes_of, report
from engine.ops.cli.mapping.mappings import folders_of
from engine.ops.cli.mapping.page import Html, cells, write_page
from engine.ops.cli.mapping.traffic import messages_below
from engine.terminal.options import AsJson, Mappings
from engine.terminal.table import cell, note, output, print_json, print_line, table

NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


def infer(
    samples: Annotated[
        list[Path], typer.Argument(help="Files of HL7 messages, or folders of them.", metavar="SAMPLES")
    ],
    out: Annotated[
        Path | None, typer.Option("--out", help="Draft a channel file and a mapping in this folder.", metavar="DIR")
    ] = None,
    feed: Annotated[str, typer.Option(help="With --out: what the channel is called; else after its sender.")] = "",
    mappings: Mappings = None,
    name: Annotated[str, typer.Option("--name", help="The mapping; else adt or oru, whichever most are for.")] = "",
    force: Annotated[bool, typer.Option("--force", help="Write over drafts that are there.")] = False,
    html: Html = None,
    as_json: AsJson = False,
) -> None:
    """Report what a site's messages are: senders, authorities, events, character sets, codes, times; draft its files.

    With --out, write a channel file and a mapping that extends the shipped one, each line with its evidence. What only
    a person can know (identifier systems, time zone, destination) is a placeholder, marked `decide:`. Values of
    patients are never shown. Exit 0, or 2 where a sample cannot be opened or a draft is there already.

    Example: adt-engine mappings infer samples --out my-site
    """
    if feed and not NAME.fullmatch(feed):
        raise UsageError(f"--feed {feed} is no name for a channel; use 1 to 64 letters, digits, - and _")
    if out is not None and name and not ships(name):
        raise UsageError(f"--out drafts what extends a shipped mapping, and {name} is none; give --name adt or oru")
    with Console(stderr=True).status("reading messages"):
        found, covered, outcomes = _examined(samples, mappings, name)
    made = report(found, covered, outcomes)
    if out is not None:
        if not found.messages:
            raise UsageError(f"none of these messages can be read ({', '.join(found.unreadable)}): nothing is drafted")
        written = draft(
            found, covered.source, UnmappedContent(codes_of(found, covered), covered.unread), feed or feed_name(found)
        )
        _write(out, written, force=force)
    facts = [_total(found)]
    if html is not None:
        write_page(html, "What a feed's messages are", facts, SECTIONS, made)
    if as_json:
        print_json(made)
        return
    print_line(facts[0])
    _print(made)
    if out is not None:
        print_line("")
        print_line(f"next: adt-engine mappings check --mappings {out / 'mappings'} --name {covered.source.name}")
        print_line(
            f"      adt-engine channels check --channels {out / 'channels'} --mappings {out / 'mappings'} --offline"
        )


def _examined(samples: Sequence[Path], mappings: Path | None, name: str) -> tuple[FeedSurvey, Coverage, EventOutcomes]:
    """Return what messages are, what a mapping makes of them and why it refuses some; they are read twice.

    Whether an event can be mapped hangs on the authorities, which are known once every message was read.
    """
    feed = FeedSurvey()
    for sample in messages_below(samples):
        feed.add(sample.name, sample.raw)
    source = load(folders_of(mappings), name or mapping_for(feed))
    covered, outcomes = Coverage(source, _channel(feed, source)), EventOutcomes()
    for sample in messages_below(samples):
        message = read_sample(sample.raw).message
        if message is not None:
            outcomes.add(event_shown(message, feed.personal), covered.add(message))
    return feed, covered, outcomes


def _channel(feed: FeedSurvey, source: MappingSource) -> Channel:
    return channel_of({"authorities": {key: system for key, (system, _) in authorities_of(feed, source).items()}})


def _write(out: Path, files: dict[str, str], *, force: bool) -> None:
    """Write drafts, all or none; UsageError where one is there already, or the folder cannot be written."""
    there = [out / path for path in files if (out / path).exists()]
    if there and not force:
        raise UsageError(f"{there[0]} is there already; name another folder with --out, or write over it with --force")
    for path, text in files.items():
        try:
            (out / path).parent.mkdir(parents=True, exist_ok=True)
            (out / path).write_text(text, "utf-8")
        except OSError as error:
            raise UsageError(f"{out / path} cannot be written ({error.strerror}); name another folder") from error
    for path in files:
        note(f"wrote {out / path}")


def _total(feed: FeedSurvey) -> str:
    lost = sum(feed.unreadable.values())
    return f"{feed.messages} messages" + (f", {lost} cannot be read as they are" if lost else "")


def _print(made: JsonObject) -> None:
    for section in (FIRSTS, *SECTIONS[1:]):
        if rows := made[section.key]:
            print_line("")
            texts = [list(map(cell, cells(section, row))) for row in rows]
            output().print(table(list(section.columns.values()), texts, title=section.title))
