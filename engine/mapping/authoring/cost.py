"""The maximum cost of a mapping, by static analysis of its files: steps, look-ups, resources and requests.

The language has no loops: a line runs once, or once for each segment or repetition that it iterates, whose number the
channel's `limits` bound; in the worst case all of them have the name or the field with the costliest lines. Only a
line that iterates all segments of a name within another iteration grows with the square of the message; `mappings
check` warns of such lines.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from engine.config.listener_settings import Limits
from engine.errors import Problem
from engine.mapping.compile import PATIENT, MappingSource
from engine.mapping.files.document import Document, Problems
from engine.mapping.files.overlay import FIELD
from engine.mapping.files.reference import listed
from engine.mapping.language.expression import (
    ExpressionError,
    FunctionCall,
    Guard,
    parse_condition,
    parse_expression,
    parse_path,
)
from engine.mapping.language.function_context import Takes
from engine.mapping.language.functions import FUNCTIONS
from engine.mapping.resource.grouping import UNDER
from engine.mapping.resource.listing import SINGLE
from engine.mapping.resource.lists import SEGMENTS
from engine.mapping.resource.provenance import TARGET
from engine.mapping.resource.referred import FROM, KINDS
from engine.mapping.subject.events import ALONE, BARE, EventAction, EventRule, EventTable, make_event_table

# The steps of one file above which there is a warning: three times those of the costliest shipped file.
MOST_STEPS: Final = 20_000_000
# Requests for one patient and for one resource, without conflicts and retries: look up, write, verify.
FOR_PATIENT: Final = 3
FOR_IDENTITY: Final = 6
FOR_RESOURCE: Final = 2
# Sections of a resource file that have lines, and keys of a part without a cost.
SECTIONS: Final = ("elements", "new", "status", "merged", "missing", "when")
FREE: Final = frozenset({"each", "as", "needs", "slice", "with", "led_by", "list", "same_key", "within", "like"})
CONDITIONS: Final = frozenset({"when", "unless", "arrives", "leaves"})


class MessageLimits(NamedTuple):
    """The maximum of segments, repetitions and patients of one message."""

    segments: int
    repetitions: int
    patients: int


class Work(NamedTuple):
    """Steps, look-ups in tables, and resources."""

    steps: int = 0
    lookups: int = 0
    resources: int = 0

    def plus(self, other: "Work", times: int = 1) -> "Work":
        """Return the sum with a multiple of another."""
        return Work(*(mine + theirs * times for mine, theirs in zip(self, other, strict=True)))


@dataclass(slots=True)
class Cost:
    """The maximum cost of a file or an event.

    `units`: the work for one unit, by the maximum of units and the iterated source (nothing: once).
    `squares`: the lines that grow with the square of a message.
    """

    lines: int = 0
    units: dict[tuple[int, str], Work] = field(default_factory=dict)
    squares: list[Problem] = field(default_factory=list)

    def note(self, at: "CostContext", work: Work) -> None:
        """Add the work of one unit."""
        key = (at.times, at.source)
        self.units[key] = self.units.get(key, Work()).plus(work)

    def add(self, other: "Cost", patients: int) -> None:
        """Add another cost; single work is repeated for each patient."""
        self.lines += other.lines
        self.squares += other.squares
        for (times, source), work in other.units.items():
            self.note(CostContext(times * patients if times == 1 else times, source), work)

    @property
    def most(self) -> Work:
        """The work for the worst message: all single work, and for each maximum the costliest unit."""
        worst: dict[int, Work] = {}
        total = Work()
        for (times, source), work in self.units.items():
            if not source:
                total = total.plus(work, times)
            else:
                worst[times] = Work(*map(max, worst.get(times, Work()), work))
        for times, work in worst.items():
            total = total.plus(work, times)
        return total


class EventCost(NamedTuple):
    """The maximum cost of one event, with the resource types that it may send."""

    event: str
    rule: str
    types: tuple[str, ...]
    cost: Cost
    requests: int


class CostContext(NamedTuple):
    """The context of a line: how often it runs and for what, the segment at hand, and the segments of its group."""

    times: int = 1
    source: str = ""
    segment: str = ""
    belonging: frozenset[str] = frozenset()


class Costs:
    """The costs of a checked mapping; `bounds` of the messages, by default those of a channel."""

    def __init__(self, source: MappingSource, bounds: MessageLimits | None = None) -> None:
        limits = Limits()
        self.bounds = bounds or MessageLimits(limits.segments, limits.repetitions, limits.identities)
        self._documents = source.documents
        self._makers = dict(self._functions())
        self.files = {name: self._file(document) for name, document in sorted(source.documents.resources.items())}
        self.events = tuple(self._events(make_event_table(source.documents.events, Problems())))

    def warnings(self) -> tuple[Problem, ...]:
        """Return warnings of lines that grow with the square of a message, and of files above the limit."""
        warned = [one for cost in self.files.values() for one in cost.squares]
        for name, cost in self.files.items():
            steps = cost.most.steps
            if steps > MOST_STEPS and not cost.squares:
                text = f"{steps:,} steps in the worst case, more than {MOST_STEPS:,}"
                warned.append(
                    self._documents.resources[name].problem((), text, "see `mappings check --cost`; map less")
                )
        return tuple(sorted(warned))

    def _functions(self) -> Iterator[tuple[str, tuple[Document, Any]]]:
        """Yield the names that files call like functions, with their templates."""
        for name, document in self._documents.resources.items():
            if FROM in document.value:
                yield name, (document, {key: one for key, one in document.value.items() if key != KINDS})
                yield from ((kind, (document, part)) for kind, part in (document.value.get(KINDS) or {}).items())

    def _file(self, document: Document) -> Cost:
        """Return the cost of a file used by events, lists or every message; none for a file that others name."""
        cost, value = Cost(), document.value
        if FROM in value:
            return cost
        if SEGMENTS not in value:
            cost.note(CostContext(), Work(resources=1))
            for section in (*SECTIONS, *(["key"] if TARGET in value else [])):
                self._walk(value.get(section), CostContext(), cost, document, (section,))
            return cost
        for name, part in value[SEGMENTS].items():
            if not isinstance(part, dict):
                continue
            segment = name.partition(UNDER)[0]
            below = {one.partition(UNDER)[0] for one in value[SEGMENTS] if one.endswith(f"{UNDER}{name}")}
            belonging = frozenset({segment, *listed(part.get("with")), *listed(part.get("led_by")), *below})
            count = 1 if segment in SINGLE else self.bounds.segments
            # A segment belongs to one of the parts of its name: the maximum is one of them, not their sum.
            at = CostContext(count, name if count > 1 else "", segment, belonging | self._grouped(name))
            cost.note(at, Work(resources=1))
            self._walk(part, at, cost, document, (name,))
        return cost

    def _grouped(self, parent: str) -> set[str]:
        """Return the segments that another file groups under a segment: the OBX of an OBR."""
        parts = (resource.value.get(SEGMENTS) or {} for resource in self._documents.resources.values())
        return {name.partition(UNDER)[0] for part in parts for name in part if name.endswith(f"{UNDER}{parent}")}

    def _walk(self, value: Any, at: CostContext, cost: Cost, document: Document, path: tuple[Any, ...]) -> None:
        """Add the cost of an authored value."""
        if isinstance(value, str):
            self._line(value, at, cost, conditional=path[-1] in CONDITIONS)
        elif isinstance(value, list):
            for number, one in enumerate(value):
                self._walk(one, at, cost, document, (*path, number))
        elif isinstance(value, dict):
            for source in listed(value["each"]) if "each" in value else [""]:
                inner = self._through(source, at, cost, document, (*path, "each")) if source else at
                if "|" in str(value.get("as")):
                    self._line(str(value["as"]), inner, cost, conditional=False)
                elif "as" in value:
                    self._datatype(str(value["as"]), inner, cost)
                for key, one in value.items():
                    if key not in FREE:
                        self._walk(one, inner, cost, document, (*path, key))

    def _through(
        self, source: str, at: CostContext, cost: Cost, document: Document, path: tuple[Any, ...]
    ) -> CostContext:
        """Return the context of the lines of an `each`."""
        match = FIELD.fullmatch(source)
        name, bound = (match[1], self.bounds.repetitions) if match else (source, self.bounds.segments)
        if at.times == 1 or name in at.belonging or (match and name == at.segment):
            apart = f"{source} of {at.source}" if UNDER in at.source else source
            return CostContext(bound, apart, at.segment if match else name, at.belonging)
        found = f"all of {source} for each {at.segment or 'repetition'}"
        expected = (
            "it grows with the square of a message; name what belongs to a segment by 'with', or map it elsewhere"
        )
        cost.squares.append(document.problem(_authored(document, path), found, expected))
        return CostContext(at.times * bound, f"{at.source} {source}", at.segment, at.belonging)

    def _line(self, text: str, at: CostContext, cost: Cost, *, conditional: bool) -> None:
        """Add the cost of an expression or a condition: a step for its path, and one for each stage and term."""
        try:
            if conditional:
                self._steps(cost, at, sum(map(len, parse_condition(text))))
                return
            alternatives = parse_expression(text)
        except ExpressionError:
            return  # a word of the file that is not a line: a note, a code
        for alternative in alternatives:
            self._steps(cost, at, 1 + len(alternative.stages))
            for stage in alternative.stages:
                if isinstance(stage, Guard):
                    cost.note(at, Work(sum(map(len, stage.condition))))
                else:
                    self._call(stage, at, cost)

    def _call(self, call: FunctionCall, at: CostContext, cost: Cost) -> None:
        function = FUNCTIONS.get(call.name)
        if function is not None:
            keys = sum(parse_path(word) is not None for word in call.arguments) if function.tables[1] else 0
            cost.note(at, Work(keys, len(call.arguments) - keys if function.tables[1] else 0))
            if function.takes is Takes.ALL:
                cost.note(CostContext(self.bounds.repetitions, f"{call.name} {at.source}"), Work(1))
        elif call.name in self._makers:
            document, part = self._makers[call.name]
            levels = part.get("levels") or [part]
            cost.note(at, Work(resources=len(levels)))
            self._walk([level.get(key) for level in levels for key in ("identity", "elements")], at, cost, document, ())
        else:
            self._datatype(call.name, at, cost)

    def _datatype(self, name: str, at: CostContext, cost: Cost) -> None:
        own = self._documents.datatypes.get(name)
        if own is not None:
            self._walk([own.value.get(key) for key in ("elements", "value", "also")], at, cost, own, ())

    def _steps(self, cost: Cost, at: CostContext, steps: int) -> None:
        """Add the steps of one line."""
        cost.lines += 1
        cost.note(at, Work(steps))

    def _events(self, table: EventTable) -> Iterator[EventCost]:
        for event, rule in table.rules.items():
            if rule.action in {EventAction.SKIP, EventAction.UNHANDLED}:
                continue
            several = rule.each or rule.merges or rule.moves or rule.action in ALONE
            patients = self.bounds.patients if several else 1
            types = tuple(dict.fromkeys((PATIENT, *self._types(rule, table))))
            total = Cost()
            for name in types:
                total.add(self.files.get(name, Cost()), patients)
            for_each = FOR_IDENTITY if rule.action in ALONE else FOR_PATIENT
            requests = patients * for_each + (total.most.resources - patients) * FOR_RESOURCE
            yield EventCost(event, rule.name, types, total, requests)

    def _types(self, rule: EventRule, table: EventTable) -> Iterator[str]:
        """Yield the types other than the Patient that an event may send."""
        yield from (act.type_ for act in rule.acts)
        values = {name: one.value for name, one in self._documents.resources.items() if name in table.sent}
        named = any(SEGMENTS in values.get(act.type_, ()) for act in rule.acts)
        for name, value in values.items():
            lists = SEGMENTS in value and not named and rule.action not in ALONE | BARE
            along = value.get("along") == "yes" and rule.action not in ALONE | BARE
            if lists or along or TARGET in value:
                yield name


def _authored(document: Document, path: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return a path as a file has it: the parts of a segment are under `segments`."""
    return (SEGMENTS, *path) if path and path[0] in (document.value.get(SEGMENTS) or ()) else path
