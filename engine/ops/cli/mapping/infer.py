"""`adt-engine mappings infer`: what a site's messages are, and first channel files and a mapping for them."""

import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple

import typer
from rich.console import Console

from engine.config.source import DECIDE
from engine.errors import UsageError
from engine.fhir.json import JsonObject
from engine.hl7.message import Message
from engine.mapping.authoring.case import channel_of
from engine.mapping.authoring.coverage import Coverage
from engine.mapping.authoring.draft_authorities import authorities_of
from engine.mapping.authoring.draft_channel import draft, feed_name, mapping_for
from engine.mapping.authoring.draft_mapping import UnmappedContent, ships
from engine.mapping.authoring.feed import FeedSurvey, event_shown, read_sample
from engine.mapping.authoring.local_codes import MissingCode
from engine.mapping.authoring.senders import ChannelChoice, ProposedChannel, SenderFindings, proposed
from engine.mapping.compile import load
from engine.ops.cli.init.init import ports_of
from engine.ops.cli.init.text import free_port
from engine.ops.cli.mapping.feed_report import FIRSTS, SECTIONS, EventOutcomes, report, shown_codes
from engine.ops.cli.mapping.interview import interview
from engine.ops.cli.mapping.mappings import folders_of
from engine.ops.cli.mapping.page import Html, cells, write_page
from engine.ops.cli.mapping.traffic import messages_below
from engine.terminal.options import AsJson, Mappings
from engine.terminal.table import cell, note, output, print_json, print_line, table

NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


class FeedFindings(NamedTuple):
    """What messages are: all together, and by sender; what mappings make of them, by the mapping's name."""

    feed: FeedSurvey
    senders: list[SenderFindings]
    covered: dict[str, Coverage]
    outcomes: EventOutcomes

    @property
    def main(self) -> Coverage:
        """The coverage by the mapping that most messages are for."""
        return next(iter(self.covered.values()))


def infer(
    samples: Annotated[
        list[Path], typer.Argument(help="Files of HL7 messages, or folders of them.", metavar="SAMPLES")
    ],
    out: Annotated[
        Path | None, typer.Option("--out", help="Draft channel files and a mapping in this folder.", metavar="DIR")
    ] = None,
    channels: Annotated[
        ChannelChoice | None,
        typer.Option(help="One channel for all senders, or one for each; else as they differ."),
    ] = None,
    asks: Annotated[
        bool | None,
        typer.Option("--ask/--no-ask", help="With --out: ask what is to be decided; else at a terminal alone."),
    ] = None,
    feed: Annotated[str, typer.Option(help="With --out: what the channel is called; else after its sender.")] = "",
    mappings: Mappings = None,
    name: Annotated[str, typer.Option("--name", help="The mapping; else adt or oru, whichever most are for.")] = "",
    force: Annotated[bool, typer.Option("--force", help="Write over drafts that are there.")] = False,
    html: Html = None,
    as_json: AsJson = False,
) -> None:
    """Report what a site's messages are: senders, authorities, events, character sets, codes, times; draft its files.

    With --out, write channel files and a mapping that extends the shipped one, each line with its evidence. What only
    a person can know (identifier systems, time zone, destination) is a placeholder, marked `decide:`; at a terminal, or
    with --ask, each of them is asked, and the next run goes on with what is left. Values of patients are never shown.
    Exit 0, or 2 where a sample cannot be opened or a draft is there already and nothing is asked.

    Example: adt-engine mappings infer samples --out my-site
    """
    if feed and not NAME.fullmatch(feed):
        raise UsageError(f"--feed {feed} is no name for a channel; use 1 to 64 letters, digits, - and _")
    if out is not None and name and not ships(name):
        raise UsageError(f"--out drafts what extends a shipped mapping, and {name} is none; give --name adt or oru")
    if asks and (out is None or as_json):
        raise UsageError("--ask goes with --out, and not with --json: answers are written into the drafts")
    found, proposal = _examined(samples, mappings, name, channels)
    interviewing = out is not None and not as_json and (sys.stdin.isatty() if asks is None else asks)
    if out is not None:
        if not found.feed.messages:
            reasons = ", ".join(found.feed.unreadable)
            raise UsageError(f"none of these messages can be read ({reasons}): nothing is drafted")
        _named(proposal, feed, out)
    made = report(found.feed, found.main, found.outcomes, proposal)
    if out is not None:
        _write(out, _drafts(found, proposal), force=force, keep=interviewing)
    facts = [_total(found.feed)]
    if html is not None:
        write_page(html, "What a feed's messages are", facts, SECTIONS, made)
    if as_json:
        print_json(made)
        return
    print_line(facts[0])
    _print(made)
    if out is not None:
        names = list(dict.fromkeys(channel.mapping for channel in proposal))
        left = interview(out, names) if interviewing else 0
        print_line("")
        if left:
            open_ = "1 decision is" if left == 1 else f"{left} decisions are"
            print_line(f"{open_} left: run this again with --ask, or look for `{DECIDE}` in {out}")
        for one in names:
            print_line(f"next: adt-engine mappings check --mappings {out / 'mappings'} --name {one}")
        folders = f"--channels {out / 'channels'} --mappings {out / 'mappings'}"
        print_line(f"      adt-engine channels check {folders} --offline")


def _examined(
    samples: Sequence[Path], mappings: Path | None, name: str, choice: ChannelChoice | None
) -> tuple[FeedFindings, list[ProposedChannel]]:
    """Return what messages are, what mappings make of them and why they are refused; they are read twice.

    Whether an event can be mapped hangs on the authorities, which are known once every message was read.
    """
    feed = FeedSurvey()
    senders: dict[tuple[str, str], SenderFindings] = {}
    with Console(stderr=True).status("reading messages"):
        for sample in messages_below(samples):
            read = read_sample(sample.raw)
            feed.add_read(sample.name, sample.raw, read)
            if read.message is not None:
                _of_sender(senders, read.message, feed).feed.add_read(sample.name, sample.raw, read)
        for one in senders.values():
            one.mapping = name or mapping_for(one.feed)
        proposal = proposed(list(senders.values()), choice)
        main = name or mapping_for(feed)
        covered = {one: _coverage(one, feed, mappings) for one in dict.fromkeys([main, *_mappings(proposal)])}
        outcomes = EventOutcomes()
        on = {id(sender): channel.mapping for channel in proposal for sender in channel.senders}
        for sample in messages_below(samples):
            message = read_sample(sample.raw).message
            if message is None:
                continue
            sender = _of_sender(senders, message, feed)
            if on[id(sender)] != main:
                outcomes.add(event_shown(message, feed.personal), covered[main].add(message))
                _note(sender, covered[on[id(sender)]], message)
            else:
                outcomes.add(event_shown(message, feed.personal), _note(sender, covered[main], message))
    return FeedFindings(feed, list(senders.values()), covered, outcomes), proposal


def _of_sender(senders: dict[tuple[str, str], SenderFindings], message: Message, feed: FeedSurvey) -> SenderFindings:
    """Return the findings of a message's sender; the names of people of all messages are known to each."""
    key = str(message.leaf("MSH", 3) or ""), str(message.leaf("MSH", 4) or "")
    return senders.setdefault(key, SenderFindings(FeedSurvey(personal=feed.personal)))


def _mappings(proposal: Sequence[ProposedChannel]) -> list[str]:
    return [channel.mapping for channel in proposal]


def _coverage(name: str, feed: FeedSurvey, mappings: Path | None) -> Coverage:
    source = load(folders_of(mappings), name)
    systems = {key: system for key, (system, _) in authorities_of(feed, source).items()}
    return Coverage(source, channel_of({"authorities": systems}))


def _note(sender: SenderFindings, covered: Coverage, message: Message) -> dict[str, Any]:
    """Map a message, note the codes and the unread fields of its sender, and return the outcome."""
    codes, unread = covered.missing(), Counter(covered.unread)
    made = covered.add(message)
    sender.codes += covered.missing() - codes
    sender.unread |= (covered.unread - unread).keys()
    return made


def _named(proposal: Sequence[ProposedChannel], feed: str, out: Path) -> None:
    """Give each channel a name and a port that no other has."""
    names: set[str] = set()
    for channel in proposal:
        own = feed_name(channel.feed)
        wanted = own if not feed else feed if len(proposal) == 1 else f"{feed}-{own}"[:60]
        channel.name = next(one for one in _numbered(wanted) if one not in names)
        names.add(channel.name)
    ports = set(ports_of(out / "channels", names))
    for channel in proposal:
        channel.port = free_port(ports)
        ports.add(channel.port)


def _numbered(name: str) -> Iterator[str]:
    yield name
    yield from (f"{name[:60]}-{number}" for number in count(2))


def _drafts(found: FeedFindings, proposal: Sequence[ProposedChannel]) -> dict[str, str]:
    lost: dict[str, UnmappedContent] = {}
    for channel in proposal:
        senders = [one for other in proposal if other.mapping == channel.mapping for one in other.senders]
        codes: Counter[MissingCode] = Counter()
        for one in senders:
            codes += one.codes
        lost[channel.mapping] = UnmappedContent(
            shown_codes(codes, found.feed.personal), set().union(*(one.unread for one in senders))
        )
    sources = {name: covered.source for name, covered in found.covered.items()}
    return draft(proposal, sources, lost)


def _write(out: Path, files: dict[str, str], *, force: bool, keep: bool) -> None:
    """Write drafts, all or none; `keep`: those that are there are left as they are.

    UsageError where one is there already, or the folder cannot be written.
    """
    there = [path for path in files if (out / path).exists()]
    if there and not force and not keep:
        raise UsageError(
            f"{out / there[0]} is there already; name another folder with --out, write over it with --force, or go on "
            "with what is undecided with --ask"
        )
    written = [path for path in files if force or path not in there]
    for path in written:
        try:
            (out / path).parent.mkdir(parents=True, exist_ok=True)
            (out / path).write_text(files[path], "utf-8")
        except OSError as error:
            raise UsageError(f"{out / path} cannot be written ({error.strerror}); name another folder") from error
    for path in written:
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
