"""Drafts a feed's files from its messages: the channel with senders, authorities, zone and character set."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, get_args

from engine.config.channel import ProcessingId, Version
from engine.config.destination import NOWHERE
from engine.config.source import DECIDE
from engine.hl7.events import ADT
from engine.mapping.authoring.draft_authorities import authority_lines
from engine.mapping.authoring.draft_mapping import UnmappedContent, mapping_files, table_files
from engine.mapping.authoring.draft_text import MAPPINGS, MOST, counted, events_of, in_of, quoted
from engine.mapping.authoring.feed import FeedSurvey, is_shown, named_times, ranked
from engine.mapping.authoring.senders import ProposedChannel
from engine.mapping.compile import MappingSource

MERGES: Final = "merge patient"
FIRST_PORT: Final = 2575


def feed_name(feed: FeedSurvey) -> str:
    """Return a name for the channel: the most frequent sending facility and application."""
    sender = feed.senders.most_common(1)
    application, facility = sender[0][0] if sender else ("", "")
    words = re.findall(r"[a-z0-9]+", f"{facility} {application}".lower()) if is_shown(facility + application) else []
    return "-".join(words)[:64].strip("-") or "new-feed"


def channel_lines(
    feed: FeedSurvey, source: MappingSource, name: str, port: int = FIRST_PORT, reason: str = ""
) -> Iterator[str]:
    """Yield the lines of a channel file; `reason`: of its senders together."""
    yield f"# Drafted from {feed.messages} messages. What only a person can know is marked `{DECIDE}`; see"
    yield "# channels/README.md for every key. A live channel is refused as long as one is left."
    if reason:
        yield f"# Why these senders: {reason}."
    yield f"channel: {quoted(name)}"
    yield "listen:"
    yield "  mllp:"
    yield "    host: 127.0.0.1"
    yield f"    port: {port}   # {DECIDE} where its senders connect; beyond this machine with tls and allow"
    yield f"mode: shadow   # {DECIDE} shadow does all but the writes; live, or no such line, goes live"
    yield from _sources(feed)
    yield from authority_lines(feed, source)
    yield from _time(feed)
    yield from _header(feed)
    yield f"mapping: {source.name}   # {counted(feed.types, feed.messages)}"
    others = [type_ for type_ in feed.types if type_ and is_shown(type_) and MAPPINGS.get(type_) != source.name]
    if others:
        yield f"# {DECIDE} whether {', '.join(others[:5])} messages are to be filtered; as it stands they are refused"
        yield "# unhandled_messages: filter"
    if merging := [(event, count) for event, count in feed.events.items() if _does(source, event, MERGES)]:
        events = ", ".join(f"{event} ({count})" for event, count in sorted(merging))
        yield f"allow_merge: true   # {DECIDE} may this feed merge records? it sends {events}"
    yield "destinations:"
    yield "  - name: fhir"
    yield f"    base_url: https://{NOWHERE}/fhir/R4   # {DECIDE} the FHIR server, and auth if it asks for it"
    yield f"    if_none_exist: demographics   # {DECIDE} as the shipped service needs it; others take identifier, too"


def _sources(feed: FeedSurvey) -> Iterator[str]:
    pairs = [(application, facility) for application, facility in feed.senders if _is_source(application, facility)]
    if len(pairs) < len(feed.senders) or len(pairs) > MOST or not pairs:
        yield f"# {DECIDE} sources, who may send (MSH-3|MSH-4); not drafted, as some messages do not name their sender"
        return
    yield f"sources:   # {DECIDE} are these all? any other sender is refused"
    for one, count in feed.senders.most_common():
        yield f"  - {quoted('|'.join(part for part in one if part))}   # {in_of(count, feed.messages)}"


def _time(feed: FeedSurvey) -> Iterator[str]:
    without = [f"{path} ({count})" for path, _, count, _ in named_times(feed) if count][:4]
    offsets = f"; times with a zone have {ranked(feed.offsets)}" if feed.offsets else ""
    if without:
        yield f"timezone: UTC   # {DECIDE} the zone of times that carry none: {', '.join(without)}{offsets}"


def _header(feed: FeedSurvey) -> Iterator[str]:
    """Yield the lines for missing MSH fields, and for values other than a channel's defaults."""
    seen = [one for one in get_args(ProcessingId) if feed.processing[one]]
    if seen and seen != ["P"]:
        counts = counted(feed.processing, feed.messages)
        yield f"processing_ids: [{', '.join(seen)}]   # {DECIDE} which values of MSH-11 to accept; {counts}"
    known = [one for one, _ in feed.versions.most_common() if one in get_args(Version)]
    if feed.versions[""]:
        version = known[0] if known else "2.5.1"
        yield f'version: "{version}"   # {DECIDE} MSH-12 is empty {in_of(feed.versions[""], feed.messages)}'
    if feed.events_of_evn:
        share = in_of(feed.events_of_evn, feed.messages)
        yield f"event_from_evn: true   # MSH-9 is ADT alone {share}, and EVN-1 says the event"
    if guesses := +feed.guesses:
        charset, count = guesses.most_common(1)[0]
        yield f"charset: {charset}   # {DECIDE} MSH-18 is empty in {count} messages whose bytes are no UTF-8"


def _is_source(application: str, facility: str) -> bool:
    text = application + facility
    return (
        bool(application) and is_shown(application) and is_shown(facility) and "|" not in text and text == text.strip()
    )


def _does(source: MappingSource, event: str, what: str) -> bool:
    row = events_of(source).get(event)
    done = row.get("do") if isinstance(row, dict) else None
    return done == what or (isinstance(done, list) and what in done)


def mapping_for(feed: FeedSurvey) -> str:
    """Return the name of the shipped mapping that most messages are for."""
    return MAPPINGS[max(MAPPINGS, key=lambda type_: (feed.types[type_], type_ == ADT))]


def draft(
    channels: Sequence[ProposedChannel], sources: Mapping[str, MappingSource], lost: Mapping[str, UnmappedContent]
) -> dict[str, str]:
    """Return the files, by their paths: the channels, and mappings that extend the shipped ones.

    `sources` and `lost` are by the name of a mapping. All files pass the checks.
    """
    files = {
        f"channels/{channel.name}.yaml": channel_lines(
            channel.feed, sources[channel.mapping], channel.name, channel.port, channel.reason
        )
        for channel in channels
    }
    feeds: dict[str, FeedSurvey] = {}
    for channel in channels:
        feeds.setdefault(channel.mapping, FeedSurvey()).join(channel.feed)
    for name, feed in feeds.items():
        files |= {f"mappings/{path}": lines for path, lines in mapping_files(feed, sources[name], lost[name]).items()}
    codes = [(sources[name], code) for name in feeds for code in lost[name].codes if is_shown(code.code)]
    files |= {f"mappings/{path}": lines for path, lines in table_files(codes).items()}
    return {path: "\n".join(lines) + "\n" for path, lines in files.items()}
