"""Checks that the Patient's file writes an identity as a channel searches it: by its number, under its system.

The channel defines that system (`authorities`, else `base_uri`). No search finds a number that the file writes under
another one, a constant of its own: the next message is held, or creates a second chart.

A patient is searched by the numbers of `identity.from` as sent. No search finds a number that is written in another
form (`CX.1 | strip-start(0)`): the next message is held, or creates a second chart.

The mappings of a channel's destinations must identify patients as the channel's own does.
"""

from collections.abc import Callable, Iterator, Mapping, Set
from pathlib import PurePath
from typing import Any, Final, NamedTuple

from engine.config.model import folded
from engine.errors import Problem
from engine.mapping.files.document import Document, Documents, Problems
from engine.mapping.files.overlay import Key
from engine.mapping.files.reference import listed
from engine.mapping.files.setting import Setting
from engine.mapping.language.expression import (
    Alternative,
    Condition,
    Constant,
    ExpressionError,
    FunctionCall,
    Guard,
    RepetitionPath,
    SegmentPath,
    Term,
    parse_condition,
    parse_expression,
)
from engine.mapping.language.identifier import MERGED, IdentityRules, system_named
from engine.mapping.language.number_form import NORMALISE
from engine.mapping.subject.events import ALONE, EventAction, make_event_table

IDENTIFIER: Final = "identifier"
VALUE: Final = "value"
SECTIONS: Final = ("elements", "merged")
Place = tuple[Key, ...]


class IdentityTemplate(NamedTuple):
    """The template of an identifier: its file and place there, its field, and its parts.

    `calls`: the entry of the Patient's file that names the data type of this template; else the entry itself.
    """

    document: Document
    path: Place
    source: str
    parts: Mapping[str, Any]
    calls: Mapping[str, Any]


def identity_entries(
    patient: Document, datatypes: Mapping[str, Document], fields: Set[str]
) -> Iterator[IdentityTemplate]:
    """Yield the templates of identifiers of these fields: entries, and the data types that they name."""
    for section in SECTIONS:
        entries = (patient.value.get(section) or {}).get(IDENTIFIER)
        for number, entry in enumerate(entries if isinstance(entries, list) else [entries]):
            if not isinstance(entry, dict):
                continue
            path: Place = (section, IDENTIFIER, number) if isinstance(entries, list) else (section, IDENTIFIER)
            sources = [one for one in listed(entry.get("each")) if one in fields]
            for source in sources or sorted(_read(entry.get(VALUE)) & fields):
                yield IdentityTemplate(patient, path, source, entry, entry)
            type_ = datatypes.get(str(entry.get("as") or ""))
            elements = type_.value.get("elements") if type_ is not None else None
            if type_ is not None and isinstance(elements, dict):
                yield from [IdentityTemplate(type_, ("elements",), source, elements, entry) for source in sources]


def alternatives(value: Any) -> list[Alternative]:
    """Return the alternatives of a value, one expression or a list of them; none if it is invalid."""
    if isinstance(value, dict):
        return alternatives(value.get("first"))
    if isinstance(value, list):
        return [alternative for part in value for alternative in alternatives(part)]
    try:
        return list(parse_expression(value)) if isinstance(value, str) else []
    except ExpressionError:
        return []  # reported when it is compiled


def _read(value: Any) -> set[str]:
    """Return the fields that a value is read from."""
    heads = [alternative.head for alternative in alternatives(value)]
    return {f"{one.segment}-{one.field}" for one in heads if isinstance(one, SegmentPath)}


# Functions that leave a number unchanged, or make nothing of it.
UNCHANGED: Final = "identifier-value"


def check_identity_values(
    patient: Document, datatypes: Mapping[str, Document], rules: IdentityRules, problems: Problems
) -> None:
    """Note each line that writes another value of an identity than the searched one."""
    fields = {*rules.fields, *rules.named, *(MERGED[field] for field in rules.fields if field in MERGED)}
    reported: set[tuple[str, tuple[Key, ...]]] = set()
    for document, path, source, parts, _ in identity_entries(patient, datatypes, fields):
        wrong, at = _value_changed(parts.get(VALUE)), (*path, VALUE)
        if wrong and (document.name, at) not in reported:
            reported.add((document.name, at))
            found = f"{wrong!r} as the value of {source}, by which patients are searched as it came"
            expected = (
                f"write CX.1 | {UNCHANGED}; another form of a number is said by identity.{NORMALISE} of the event file"
            )
            problems.add(document, at, found, expected)


def _value_changed(value: Any) -> str:
    """Return the alternative that does not write the number itself; empty if all do."""
    return next((str(alternative) for alternative in alternatives(value) if not _is_as_it_came(alternative)), "")


def _is_as_it_came(one: Alternative) -> bool:
    head = one.head
    if isinstance(head, Constant) or head.component > 1 or head.subcomponent > 1:
        return False
    if isinstance(head, RepetitionPath) and head.type_ != "CX" and head.component == 0:
        return False
    return all(stage.name == UNCHANGED for stage in one.stages if isinstance(stage, FunctionCall))


def conflicting_forms(documents: Documents, setting: Setting, channel: str) -> Iterator[Problem]:
    """Yield a problem for each authority whose numbers have another form than those of one with the same system."""
    rules = make_event_table(documents.events, Problems()).identity
    first: dict[str, str] = {}
    for name, form in rules.normalise.items():
        system = system_named(name, setting)
        other = first.setdefault(system, name)
        if not form.same_as(rules.normalise[other]):
            found = f"another form than for {other!r}, which is the same system on channel {channel} ({system})"
            yield documents.events.problem(
                ("identity", NORMALISE, name), found, "give one form to both, or name one only"
            )


PATIENT: Final = "Patient"
SYSTEM: Final = "system"
AS_SEARCHED: Final = "identifier-system"
TYPE: Final = 5
# The systems that a message's universal id may make without the channel: unknown before the message.
UNIVERSAL: Final = ("urn:oid:", "urn:uuid:")


def changed_systems(documents: Documents, setting: Setting, channel: str) -> Iterator[Problem]:
    """Yield a problem for each line that writes an identity under another system than the channel searches."""
    patient = documents.resources.get(PATIENT)
    if patient is None:
        return
    rules = make_event_table(documents.events, Problems()).identity
    fields = {*rules.fields, *(MERGED[field] for field in rules.fields if field in MERGED)}
    reported: set[tuple[str, Place]] = set()
    for entry in identity_entries(patient, documents.datatypes, fields):
        wrong, at = _changed(entry, rules, setting), (entry.document.name, entry.path)
        if wrong and at not in reported:
            reported.add(at)
            under = folded(sorted(_named(setting))) or f"{setting.base_uri}AUTHORITY"
            found = f"{wrong!r} as the system of {entry.source}, which channel {channel} has searched under {under}"
            expected = f"write CX | {AS_SEARCHED}, and name the system in the channel's authorities"
            yield entry.document.problem((*entry.path, SYSTEM), found, expected)


# The parts of an event file that decide who somebody is.
DECIDING: Final = ("identity", "placeholder_people")
WRITES_NOTHING: Final = frozenset({EventAction.SKIP, EventAction.UNHANDLED, EventAction.REFUSE})


def other_identity(judging: Document, writing: Document, channel: str) -> Iterator[tuple[Place, str, str]]:
    """Yield where an event file identifies patients otherwise than the one by which a channel's messages are judged.

    Lanes, merges and the answer to the sender are those of `judging`. What `writing` leaves out is not written at all,
    and differs in nothing. Each as the place in `writing`, what was found, what would do.
    """
    why = f"whose a number is must be the same at every destination of channel {channel}"
    for part in DECIDING:
        mine, theirs = (document.value.get(part) or {} for document in (writing, judging))
        for key in dict.fromkeys((*theirs, *mine)) if isinstance(mine, dict) and isinstance(theirs, dict) else ():
            if _compared(key, mine.get(key)) != _compared(key, theirs.get(key)):
                found = f"{_shown(mine.get(key))} as {part}.{key}"
                yield (part, key), found, f"write {_shown(theirs.get(key))}, as {_at(judging, (part, key))}: {why}"
    tables = [make_event_table(document, Problems()) for document in (writing, judging)]
    for event in tables[0].rules.keys() & tables[1].rules.keys():
        mine, theirs = (table.rules[event] for table in tables)
        if {mine.action, theirs.action} & WRITES_NOTHING:
            continue
        path: Place = ("events", event, "do")
        if _decides(mine.action) != _decides(theirs.action):
            found = f"{mine.action.value!r} for {event}"
            yield path, found, f"write {theirs.action.value}, as {_at(judging, path)}, or skip the event: {why}"
        elif mine.each != theirs.each:
            found = f"{'every' if mine.each else 'the first'} PID of {event}"
            expected = f"{'write' if theirs.each else 'remove'} each: PID, as {_at(judging, path)}: {why}"
            yield ("events", event), found, expected


def _compared(key: Key, value: Any) -> Any:
    """Return a value to be compared: a list as a set unless its order matters; empty and absent are the same."""
    if isinstance(value, dict) or not value:
        return value or None
    return listed(value) if key in {"from", "prefer"} else set(listed(value))


def _decides(action: EventAction) -> EventAction | None:
    """Return an action on somebody's numbers; None for those that only say whose data these are."""
    return action if action in ALONE or action is EventAction.DELETE else None


def _at(document: Document, path: Place) -> str:
    file, line = document.place(path)
    return f"{PurePath(file).name}:{line}"


def _shown(value: Any) -> str:
    """Return a value as a file has it."""
    if value in (None, "", [], {}):
        return "nothing"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_shown(part)}" for key, part in value.items()) + "}"
    return f"[{', '.join(map(str, value))}]" if isinstance(value, list) else str(value)


def _named(setting: Setting) -> set[str]:
    """Return the systems that a channel names for people's numbers, without those of one type (`RVB^VN`)."""
    return {uri for name, uri in setting.authorities.items() if "^" not in name}


def _changed(entry: IdentityTemplate, rules: IdentityRules, setting: Setting) -> str:
    """Return the first constant that is another system than the searched one; empty for none."""
    around = [guard for parts in (entry.calls, entry.parts) for guard in _guards(parts)]
    narrowed = bool(around) or _selected(entry, lambda head: head.where > 0)
    if _selected(entry, lambda head: head.where == TYPE and head.equals in rules.not_identity):
        return ""
    for alternative in alternatives(entry.parts.get(SYSTEM)):
        own = [stage for stage in alternative.stages if isinstance(stage, Guard)]
        identity = not any(_of_no_identity(guard, entry.source, rules) for guard in (*around, *own))
        constant = _constant(alternative)
        if constant and identity and not _is_searched(constant, setting, narrowed=narrowed or bool(own)):
            return constant
        if not own and (
            constant or AS_SEARCHED in {stage.name for stage in alternative.stages if isinstance(stage, FunctionCall)}
        ):
            break  # the rest is never reached
        narrowed = True
    return ""


def _is_searched(constant: str, setting: Setting, *, narrowed: bool) -> bool:
    """True if a constant may be the system of every number that it is written for.

    `narrowed`: it is written for some of them only, which may all have one authority.
    """
    named = _named(setting)
    if named and not narrowed:
        return named == {constant}
    return constant in named or constant.startswith((setting.base_uri, *UNIVERSAL))


def _constant(one: Alternative) -> str:
    """Return the constant that an alternative writes; empty if it is a path."""
    called = any(isinstance(stage, FunctionCall) for stage in one.stages)
    return one.head.value if isinstance(one.head, Constant) and not called else ""


def _guards(parts: Mapping[str, Any]) -> Iterator[Guard]:
    for word in ("when", "unless"):
        if word in parts:
            yield Guard(_condition(parts[word]), word == "unless")


def _condition(text: Any) -> Condition:
    try:
        return parse_condition(str(text))
    except ExpressionError:
        return ()  # reported when it is compiled


def _selected(entry: IdentityTemplate, holds: Callable[[SegmentPath], bool]) -> bool:
    """True if each path to the number selects its repetition (`PID-3[CX.5=SS].1`) by a predicate that `holds`."""
    heads = [alternative.head for alternative in alternatives(entry.parts.get(VALUE))]
    paths = [head for head in heads if isinstance(head, SegmentPath)]
    return bool(paths) and all(map(holds, paths))


def _of_no_identity(guard: Guard, source: str, rules: IdentityRules) -> bool:
    """True if a guard passes only numbers of types without an identity."""
    return (
        not guard.unless
        and bool(guard.condition)
        and all(any(_names_others(term, source, rules) for term in group) for group in guard.condition)
    )


def _names_others(term: Term, source: str, rules: IdentityRules) -> bool:
    at = term.source
    of_type = (isinstance(at, RepetitionPath) and (at.type_, at.component) == ("CX", TYPE)) or (
        isinstance(at, SegmentPath) and (f"{at.segment}-{at.field}", at.component) == (source, TYPE)
    )
    plain = not (term.negated or term.unlike or term.test) and bool(term.values)
    return of_type and plain and rules.not_identity.issuperset(term.values)
