"""The coverage of messages by a mapping: unread fields, codes without a row, unused rules and elements."""

import re
from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, NamedTuple

from engine.config.channel import Channel
from engine.config.source import AuthoredFile
from engine.hl7.message import Message
from engine.mapping.authoring.evidence import Evidence, element_names, element_of
from engine.mapping.authoring.local_codes import LocalCodes, MissingCode
from engine.mapping.authoring.outcome import outcome
from engine.mapping.authoring.survey import Survey, name_of
from engine.mapping.authoring.trace import Trace, TracingCompiler
from engine.mapping.authoring.traced import TracedStep
from engine.mapping.authoring.walk import TraceWalk
from engine.mapping.compile import Mapping, MappingSource, compile_mapping
from engine.mapping.language.expression import Alternative, Constant, Guard
from engine.mapping.language.scope import Scope
from engine.mapping.subject.subject import AppliedFilter

INDEX: Final = re.compile(r"\[\d+\]|\(\d+\)")


class Unused(NamedTuple):
    """A rule that never made anything: its place, its text, and its element."""

    file: str
    line: int
    element: str
    rule: str


@dataclass(slots=True)
class Coverage:
    """The findings over all messages so far; counts are of messages, those of codes of occurrences.

    `tables` counts the look-ups by table and field; `local` the codes without a row of every field that the mapping
    looks up, also of resources that are not sent. `file`: the channel's, with its filters.
    """

    source: MappingSource
    channel: Channel
    file: AuthoredFile | None = None
    messages: int = 0
    filters: Counter[AppliedFilter] = field(default_factory=Counter)
    outcomes: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    unread: Counter[str] = field(default_factory=Counter)
    codes: Counter[MissingCode] = field(default_factory=Counter)
    local: Counter[MissingCode] = field(default_factory=Counter)
    tables: Counter[tuple[str, str]] = field(default_factory=Counter)
    produced: set[str] = field(default_factory=set)
    used: set[int] = field(default_factory=set)
    _trace: Trace = field(default_factory=Trace)
    _mapping: Mapping = field(init=False)
    _survey: Survey = field(init=False)
    _bound: LocalCodes = field(init=False)

    def __post_init__(self) -> None:
        self._mapping = compile_mapping(self.source, self.channel, partial(TracingCompiler, self._trace), self.file)
        self.filters.update(dict.fromkeys(self._mapping.filters, 0))
        self._survey = Survey(self._trace, self.source.documents)
        self._bound = LocalCodes(self._trace, self.source)

    def add(self, message: Message) -> dict[str, Any]:
        """Map one message, note its reads, look-ups and elements, and return its outcome."""
        self._trace.begin(message)
        result = outcome(self._mapping, message)
        self.messages += 1
        self.outcomes[message.trigger, result["action"], result["rule"]] += 1
        if "filter" in result:
            self.filters[AppliedFilter(**result["filter"])] += 1
        self.unread.update(one.path for one in self._survey.unread(message))
        self.local.update(self._bound.missing(message))
        for one in TraceWalk(self.source).evidence(self._trace.roots):
            self._note(one)
        for root in self._trace.roots:
            self._visit(root)
        return result

    def missing(self) -> Counter[MissingCode]:
        """Return the codes without a row: of a field with several tables those that the first of them should have."""
        bound = {(one.code, one.field) for one in self.local}
        others = {one: count for one, count in self.codes.items() if (one.code, one.field) not in bound}
        return self.local + Counter(others)

    def never_produced(self) -> list[str]:
        """Return the elements of resource files that no message produced; for a whole one only its name."""
        scopes = [scope for scope, _ in self._trace.rules] + [each.scope for each in self._trace.eaches]
        names = sorted({name for scope in scopes if (name := element_of(scope)) and not _inside(name)})
        return list(dict.fromkeys(self._missing(name) for name in names if name not in self.produced))

    def _missing(self, name: str) -> str:
        """Return the first part of an element that was never produced: `Encounter.length` of `...length.unit`."""
        parts = name.split(".")
        ends = (end for end in range(2, len(parts) + 1) if ".".join(parts[:end]) not in self.produced)
        return ".".join(parts[: next(ends, len(parts))])

    def never_used(self) -> list[Unused]:
        """Return the rules that never made anything, each once, in the order of their places; without constants."""
        unused = {
            Unused(
                *scope.document.place(scope.path),
                element_of(scope) or ".".join(_names(scope)),
                str(one),
            )
            for scope, one in self._trace.rules
            if id(one) not in self.used and (not isinstance(one.head, Constant) or _guarded(one))
        }
        return sorted(unused)

    def unread_named(self) -> list[tuple[str, str, int]]:
        """Return the unread fields: path, the standard's name and the number of messages, the most frequent first."""
        return [(path, name_of(path), count) for path, count in _most(self.unread)]

    def _note(self, one: Evidence) -> None:
        if one.made is None:
            return
        names = INDEX.sub("", one.element).split(".")
        self.produced.update(".".join(names[:end]) for end in range(2, len(names) + 1))
        for row in one.rows:
            self.tables[row.table, one.field] += 1
            if row.unmapped:
                self.codes[MissingCode(row.table, row.code, one.field)] += 1

    def _visit(self, node: TracedStep) -> None:
        if node.rule is not None and node.value is not None:
            self.used.add(id(node.rule))
        for child in node.children:
            self._visit(child)


def _guarded(one: Alternative) -> bool:
    return any(isinstance(stage, Guard) for stage in one.stages)


def _most(counts: Counter[str]) -> list[tuple[str, int]]:
    return sorted(counts.items(), key=lambda one: (-one[1], one[0]))


def _names(scope: Scope) -> tuple[str, ...]:
    return element_names(scope.document, scope.path)


def _inside(name: str) -> bool:
    return any(part in {"identity", "key", "new"} for part in name.split("."))
