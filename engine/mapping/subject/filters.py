"""Filters: by a condition and a named rule, a message is filtered, refused, or sent to some servers only.

The channel file and the event file have them, in the same words; they apply in this order, before the event's rule.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from engine.config.channel import MOST_FILTERS
from engine.config.channel import Filter as Authored
from engine.config.source import AuthoredFile
from engine.hl7.message import Message
from engine.mapping.files.document import Document
from engine.mapping.files.reference import kind_of
from engine.mapping.language.comparison import covers, never_holds
from engine.mapping.language.expression import Condition, Guard
from engine.mapping.language.node import Test
from engine.mapping.language.reading import MessageReading
from engine.mapping.language.scope import Scope
from engine.mapping.language.template import Compiler
from engine.mapping.subject.events import EventAction, EventRule
from engine.mapping.subject.subject import AppliedFilter

FILTERS: Final = "filters"
SEND_TO: Final = "send_to"
FILTER_KEYS: Final = frozenset({"rule", "when", "do"})
DOES: Final = {"filter": EventAction.SKIP, "refuse": EventAction.REFUSE}
# The action of a channel's filter that sends a message on.
SENDS: Final = "send"
SHAPE: Final = "write {rule: NAME, when: CONDITION, do: filter}"


class CompiledFilter(NamedTuple):
    """One line: the filter applied to a message that meets the condition; `rule` is None if it is sent on."""

    applied: AppliedFilter
    rule: EventRule | None
    condition: Condition
    holds: Test


def compile_filters(compiler: Compiler, document: Document) -> tuple[CompiledFilter, ...]:
    """Compile the filters of an event file, in their order; invalid ones are noted and left out."""
    lines = document.value.get(FILTERS) or []
    scope = Scope(document, (FILTERS,))
    if not isinstance(lines, list) or len(lines) > MOST_FILTERS:
        found = f"{len(lines)} lines" if isinstance(lines, list) else kind_of(lines)
        compiler.problem(scope, f"found {found}", f"expected a list of at most {MOST_FILTERS} lines")
        return ()
    sound = [number for number, line in enumerate(lines) if _is_sound(compiler, line, scope.at(number))]
    return _compiled(compiler, lines, sound, scope)


def compile_channel_filters(
    compiler: Compiler, filters: Sequence[Authored], file: AuthoredFile
) -> tuple[CompiledFilter, ...]:
    """Compile the filters of a channel, in their order; faults are noted in the channel's file."""
    lines = [one.model_dump() for one in filters]
    return _compiled(compiler, lines, range(len(lines)), Scope(Document(file, {FILTERS: lines}), (FILTERS,)))


def note_impossible(compiler: Compiler, condition: Condition, scope: Scope) -> bool:
    """Note a condition that never holds; return whether it is one."""
    impossible = never_holds(condition)
    if impossible:
        expected = "two parts of it exclude each other: take one out"
        compiler.problem(scope, "a condition that never holds", expected)
    return impossible


def first_of(filters: Sequence[CompiledFilter], message: Message) -> CompiledFilter | None:
    """Return the first filter that holds for a message; None if none does."""
    if not filters:
        return None
    reading = MessageReading(message, message.groups, None, "")
    return next((one for one in filters if one.holds(None, reading)), None)


def decided(events: Document, message: Message, held: Mapping[str, Any] | None) -> tuple[str, int]:
    """Return the file and line that decide on a message: of the filter that ends it, or else of its event.

    `held`: the filter that held, as a map.
    """
    if held and held["does"] != SENDS:
        return str(held["file"]), int(held["line"])
    named = message.trigger in (events.value.get("events") or {})
    return events.place(("events", message.trigger) if named else ("others",))


def _is_sound(compiler: Compiler, line: Any, scope: Scope) -> bool:
    """True if a line of an event file is complete; missing parts are noted."""
    if not isinstance(line, dict):
        compiler.problem(scope, f"found {kind_of(line)}", SHAPE)
        return False
    if SEND_TO in line:
        compiler.problem(scope.at(SEND_TO), "send_to in an event file", "take it out: destinations are a channel's")
    compiler.keys(line, FILTER_KEYS | {SEND_TO}, scope)
    missing = [name for name in ("rule", "when", "do") if not line.get(name)]
    if missing:
        compiler.problem(scope, f"no {missing[0]!r}", SHAPE)
        return False
    if str(line["do"]) not in DOES:
        compiler.problem(scope.at("do"), f"found {line['do']!r}", "expected filter or refuse")
        return False
    return True


def _compiled(
    compiler: Compiler, lines: Sequence[Any], numbers: Sequence[int], scope: Scope
) -> tuple[CompiledFilter, ...]:
    compiled: list[CompiledFilter] = []
    for number in numbers:
        one = _filter(compiler, lines[number], scope.at(number))
        if one is None:
            continue
        impossible = note_impossible(compiler, one.condition, scope.at(number, "when"))
        if not impossible and (earlier := _covering(compiled, one)):
            expected = f"{earlier.rule} in line {earlier.line} always holds first; reorder them, or remove one"
            compiler.problem(scope.at(number, "when"), "a filter that is never reached", expected)
        compiled.append(one)
    return tuple(compiled)


def _covering(made: Sequence[CompiledFilter], one: CompiledFilter) -> AppliedFilter | None:
    """Return an earlier filter that holds wherever a later one does."""
    return next((other.applied for other in made if covers(other.condition, one.condition)), None)


def _filter(compiler: Compiler, line: Any, scope: Scope) -> CompiledFilter | None:
    """Compile one line; None, and a problem, if its condition is invalid."""
    condition = compiler.condition(line["when"], scope.at("when"))
    if condition is None:
        return None
    name, do, send_to = str(line["rule"]), line.get("do"), tuple(line.get(SEND_TO) or ())
    applied = AppliedFilter(name, str(do or SENDS), send_to, *scope.document.place(scope.path))
    rule = EventRule(name, DOES[str(do)]) if do else None
    return CompiledFilter(
        applied, rule, condition, compiler.check(Guard(condition, unless=False), scope.at("when")).test
    )
