"""Drafts a site's own mapping from its messages: what the shipped one has no rule, row or line for."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from engine.config.settings import shipped
from engine.hl7.events import ADT
from engine.mapping.authoring.draft_text import ALSO, DECIDE, IDENTITY, MAPPINGS, MOST, events_of, in_of, quoted
from engine.mapping.authoring.feed import FeedSurvey, is_shown, ranked
from engine.mapping.compile import MappingSource
from engine.mapping.files.overlay import FIELD
from engine.mapping.subject.events import EVENT

CODING_SYSTEMS: Final = "coding-system"
# The resources of segments other than Patient and Encounter, if they are sent.
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
# The extension value of a site's own field, by the kind of its content.
EXTENSIONS: Final = (
    ("Y or N", "valueBoolean", "{} | boolean(yes-no)"),
    ("date", "valueDate", "{} | date"),
    ("time", "valueDateTime", "{} | datetime"),
    ("components", "valueCodeableConcept", "{} | coded"),
)


class Code(NamedTuple):
    """A code without a row in its table, as shown; its field, and the number of its occurrences."""

    table: str
    code: str
    field: str
    times: int


class UnmappedContent(NamedTuple):
    """The unmapped content of messages: codes, and fields that no rule reads."""

    codes: Sequence[Code]
    unread: Collection[str]


def ships(*names: str) -> bool:
    """True if a mapping file ships, so that a draft can extend it."""
    return shipped("mappings").joinpath(*names).with_suffix(".yaml").is_file()


def mapping_files(feed: FeedSurvey, source: MappingSource, lost: UnmappedContent) -> dict[str, Iterator[str]]:
    """Return the lines of each file, by its path below the folder of mappings."""
    codes, own = [one for one in lost.codes if is_shown(one.code)], [path for path in feed.own if path in lost.unread]
    files = {f"{source.name}.yaml": _events(feed, source, codes)}
    for table in sorted({code.table for code in codes if ships("tables", code.table)} - {CODING_SYSTEMS}):
        files[f"tables/{table}.yaml"] = _table(source, table, [code for code in codes if code.table == table])
    if own and source.name == MAPPINGS[ADT]:
        files["resources/patient.yaml"] = _patient(feed, own)
    return files


def _events(feed: FeedSurvey, source: MappingSource, codes: Sequence[Code]) -> Iterator[str]:
    yield f"# Drafted from {feed.messages} messages: what this site does otherwise than the mapping it extends."
    yield f"# Lines that begin with `# {DECIDE}` say what a person might want; mappings/language.md says how."
    yield f"mapping: {source.name}"
    yield f"extends: shipped/{source.name}"
    if also := [name for name in ALSO if any(authority.field == name for authority in feed.authorities)]:
        counts = ", ".join(f"{name} in {_messages(feed, name)}" for name in also)
        yield f"# {DECIDE} do these numbers identify the patient, too? {counts} messages"
        yield f"# identity: {{from: [{', '.join((IDENTITY, *also))}]}}"
    yield from _resources(feed, source)
    if strange := [code for code in codes if code.table == CODING_SYSTEMS]:
        yield f"# {DECIDE} the URIs of these coding systems; until then the engine makes one of the name"
        yield "# assume:"
        yield from (f"#   {quoted(one.code)}: https://...   # {one.field}, {one.times} times" for one in strange)
    yield from _unknown(feed, source)


def _resources(feed: FeedSurvey, source: MappingSource) -> Iterator[str]:
    if source.name != MAPPINGS[ADT]:
        return
    found = {
        type_: [f"{name} ({feed.segments[name]})" for name in names if feed.segments[name]]
        for type_, names in RESOURCES.items()
    }
    if more := [type_ for type_, names in found.items() if names]:
        yield f"# {DECIDE} what else to send: " + "; ".join(f"{type_} of {', '.join(found[type_])}" for type_ in more)
        yield f"# resources: [{', '.join(('Patient', 'Encounter', *more))}]"


def _unknown(feed: FeedSurvey, source: MappingSource) -> Iterator[str]:
    """Yield the events that the shipped table does not have, filtered, so that each has a named rule."""
    known = events_of(source)
    strange = {event: count for event, count in sorted(feed.events.items()) if event not in known and is_shown(event)}
    own = {one: count for one, count in strange.items() if EVENT.fullmatch(one) and "^" not in one}
    if own and source.name == MAPPINGS[ADT]:
        yield "events:"
        for event, count in own.items():
            seen = in_of(count, feed.messages)
            yield f"  {event}: {{unhandled: unknown-event}}   # {DECIDE} what it should do; {seen}"
    for event, count in strange.items():
        if event not in own or source.name != MAPPINGS[ADT]:
            named = event or "messages without an event"
            yield f"# {DECIDE} {named}: no event of this mapping; {in_of(count, feed.messages)}"


def _table(source: MappingSource, table: str, codes: Iterable[Code]) -> Iterator[str]:
    authored = source.documents.tables[table].value.get("unmapped") or "keep-original"
    policy = authored if isinstance(authored, str) else f"default {authored.get('default')}"
    yield f"# {DECIDE} what these codes mean here; without a row the shipped table decides ({policy})."
    yield f"table: {table}"
    yield f"extends: shipped/{table}"
    yield "# codes:"
    for code in codes:
        yield f"#   {quoted(code.code)}: {{code: ..., display: ...}}   # {code.field}, {code.times} times"


def _patient(feed: FeedSurvey, own: Sequence[str]) -> Iterator[str]:
    yield f"# {DECIDE} which of the site's own fields become an extension of the patient."
    yield "resource: Patient"
    yield "extends: shipped/patient"
    yield "# add:"
    yield "#   extension:"
    for path in sorted(own, key=_in_order)[:MOST]:
        kinds = feed.kinds[path]
        kind = kinds.most_common(1)[0][0]
        element, rule = next(((one, made) for part, one, made in EXTENSIONS if part in kind), ("valueString", "{}"))
        yield f"#     - url: urn:decide:extension:{path}   # {ranked(kinds)}; {in_of(feed.own[path], feed.messages)}"
        yield f"#       {element}: {rule.format(path)}"


def _messages(feed: FeedSurvey, path: str) -> int:
    return max((count for one, count in feed.authorities.items() if one.field == path), default=0)


def _in_order(path: str) -> tuple[str, int]:
    match = FIELD.fullmatch(path)
    return (match[1], int(match[2])) if match else (path, 0)
