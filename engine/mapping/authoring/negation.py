"""Warnings of negative comparisons of optional fields, which are often misread.

`PV1-2 != I` holds if PV1-2 has another value; `not PV1-2 = I` holds if it is empty, too. An author who confuses the two
loses messages, or sends too many. There is no warning for a field that is required in every event at hand, nor for a
condition that handles the empty field itself: `PV1-2 and PV1-2 != I`, or `not PV1-2 or PV1-2 != I`. In a list or an
element, where most fields may be empty, `not PID-8 = M` is accepted.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from engine.config.channel import Channel
from engine.config.model import Placed, folded
from engine.config.relay import Relay
from engine.errors import Problem
from engine.hl7.conformance.standard import standard
from engine.hl7.events import grammar, structure
from engine.mapping.files.document import Document, Documents, Problems
from engine.mapping.files.reference import listed
from engine.mapping.language.comparison import comparison_fault, comparison_of
from engine.mapping.language.expression import (
    EVENT,
    Condition,
    ExpressionError,
    Guard,
    Head,
    SegmentPath,
    Source,
    Term,
    parse_condition,
    parse_expression,
)
from engine.mapping.resource.grouping import UNDER
from engine.mapping.resource.lists import SEGMENTS
from engine.mapping.subject.events import ELSEWHERE, EventRule, make_event_table
from engine.mapping.subject.filters import FILTERS

# The version whose structures define an event's required fields, which hardly differ between versions.
VERSION: Final = "2.5.1"
CONDITIONS: Final = frozenset({"when", "unless", "arrives", "leaves"})
# Every message has these, whatever its event.
ALWAYS: Final = frozenset({"MSH", "PID"})
# The standard requires PV1 in events of a person, but they are sent without it.
VISIT: Final = ("PV1", "Encounter")
EVENTS_OF: Final = "the event table"


class _Place(NamedTuple):
    """The place of a condition: its events, the segments at hand there, and its value."""

    events: tuple[str, ...]
    at_hand: frozenset[str] = frozenset()
    head: Head | None = None
    of_messages: bool = False


class Negations:
    """Warns of the negative comparisons of one mapping, and of its channels."""

    def __init__(self, documents: Documents) -> None:
        self._documents = documents
        rules = make_event_table(documents.events, Problems()).rules
        self._rules: Mapping[str, EventRule] = {
            one: rule for one, rule in rules.items() if rule.action not in ELSEWHERE
        }

    def warnings(self) -> tuple[Problem, ...]:
        """Return the warnings for the site's own files."""
        problems: list[Problem] = []
        events = self._documents.events
        for number, line in enumerate(listed_maps(events.value.get(FILTERS))):
            problems += self._of_text(line.get("when"), _Place(self._events(), of_messages=True), events, number)
        for document in (*self._documents.resources.values(), *self._documents.datatypes.values()):
            asked = self._events(str(document.value.get("resource") or ""))
            problems += self._walk(document.value, _Place(asked), document, ())
        return tuple(sorted(set(problems)))

    def of_channel(self, channel: Channel) -> Iterator[Placed]:
        """Yield the warnings for the filters and edits of a channel, each with its path in the channel's file."""
        place = _Place(self._events(), of_messages=True)
        conditions: list[tuple[tuple[str | int, ...], str]] = [
            ((FILTERS, number, "when"), one.when) for number, one in enumerate(channel.filters)
        ]
        for at, destination in enumerate(channel.destinations):
            steps = destination.edit if isinstance(destination, Relay) else ()
            conditions += [
                (("destinations", at, "edit", number, "when"), step.when)
                for number, step in enumerate(steps)
                if step.when
            ]
        for path, text in conditions:
            for found, expected in self._findings(_condition(text), place):
                yield path, found, expected

    def _events(self, type_: str = "") -> tuple[str, ...]:
        """Return the events with actions; for a resource that some of them name, these."""
        named = [one for one, rule in self._rules.items() if any(act.type_ == type_ for act in rule.acts)]
        return tuple(named or self._rules)

    def _walk(self, value: Any, place: _Place, document: Document, path: tuple[Any, ...]) -> Iterator[Problem]:
        if isinstance(value, str):
            yield from self._line(value, place, document, path)
        elif isinstance(value, list):
            for number, one in enumerate(value):
                yield from self._walk(one, place, document, (*path, number))
        elif isinstance(value, dict):
            near = {one.partition("-")[0] for one in listed(value.get("each"))}
            for key, one in value.items():
                own = near | ({str(key).partition(UNDER)[0]} if path == (SEGMENTS,) else set())
                inner = place._replace(at_hand=place.at_hand | own)
                yield from self._walk(one, inner, document, (*path, key))

    def _line(self, text: str, place: _Place, document: Document, path: tuple[Any, ...]) -> Iterator[Problem]:
        if document.is_shipped(path):
            return
        conditions: list[tuple[Condition, Head | None]] = []
        try:
            if path[-1] in CONDITIONS:
                conditions.append((parse_condition(text), None))
            else:
                guards = [(one.head, stage) for one in parse_expression(text) for stage in one.stages]
                conditions += [(stage.condition, head) for head, stage in guards if isinstance(stage, Guard)]
        except ExpressionError:
            return  # not an expression, such as the name of a file
        for condition, head in conditions:
            for found, expected in self._findings(condition, place._replace(head=head)):
                yield document.problem(path, found, expected)

    def _of_text(self, text: Any, place: _Place, document: Document, number: int) -> Iterator[Problem]:
        for found, expected in self._findings(_condition(text), place):
            yield document.problem((FILTERS, number, "when"), found, expected)

    def _findings(self, condition: Condition, place: _Place) -> Iterator[tuple[str, str]]:
        """Yield the finding and the remedy for each negative comparison that does not handle the empty field."""
        settled = {str(term.source) for group in condition for term in group if not term.values}
        for group in condition:
            valued = {str(one.source) for one in group if one.values and not one.negated and not one.unlike}
            for term in group:
                name = str(term.source)
                negative = term.unlike if not place.of_messages else term.unlike or (term.negated and term.values)
                if not negative or name == EVENT or name in settled | valued or name == str(place.head):
                    continue
                events = [event for event in place.events if _is_asked(group, event)]
                lacking = [event for event in events if not self._has(event, term.source, place.at_hand)]
                if lacking:
                    yield _words(term, sorted(lacking), of_any=len(lacking) == len(self._rules))

    def _has(self, event: str, source: Source, at_hand: frozenset[str]) -> bool:
        """True if the standard requires a field in each message of an event."""
        if not isinstance(source, SegmentPath) or source.where or source.component > 1 or source.subcomponent > 1:
            return False
        known = standard(VERSION)
        rule = known.segment(source.segment) if known else None
        required = rule is not None and source.field in {one.number for one in rule.required}
        if not required or source.repetition > 1:
            return False
        if source.segment in at_hand | ALWAYS:
            return True
        segment, type_ = VISIT
        if source.segment == segment and not any(act.type_ == type_ for act in self._rules[event].acts):
            return False
        parts = grammar(VERSION, structure(VERSION, event.rpartition("^")[2]))
        return any(part.name == source.segment and part.required and not part.parts for part in parts)


def listed_maps(value: Any) -> list[Mapping[str, Any]]:
    """Return the maps of a list; none for another value, which another check reports."""
    return [one if isinstance(one, dict) else {} for one in value] if isinstance(value, list) else []


def _condition(text: Any) -> Condition:
    """Return a condition; an empty one for an invalid text, which another check reports."""
    try:
        return parse_condition(str(text or ""))
    except ExpressionError:
        return ()


def _is_asked(group: Sequence[Term], event: str) -> bool:
    """True if the event terms of a group hold for an event."""
    trigger = event.rpartition("^")[2]
    return all(_fits(term, trigger) for term in group if term.source == EVENT)


def _fits(term: Term, trigger: str) -> bool:
    if term.test:
        fits = comparison_fault(term) is None and comparison_of(term.test, term.values[0])(trigger)
    else:
        fits = trigger in term.values or not term.values
    return (fits != term.unlike) != term.negated


def _words(term: Term, events: Sequence[str], *, of_any: bool) -> tuple[str, str]:
    need = "no event must have it" if of_any else f"{folded(events, where=EVENTS_OF)} need not have it"
    plain = Term(term.source, term.values, negated=False, test=term.test, unlike=not (term.unlike and term.negated))
    only, too = f"{term.source} and {plain}", f"not {term.source} or {plain}"
    if term.negated:
        expected = f"write `{only}` to leave that out, or `{too}` where it is meant"
        return f"{term}, which holds where {term.source} is empty ({need})", expected
    expected = f"write `{only}` where that is meant, or `{too}`"
    return f"{term}, which does not hold where {term.source} is empty ({need})", expected
