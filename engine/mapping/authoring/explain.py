"""Why each element of a plan came out as it did: the rule, what it read, what was done with it; and the reverse."""

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
    """All that is told of one message: where its event's rule stands, what came out, and why; by which mapping.

    `conditions`: those that no element has: of filters, of resources and what segments list, of moves of a status.
    `lines`: what files say beside elements and conditions, and the message was read by.
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
        """Return what stands behind an element and its parts: `Patient.name` (every name), `birthDate`."""
        wanted = _whole(element)
        return tuple(one for one in self.evidence if _within(one.element, wanted))

    def rules_for(self, element: str) -> tuple[tuple[str, int, str], ...]:
        """Return file, line and text of every rule that may make an element or its parts, asked or not."""
        wanted = _whole(element)
        found = ((scope, one) for scope, one in self.trace.rules if _within(element_of(scope), wanted))
        return tuple(sorted({(*scope.document.place(scope.path), str(one)) for scope, one in found}))

    def elements(self) -> frozenset[str]:
        """Return every element that a rule may make."""
        return frozenset(element_of(scope) for scope, _ in self.trace.rules) - {""}

    def of_field(self, path: str) -> tuple[Evidence, ...]:
        """Return what a field (`PID-7`) or a part of it (`PID-5.1`) went into, or decided."""
        made = (one for one in self.evidence if one.made is not None)
        return tuple(one for one in made if any(_within(source, path) for source in one.sources))


@dataclass(frozen=True, slots=True)
class WatchedMapping:
    """A mapping that is watched: good for one message, as it keeps what it made before."""

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
    """Return how a mapping on a channel, of a file, reads a message; what cannot be mapped is said, never raised."""
    return explained_by(watch(source, channel, file), message)


def explained_by(watched: WatchedMapping, message: Message) -> Explanation:
    """Return how a mapping that is watched reads a message."""
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
    """Return an element with its resource, which is the Patient where it names none."""
    return element if element[:1].isupper() else f"Patient.{element}"


def _within(path: str, wanted: str) -> bool:
    """Say whether a path is the one wanted or below it; what is wanted without an index means every item."""
    if "[" not in wanted and "(" not in wanted:
        path = "".join(part.split("]")[-1] for part in path.replace("(", "[").replace(")", "]").split("["))
    return path == wanted or path.startswith((f"{wanted}.", f"{wanted}[", f"{wanted}("))
