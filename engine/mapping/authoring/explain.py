"""Explains each element of a plan: the rule, the values read, the functions applied; and the reverse."""

from dataclasses import dataclass
from functools import partial
from typing import Any

from engine.config.channel import Channel
from engine.config.source import AuthoredFile
from engine.hl7.message import Message
from engine.mapping.authoring.element import element_of
from engine.mapping.authoring.evidence import CheckedCondition, Evidence
from engine.mapping.authoring.in_force import MappingLine, lines_in_force
from engine.mapping.authoring.outcome import outcome
from engine.mapping.authoring.trace import Trace, TracingCompiler
from engine.mapping.authoring.walk import TraceWalk, WalkPosition
from engine.mapping.compile import Mapping, MappingSource, compile_mapping
from engine.mapping.subject.filters import decided


@dataclass(frozen=True, slots=True)
class Explanation:
    """The explanation of one message: the place of its event's rule, the outcome, the evidence, and the mapping.

    `conditions`: those outside of elements: of filters, of resources and lists, of status moves. `lines`: the other
    lines of files that applied to the message.
    """

    message: Message
    file: str
    line: int
    outcome: dict[str, Any]
    evidence: tuple[Evidence, ...]
    trace: Trace
    hash: str
    conditions: tuple[CheckedCondition, ...] = ()
    lines: tuple[MappingLine, ...] = ()

    def of_element(self, element: str) -> tuple[Evidence, ...]:
        """Return the evidence of an element and its parts: `Patient.name` (every name), `birthDate`."""
        wanted = _whole(element)
        return tuple(one for one in self.evidence if _within(one.element, wanted))

    def rules_for(self, element: str) -> tuple[tuple[str, int, str], ...]:
        """Return file, line and text of every rule that may make an element or its parts, used or not."""
        wanted = _whole(element)
        found = ((scope, one) for scope, one in self.trace.rules if _within(element_of(scope), wanted))
        return tuple(sorted({(*scope.document.place(scope.path), str(one)) for scope, one in found}))

    def elements(self) -> frozenset[str]:
        """Return every element that a rule may make."""
        return frozenset(element_of(scope) for scope, _ in self.trace.rules) - {""}

    def of_field(self, path: str) -> tuple[Evidence, ...]:
        """Return the evidence of all elements that a field (`PID-7`) or a part of it (`PID-5.1`) made or decided."""
        made = (one for one in self.evidence if one.made is not None)
        return tuple(one for one in made if any(_within(source, path) for source in one.sources))


@dataclass(frozen=True, slots=True)
class WatchedMapping:
    """A watched mapping, for one message only, because it caches its results."""

    source: MappingSource
    mapping: Mapping
    trace: Trace


def watch(source: MappingSource, channel: Channel, file: AuthoredFile | None = None) -> WatchedMapping:
    """Compile a mapping for a channel of a file, to be watched; ConfigurationError holds every problem."""
    trace = Trace()
    mapping = compile_mapping(source, channel, partial(TracingCompiler, trace), file)
    trace.roots.clear()
    return WatchedMapping(source, mapping, trace)


def explain(source: MappingSource, channel: Channel, message: Message, file: AuthoredFile | None = None) -> Explanation:
    """Return the explanation of a message by a mapping on a channel; a mapping error is part of it, never raised."""
    return explained_by(watch(source, channel, file), message)


def explained_by(watched: WatchedMapping, message: Message) -> Explanation:
    """Return the explanation of a message by a watched mapping."""
    source, mapping, trace = watched.source, watched.mapping, watched.trace
    made = outcome(mapping, message)
    file_, line = decided(source.documents.events, message, made.get("filter"))
    walk = TraceWalk(source)
    evidence = walk.placed(tuple(walk.evidence(trace.roots)), made)
    conditions = tuple(
        dict.fromkeys(walk.condition(one, WalkPosition(element=element_of(one.scope))) for one in trace.conditions)
    )
    lines = tuple(lines_in_force(source.documents, message, trace.roots))
    return Explanation(message, file_, line, made, evidence, trace, mapping.hash, conditions, lines)


def _whole(element: str) -> str:
    """Return an element with its resource, by default the Patient."""
    return element if element[:1].isupper() else f"Patient.{element}"


def _within(path: str, wanted: str) -> bool:
    """True if a path is the wanted one or below it; without an index every item is wanted."""
    if "[" not in wanted and "(" not in wanted:
        path = "".join(part.split("]")[-1] for part in path.replace("(", "[").replace(")", "]").split("["))
    return path == wanted or path.startswith((f"{wanted}.", f"{wanted}[", f"{wanted}("))
