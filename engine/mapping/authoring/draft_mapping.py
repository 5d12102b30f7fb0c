"""Drafts a site's own mapping from its messages: what the shipped one has no rule, row or line for."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from engine.config.settings import shipped
from engine.config.source import DECIDE
from engine.hl7.events import ADT
from engine.mapping.authoring.draft_text import ALSO, IDENTITY, MAPPINGS, MOST, events_of, in_of, quoted
from engine.mapping.authoring.feed import CODE_LIKE, FeedSurvey, PartSurvey, is_shown, ranked
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
    if own and source.name == MAPPINGS[ADT]:
        files["resources/patient.yaml"] = _patient(feed, own)
    return files


def table_files(codes: Sequence[tuple[MappingSource, Code]]) -> dict[str, Iterator[str]]:
    """Return the lines of each table that lacks codes, by its path below the folder of mappings."""
    tables = sorted({code.table for _, code in codes if ships("tables", code.table)} - {CODING_SYSTEMS})
    return {f"tables/{table}.yaml": _table(codes, table) for table in tables}


def _events(feed: FeedSurvey, source: MappingSource, codes: Sequence[Code]) -> Iterator[str]:
    yield f"# Drafted from {feed.messages} messages: what this site does otherwise than the mapping it extends."
    yield f"# Lines with `{DECIDE}` say what a person might want; mappings/language.md says how."
    yield f"mapping: {source.name}"
    yield f"extends: shipped/{source.name}"
    if also := [name for name in ALSO if any(authority.field == name for authority in feed.authorities)]:
        counts = ", ".join(f"{name} in {_messages(feed, name)}" for name in also)
        yield f"# {DECIDE} do these numbers identify the patient, too? {counts} messages"
        yield f"# identity: {{from: [{', '.join((IDENTITY, *also))}]}}"
    yield from _resources(feed, source)
    if strange := [code for code in codes if code.table == CODING_SYSTEMS]:
        yield "# The URIs of coding systems; of one that is not named here the engine makes one of the name."
        yield "# assume:"
        for one in strange:
            yield f"#   {quoted(one.code)}: https://...   # {DECIDE} its URI; {one.field}, {one.times} times"
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


def _table(codes: Sequence[tuple[MappingSource, Code]], table: str) -> Iterator[str]:
    source = next(source for source, code in codes if code.table == table)
    shipped_table = source.documents.tables[table].value
    authored = shipped_table.get("unmapped") or "keep-original"
    policy = authored if isinstance(authored, str) else f"default {authored.get('default')}"
    yield f"# Codes of this site; for one without a row the shipped table decides ({policy})."
    yield f"table: {table}"
    yield f"extends: shipped/{table}"
    yield "# codes:"
    times: dict[str, dict[str, int]] = {}
    for _, code in codes:
        if code.table == table:
            fields = times.setdefault(code.code, {})
            fields[code.field] = fields.get(code.field, 0) + code.times
    for name, fields in times.items():
        row = row_text(alike_row(shipped_table, name) or {}) or "{code: ..., display: ...}"
        evidence = "; ".join(f"{path}, {count} times" for path, count in fields.items())
        yield f"#   {quoted(name)}: {row}   # {DECIDE} what it means; {evidence}"


def alike_row(table: Mapping[str, Any], name: str) -> dict[str, Any] | None:
    """Return the row of a table for a code of the table, or for the code or a display of a row; None for none."""
    rows = {code: row for code, row in (table.get("codes") or {}).items() if isinstance(row, dict)}
    if name in rows:
        return dict(rows[name])
    word = name.casefold()
    words = (
        {str(part).casefold() for part in (code, *map(row.get, ("code", "display", "original")))}
        for code, row in rows.items()
    )
    return next((dict(row) for row, known in zip(rows.values(), words, strict=True) if word in known), None)


def row_text(row: Mapping[str, Any]) -> str:
    """Return a row of a table as YAML in one line, without the display of the shipped code."""
    parts = [f"{key}: {quoted(str(row[key]))}" for key in ("code", "display", "system") if row.get(key)]
    return f"{{{', '.join(parts)}}}" if parts else ""


def _patient(feed: FeedSurvey, own: Sequence[str]) -> Iterator[str]:
    yield "# The site's own fields: each of them, or of their components, may become an extension of the patient."
    yield "resource: Patient"
    yield "extends: shipped/patient"
    yield "# add:"
    yield "#   extension:"
    for path in sorted(own, key=_in_order)[:MOST]:
        yield from (f"#     {line}" for line in _extensions(feed, path))


def _extensions(feed: FeedSurvey, path: str) -> Iterator[str]:
    """Yield the entries of a field: one for a plain or a coded one, else one for each component."""
    kinds, seen = feed.kinds[path], in_of(feed.own[path], feed.messages)
    parts = {name: part for name, part in feed.parts.items() if name.startswith(f"{path}.")}
    if len(parts) < 2 or _is_coded(path, parts):
        whole = "components" if len(parts) > 1 else kinds.most_common(1)[0][0]
        part = next(iter(parts.values()), None)
        evidence = f"{ranked(kinds)}{f'; {part.distinct} distinct' if part else ''}; {seen}"
        yield from _extension(path, path, whole, evidence, feed)
        return
    for name in sorted(parts, key=_steps):
        part = parts[name]
        evidence = f"{part.kind}; {ranked(part.kinds)}; {part.distinct} distinct; {part.times} times, {path} {seen}"
        yield from _extension(path, name, part.kind, evidence, feed)


def _extension(field: str, path: str, kind: str, evidence: str, feed: FeedSurvey) -> Iterator[str]:
    """Yield the entry of a field or a component of it: for each repetition, or for each of several segments."""
    element, rule = next(((one, made) for part, one, made in EXTENSIONS if part in kind), ("valueString", "{}"))
    segment = field.partition("-")[0]
    # A subcomponent of a repetition at hand has no name: the first repetition is read.
    levels = (field, segment) if path.count(".") < 2 else ()
    each = next((one for one in levels if feed.repeated[one]), "")
    again = f"; several {each} in {feed.repeated[each]} messages" if each else ""
    yield f"- url: urn:decide:extension:{path}   # {DECIDE} the URL of its extension; {evidence}{again}"
    if each:
        yield f"  each: {each}"
    if each == field:
        # A repetition at hand is read by the name of its type; a Z field has none, and CWE has most components.
        part = path.removeprefix(field) or ("" if "coded" in rule else ".1")
        path = f"CWE{part}"
    yield f"  {element}: {rule.format(path)}"


def _is_coded(path: str, parts: Mapping[str, PartSurvey]) -> bool:
    """True if the components are those of a code: code, text and coding system, perhaps twice."""
    numbers = {name.removeprefix(f"{path}.") for name in parts}
    words = {parts[f"{path}.{number}"].kind for number in "123" if f"{path}.{number}" in parts}
    return {"1", "2"} <= numbers <= {*"123456"} and words <= {"one word", "text", CODE_LIKE}


def _steps(path: str) -> list[int]:
    return [int(step) for step in path.partition("-")[2].split(".")]


def _messages(feed: FeedSurvey, path: str) -> int:
    return max((count for one, count in feed.authorities.items() if one.field == path), default=0)


def _in_order(path: str) -> tuple[str, int]:
    match = FIELD.fullmatch(path)
    return (match[1], int(match[2])) if match else (path, 0)
