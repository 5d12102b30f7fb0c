"""Drafts a feed's files from its messages: the channel with senders, authorities, zone and character set."""

import re
from collections import Counter
from collections.abc import Iterator
from hashlib import sha256
from typing import Final, get_args
from urllib.parse import quote

from engine.config.channel import UNDECIDED, ProcessingId, Version
from engine.hl7.events import ADT
from engine.mapping.authoring.draft_mapping import UnmappedContent, mapping_files
from engine.mapping.authoring.draft_text import (
    ALSO,
    DECIDE,
    IDENTITY,
    MAPPINGS,
    MOST,
    RESULTS,
    counted,
    events_of,
    in_of,
    quoted,
)
from engine.mapping.authoring.feed import FeedSurvey, SeenAuthority, is_shown, named_times, ranked
from engine.mapping.compile import MappingSource
from engine.mapping.files.reference import segments
from engine.mapping.language.identifier import universal_uri

PLACEHOLDER: Final = f"{UNDECIDED}authority:"
LONGEST_NAME: Final = 200
MERGES: Final = "merge patient"
# Visits and accounts, whose numbers have an authority like those of patients.
VISITS: Final = frozenset({"PID-18", "PV1-5", "PV1-19", "PV1-50"})
# A URI that needs no quotes in YAML.
_URI_PLAIN: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[A-Za-z0-9/][A-Za-z0-9/._~%:-]*[A-Za-z0-9/]")


def feed_name(feed: FeedSurvey) -> str:
    """Return a name for the channel: the most frequent sending facility and application."""
    sender = feed.senders.most_common(1)
    application, facility = sender[0][0] if sender else ("", "")
    words = re.findall(r"[a-z0-9]+", f"{facility} {application}".lower()) if is_shown(facility + application) else []
    return "-".join(words)[:64].strip("-") or "new-feed"


def authorities_of(feed: FeedSurvey, source: MappingSource) -> dict[str, tuple[str, str]]:
    """Return the authorities of numbers, by the channel's names: the system of each, and the evidence.

    Those whose numbers are all of types that have a system of their own (SS) need none.
    """
    systems = (source.documents.events.value.get("identity") or {}).get("systems") or {}
    found: dict[str, Counter[SeenAuthority]] = {}
    for one, count in feed.authorities.items():
        key = one.namespace or one.universal
        if (
            one.type_ not in systems
            and _names_numbers(one.field)
            and _is_authority(key)
            and (key or one.field == IDENTITY)
        ):
            found.setdefault(key, Counter())[one] += count
    named = sorted(found.items(), key=lambda item: (-item[1].total(), item[0]))
    return {key: _numbered(key, counts) for key, counts in named[:MOST]}


def channel_lines(feed: FeedSurvey, source: MappingSource, name: str) -> Iterator[str]:
    """Yield the lines of a channel file."""
    yield f"# Drafted from {feed.messages} messages. What only a person can know is marked `{DECIDE}`; see"
    yield "# channels/README.md for every key. Look for `decide` again before this channel goes live."
    yield f"channel: {quoted(name)}"
    yield f"listen: {{mllp: {{host: 127.0.0.1, port: 2575}}}}   # {DECIDE} the port; beyond this machine, tls and allow"
    yield f"mode: shadow   # {DECIDE} remove this line to go live; until then all is done but the writes"
    yield from _sources(feed)
    if found := authorities_of(feed, source):
        yield "authorities:"
        for key, (system, why) in found.items():
            yield f"  {quoted(key)}: {system}   # {why}"
    yield from _orders(feed, source)
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
    yield f"  - name: fhir   # {DECIDE} the FHIR server, and auth if it asks for it"
    yield "    base_url: https://destination.invalid/fhir/R4"
    yield f"    if_none_exist: demographics   # {DECIDE} as the shipped service needs it; others take identifier, too"


def _sources(feed: FeedSurvey) -> Iterator[str]:
    pairs = [(application, facility) for application, facility in feed.senders if _is_source(application, facility)]
    if len(pairs) < len(feed.senders) or len(pairs) > MOST or not pairs:
        yield f"# {DECIDE} sources, who may send (MSH-3|MSH-4); not drafted, as some messages do not name their sender"
        return
    yield f"sources:   # {DECIDE} are these all? any other sender is refused"
    for one, count in feed.senders.most_common():
        yield f"  - {quoted('|'.join(part for part in one if part))}   # {in_of(count, feed.messages)}"


def _orders(feed: FeedSurvey, source: MappingSource) -> Iterator[str]:
    """Yield the authorities of order numbers in results, which a channel names `NAME^PLAC`."""
    if source.name != MAPPINGS[RESULTS]:
        return
    names = Counter[str]()
    for one, count in feed.authorities.items():
        if one.field in {"OBR-2", "ORC-2"} and one.namespace and _is_authority(one.namespace):
            names[one.namespace] += count
    for name, count in names.most_common(MOST):
        key = quoted(f"{name}^PLAC")
        yield f"# {DECIDE} add {key}: URI to authorities, the system of the placer's order numbers; {count} of them"


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


def _names_numbers(path: str) -> bool:
    return path in {IDENTITY, *ALSO} or path.startswith("MRG-") or path in VISITS or _is_of_provider(path)


def _is_of_provider(path: str) -> bool:
    segment, _, number = path.partition("-")
    field = segments().get(segment, {}).get(int(number) if number.isdecimal() else 0)
    return field is not None and field.type_ == "XCN"


def _is_authority(key: str) -> bool:
    return is_shown(key) and key == key.strip() and not any(mark in key for mark in "&~|^")


def _is_source(application: str, facility: str) -> bool:
    text = application + facility
    return (
        bool(application) and is_shown(application) and is_shown(facility) and "|" not in text and text == text.strip()
    )


def _numbered(key: str, counts: Counter[SeenAuthority]) -> tuple[str, str]:
    """Return the system of an authority, or a placeholder if its universal id makes none; and the evidence."""
    universals = dict.fromkeys(one.universal for one, _ in counts.most_common() if one.universal)
    system = next((made for one in universals if (made := _system(one))), "")
    if not system:
        name = quote(key, safe="") or "empty"
        system = PLACEHOLDER + (name if len(name) <= LONGEST_NAME else sha256(key.encode()).hexdigest())
        return system, f"{DECIDE} the URI of these numbers; {_evidence(counts)}"
    doubt = f"{DECIDE} it comes with {len(universals)} universal ids; " if len(universals) > 1 else ""
    return system, f"{doubt}as its universal id says; {_evidence(counts)}"


def _system(universal: str) -> str:
    """Return the system made of a universal id; empty if there is none."""
    made = next((uri for kind in ("ISO", "UUID", "URI") if (uri := universal_uri(universal, kind))), "")
    return made if _URI_PLAIN.fullmatch(made) else ""


def _evidence(counts: Counter[SeenAuthority]) -> str:
    """Return the fields of an authority, with the types of its numbers."""
    fields: dict[str, Counter[str]] = {}
    for one, count in counts.items():
        fields.setdefault(one.field, Counter())[one.type_ or "without a type"] += count
    return "; ".join(f"{path} {ranked(types)}" for path, types in sorted(fields.items()))


def _does(source: MappingSource, event: str, what: str) -> bool:
    row = events_of(source).get(event)
    done = row.get("do") if isinstance(row, dict) else None
    return done == what or (isinstance(done, list) and what in done)


def mapping_for(feed: FeedSurvey) -> str:
    """Return the name of the shipped mapping that most messages are for."""
    return MAPPINGS[max(MAPPINGS, key=lambda type_: (feed.types[type_], type_ == ADT))]


def draft(feed: FeedSurvey, source: MappingSource, lost: UnmappedContent, name: str) -> dict[str, str]:
    """Return the files, by their paths: the channel, and a mapping that extends the shipped one.

    All of them pass the checks.
    """
    files = {f"channels/{name}.yaml": channel_lines(feed, source, name)}
    files |= {f"mappings/{path}": lines for path, lines in mapping_files(feed, source, lost).items()}
    return {path: "\n".join(lines) + "\n" for path, lines in files.items()}
