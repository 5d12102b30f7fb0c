"""Checks that the Patient's file writes an identity under the system by which a channel searches it.

The channel defines that system (`authorities`, else `base_uri`). No search finds a number that the file writes under
another one, a constant of its own: the next message is held, or creates a second chart.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from engine.config.model import folded
from engine.errors import Problem
from engine.mapping.files.document import Documents, Problems
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
)
from engine.mapping.language.identifier import MERGED, IdentityRules
from engine.mapping.subject.events import make_event_table
from engine.mapping.subject.identity_entries import VALUE, IdentityTemplate, Place, alternatives, identity_entries

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
    fields = {*rules.fields, *(MERGED[one] for one in rules.fields if one in MERGED)}
    reported: set[tuple[str, Place]] = set()
    for entry in identity_entries(patient, documents.datatypes, fields):
        wrong, at = _changed(entry, rules, setting), (entry.document.name, entry.path)
        if wrong and at not in reported:
            reported.add(at)
            under = folded(sorted(_named(setting))) or f"{setting.base_uri}AUTHORITY"
            found = f"{wrong!r} as the system of {entry.source}, which channel {channel} has searched under {under}"
            expected = f"write CX | {AS_SEARCHED}, and name the system in the channel's authorities"
            yield entry.document.problem((*entry.path, SYSTEM), found, expected)


def _named(setting: Setting) -> set[str]:
    """Return the systems that a channel names for people's numbers, without those of one type (`RVB^VN`)."""
    return {uri for name, uri in setting.authorities.items() if "^" not in name}


def _changed(entry: IdentityTemplate, rules: IdentityRules, setting: Setting) -> str:
    """Return the first constant that is another system than the searched one; empty for none."""
    around = [guard for parts in (entry.calls, entry.parts) for guard in _guards(parts)]
    narrowed = bool(around) or _selected(entry, lambda head: head.where > 0)
    if _selected(entry, lambda head: head.where == TYPE and head.equals in rules.not_identity):
        return ""
    for one in alternatives(entry.parts.get(SYSTEM)):
        own = [stage for stage in one.stages if isinstance(stage, Guard)]
        identity = not any(_of_no_identity(guard, entry.source, rules) for guard in (*around, *own))
        constant = _constant(one)
        if constant and identity and not _is_searched(constant, setting, narrowed=narrowed or bool(own)):
            return constant
        if not own and (
            constant or AS_SEARCHED in {stage.name for stage in one.stages if isinstance(stage, FunctionCall)}
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
    heads = [one.head for one in alternatives(entry.parts.get(VALUE))]
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
