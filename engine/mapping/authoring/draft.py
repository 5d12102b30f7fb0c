"""First files for a new feed, drafted from its messages: each line with its evidence, decisions marked as such."""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from hashlib import sha256
from typing import Final, NamedTuple, get_args
from urllib.parse import quote

from engine.config.channel import ProcessingId, Version
from engine.hl7.taken import ADT
from engine.mapping.authoring.feed import Authority, Feed, named_times, told
from engine.mapping.authoring.shape import is_shown
from engine.mapping.compile import MappingSource
from engine.mapping.files.document import FIELD
from engine.mapping.language.identifier import OID, UUID
from engine.mapping.subject.events import EVENT

RESULTS: Final = "ORU"
MAPPINGS: Final = {ADT: "adt", RESULTS: "oru"}
DECIDE: Final = "decide:"
PLACEHOLDER: Final = "urn:decide:authority:"
LONGEST_NAME: Final = 200
# So many lines of a kind: what has more is no list of a feed's authorities or senders, and is for a person to write.
MOST: Final = 200
IDENTITY: Final = "PID-3"
# Fields whose numbers may be added to those that identify a patient.
ALSO: Final = ("PID-2", "PID-4")
CODING_SYSTEMS: Final = "coding-system"
MERGES: Final = "merge patient"
# What segments make beside Patient and Encounter, where it is sent.
RESOURCES: Final = {
    "AllergyIntolerance": ("AL1", "IAM"),
    "Condition": ("DG1",),
    "Procedure": ("PR1",),
    "Coverage": ("IN1",),
    "RelatedPerson": ("NK1",),
    "Observation": ("OBX",),
    "Account": ("GT1",),
    "PractitionerRole": ("ROL", "PRT"),
}
# What a field of a site's own would be in an extension, by the kind of what it holds.
EXTENSIONS: Final = (
    ("Y or N", "valueBoolean", "{} | boolean(yes-no)"),
    ("date", "valueDate", "{} | date"),
    ("time", "valueDateTime", "{} | datetime"),
    ("components", "valueCodeableConcept", "{} | coded"),
)
_PLAIN: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
# A URI that stands in YAML as it is.
_URI_PLAIN: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[A-Za-z0-9/][A-Za-z0-9/._~%:-]*[A-Za-z0-9/]")
_ABSENT: Final = frozenset({"null"})


class Code(NamedTuple):
    """A code that a table does not have, as it is shown; the field it came in, and how often it came."""

    table: str
    code: str
    field: str
    times: int


class Lost(NamedTuple):
    """What a mapping makes nothing of: codes, and fields that no rule reads."""

    codes: Sequence[Code]
    unread: Collection[str]


def mapping_for(feed: Feed) -> str:
    """Return the name of the shipped mapping that most messages are for."""
    return MAPPINGS[max(MAPPINGS, key=lambda type_: (feed.types[type_], type_ == ADT))]


def feed_name(feed: Feed) -> str:
    """Return what a channel could be called: by the facility and the application that send most."""
    sender = feed.senders.most_common(1)
    application, facility = sender[0][0] if sender else ("", "")
    words = re.findall(r"[a-z0-9]+", f"{facility} {application}".lower()) if is_shown(facility + application) else []
    return "-".join(words)[:64].strip("-") or "new-feed"


def authorities_of(feed: Feed, source: MappingSource) -> dict[str, tuple[str, str]]:
    """Return the authorities of numbers, as a channel names them: the system of each, and the evidence.

    Those whose numbers are all of types that have a system of their own (SS) need none.
    """
    systems = (source.documents.events.value.get("identity") or {}).get("systems") or {}
    found: dict[str, Counter[Authority]] = {}
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


def draft(feed: Feed, source: MappingSource, lost: Lost, name: str) -> dict[str, str]:
    """Return the files, by their paths: the channel, and a mapping that extends the shipped one.

    All of them pass the checks as they stand.
    """
    codes, own = [one for one in lost.codes if is_shown(one.code)], [path for path in feed.own if path in lost.unread]
    files = {
        f"channels/{name}.yaml": _channel(feed, source, name),
        f"mappings/{source.name}.yaml": _events(feed, source, codes),
    }
    for table in sorted({one.table for one in codes} - {CODING_SYSTEMS}):
        files[f"mappings/tables/{table}.yaml"] = _table(source, table, [one for one in codes if one.table == table])
    if own and source.name == MAPPINGS[ADT]:
        files["mappings/resources/patient.yaml"] = _patient(feed, own)
    return {path: "\n".join(lines) + "\n" for path, lines in files.items()}


def _channel(feed: Feed, source: MappingSource, name: str) -> Iterator[str]:
    yield f"# Drafted from {feed.messages} messages. What only a person can know is marked `{DECIDE}`; see"
    yield "# channels/README.md for every key. Look for `decide` again before this channel goes live."
    yield f"channel: {quoted(name)}"
    yield f"listen: {{mllp: {{host: 127.0.0.1, port: 2575}}}}   # {DECIDE} where; for other machines with tls, allow"
    yield f"mode: shadow   # {DECIDE} all is done but the writes; take this line away to go live"
    yield from _sources(feed)
    if found := authorities_of(feed, source):
        yield "authorities:"
        for key, (system, why) in found.items():
            yield f"  {quoted(key)}: {system}   # {why}"
    yield from _time(feed)
    yield from _header(feed)
    yield f"mapping: {source.name}   # {_counts(feed.types, feed.messages)}"
    if merging := [(event, count) for event, count in feed.events.items() if _does(source, event, MERGES)]:
        events = ", ".join(f"{event} ({count})" for event, count in sorted(merging))
        yield f"allow_merge: true   # {DECIDE} whether this feed may merge records; it sends {events}"
    yield "destinations:"
    yield f"  - name: fhir   # {DECIDE} the FHIR server and how it knows this engine (auth)"
    yield "    base_url: https://destination.invalid/fhir/R4"


def _sources(feed: Feed) -> Iterator[str]:
    pairs = [(application, facility) for application, facility in feed.senders if _is_source(application, facility)]
    if len(pairs) < len(feed.senders) or len(pairs) > MOST or not pairs:
        yield f"# {DECIDE} sources, who may send (MSH-3|MSH-4); some of these messages do not say who sent them"
        return
    yield f"sources:   # {DECIDE} whether these are all; any other is refused"
    for one, count in feed.senders.most_common():
        yield f"  - {quoted('|'.join(part for part in one if part))}   # {_of(count, feed.messages)}"


def _time(feed: Feed) -> Iterator[str]:
    without = [f"{path} ({count})" for path, _, count, _ in named_times(feed) if count][:4]
    offsets = f"; times with a zone have {told(feed.offsets)}" if feed.offsets else ""
    if without:
        yield f"timezone: UTC   # {DECIDE} in which zone {', '.join(without)} are{offsets}"


def _header(feed: Feed) -> Iterator[str]:
    """Yield what messages leave open in MSH, or say otherwise than the defaults of a channel."""
    seen = [one for one in get_args(ProcessingId) if feed.processing[one]]
    if seen and seen != ["P"]:
        counts = _counts(feed.processing, feed.messages)
        yield f"processing_ids: [{', '.join(seen)}]   # {DECIDE} which of MSH-11; {counts}"
    known = [one for one, _ in feed.versions.most_common() if one in get_args(Version)]
    if feed.versions[""]:
        version = known[0] if known else "2.5.1"
        yield f'version: "{version}"   # {DECIDE} MSH-12 is empty {_of(feed.versions[""], feed.messages)}'
    if guesses := +feed.guesses:
        charset, count = guesses.most_common(1)[0]
        yield f"charset: {charset}   # {DECIDE} MSH-18 is empty in {count} messages whose bytes are no UTF-8"


def _events(feed: Feed, source: MappingSource, codes: Sequence[Code]) -> Iterator[str]:
    yield f"# Drafted from {feed.messages} messages: what this site does otherwise than the mapping it extends."
    yield f"# Lines that begin with `# {DECIDE}` say what a person might want; mappings/README.md says how."
    yield f"mapping: {source.name}"
    yield f"extends: shipped/{source.name}"
    if also := [name for name in ALSO if any(one.field == name for one in feed.authorities)]:
        counts = ", ".join(f"{name} in {_messages(feed, name)}" for name in also)
        yield f"# {DECIDE} whether these numbers identify the patient, too: {counts} messages"
        yield f"# identity: {{from: [{', '.join((IDENTITY, *also))}]}}"
    yield from _resources(feed, source)
    if strange := [one for one in codes if one.table == CODING_SYSTEMS]:
        yield f"# {DECIDE} which coding systems these names are; until then they stand in one of this engine"
        yield "# assume:"
        yield from (f"#   {quoted(one.code)}: https://...   # {one.field}, {one.times} times" for one in strange)
    yield from _unknown(feed, source)


def _resources(feed: Feed, source: MappingSource) -> Iterator[str]:
    if source.name != MAPPINGS[ADT]:
        return
    found = {
        type_: [f"{name} ({feed.segments[name]})" for name in names if feed.segments[name]]
        for type_, names in RESOURCES.items()
    }
    if more := [type_ for type_, names in found.items() if names]:
        yield f"# {DECIDE} what else is sent: " + "; ".join(f"{type_} of {', '.join(found[type_])}" for type_ in more)
        yield f"# resources: [{', '.join(('Patient', 'Encounter', *more))}]"


def _unknown(feed: Feed, source: MappingSource) -> Iterator[str]:
    """Yield the events that the shipped table does not have, filtered as it filters them, so that each has a name."""
    known = source.documents.events.value.get("events") or {}
    strange = {event: count for event, count in sorted(feed.events.items()) if event not in known and is_shown(event)}
    own = {one: count for one, count in strange.items() if EVENT.fullmatch(one) and "^" not in one}
    if own and source.name == MAPPINGS[ADT]:
        yield "events:"
        for event, count in own.items():
            yield f"  {event}: {{unhandled: unknown-event}}   # {DECIDE} what it does; {_of(count, feed.messages)}"
    for event, count in strange.items():
        if event not in own or source.name != MAPPINGS[ADT]:
            named = event or "messages without an event"
            yield f"# {DECIDE} {named}: no event of this mapping; {_of(count, feed.messages)}"


def _table(source: MappingSource, table: str, codes: Iterable[Code]) -> Iterator[str]:
    authored = source.documents.tables[table].value.get("unmapped") or "keep-original"
    policy = authored if isinstance(authored, str) else f"default {authored.get('default')}"
    yield f"# {DECIDE} what these codes mean here; without a row they are treated as the shipped table says ({policy})."
    yield f"table: {table}"
    yield f"extends: shipped/{table}"
    yield "# codes:"
    for one in codes:
        yield f"#   {quoted(one.code)}: {{code: ..., display: ...}}   # {one.field}, {one.times} times"


def _patient(feed: Feed, own: Sequence[str]) -> Iterator[str]:
    yield f"# {DECIDE} what of the site's own segments becomes an extension, and what says nothing of a patient."
    yield "resource: Patient"
    yield "extends: shipped/patient"
    yield "# add:"
    yield "#   extension:"
    for path in sorted(own, key=_in_order)[:MOST]:
        kinds = feed.kinds[path]
        kind = kinds.most_common(1)[0][0]
        element, rule = next(((one, made) for part, one, made in EXTENSIONS if part in kind), ("valueString", "{}"))
        yield f"#     - url: urn:decide:extension:{path}   # {told(kinds)}; {_of(feed.own[path], feed.messages)}"
        yield f"#       {element}: {rule.format(path)}"


def quoted(text: str) -> str:
    """Return a text as YAML that is read as that text."""
    if _PLAIN.fullmatch(text) and text.lower() not in _ABSENT:
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _names_numbers(path: str) -> bool:
    return path in {IDENTITY, *ALSO} or path.startswith("MRG-") or path in {"PID-18", "PV1-5", "PV1-19", "PV1-50"}


def _is_authority(key: str) -> bool:
    return is_shown(key) and key == key.strip() and not any(mark in key for mark in "&~|^")


def _is_source(application: str, facility: str) -> bool:
    text = application + facility
    return (
        bool(application) and is_shown(application) and is_shown(facility) and "|" not in text and text == text.strip()
    )


def _numbered(key: str, counts: Counter[Authority]) -> tuple[str, str]:
    """Return the system of an authority, a placeholder where its universal id makes none; and the evidence."""
    universals = dict.fromkeys(one.universal for one, _ in counts.most_common() if one.universal)
    system = next((made for one in universals if (made := _system(one))), "")
    if not system:
        name = quote(key, safe="") or "empty"
        system = PLACEHOLDER + (name if len(name) <= LONGEST_NAME else sha256(key.encode()).hexdigest())
        return system, f"{DECIDE} the URI of its numbers; {_evidence(counts)}"
    doubt = f"{DECIDE} it comes with {len(universals)} universal ids; " if len(universals) > 1 else ""
    return system, f"{doubt}as its universal id says; {_evidence(counts)}"


def _system(universal: str) -> str:
    """Return the system that a universal id makes; empty where it makes none."""
    if OID.fullmatch(universal):
        return f"urn:oid:{universal}"
    if UUID.fullmatch(universal):
        return f"urn:uuid:{universal.lower()}"
    return universal if _URI_PLAIN.fullmatch(universal) else ""


def _evidence(counts: Counter[Authority]) -> str:
    """Return in which fields an authority stands, with the types of its numbers."""
    fields: dict[str, Counter[str]] = {}
    for one, count in counts.items():
        fields.setdefault(one.field, Counter())[one.type_ or "without a type"] += count
    return "; ".join(f"{path} {told(types)}" for path, types in sorted(fields.items()))


def _messages(feed: Feed, path: str) -> int:
    return max((count for one, count in feed.authorities.items() if one.field == path), default=0)


def _does(source: MappingSource, event: str, what: str) -> bool:
    row = (source.documents.events.value.get("events") or {}).get(event)
    done = row.get("do") if isinstance(row, dict) else None
    return done == what or (isinstance(done, list) and what in done)


def _counts(counts: Counter[str], messages: int) -> str:
    return (
        ", ".join(f"{one or 'empty'} in {count}" for one, count in counts.most_common(5)) + f" of {messages} messages"
    )


def _of(count: int, messages: int) -> str:
    return f"in {count} of {messages} messages"


def _in_order(path: str) -> tuple[str, int]:
    match = FIELD.fullmatch(path)
    return (match[1], int(match[2])) if match else (path, 0)
