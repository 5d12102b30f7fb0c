"""Filters: what a message says decides, before its event does, that it is filtered or refused by a named rule."""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from engine.hl7.message import Message
from engine.mapping.files.document import Document, Key
from engine.mapping.language.check import kind_of
from engine.mapping.language.node import Test
from engine.mapping.language.reading import Reading
from engine.mapping.language.scope import Scope
from engine.mapping.language.template import Compiler
from engine.mapping.subject.events import Doing, Rule

FILTERS: Final = "filters"
FILTER_KEYS: Final = frozenset({"rule", "when", "do"})
DOES: Final = {"filter": Doing.SKIP, "refuse": Doing.REFUSE}
MOST: Final = 50


class Filter(NamedTuple):
    """One line: the rule that holds for a message of which the condition does."""

    rule: Rule
    holds: Test


def compile_filters(compiler: Compiler, document: Document) -> tuple[Filter, ...]:
    """Compile the filters of an event file, in their order; what is wrong is noted, and left out."""
    lines = document.value.get(FILTERS) or []
    scope = Scope(document, (FILTERS,))
    if not isinstance(lines, list) or len(lines) > MOST:
        found = f"{len(lines)} lines" if isinstance(lines, list) else kind_of(lines)
        compiler.problem(scope, f"found {found}", f"expected a list of at most {MOST} lines")
        return ()
    made = (_filter(compiler, line, scope.at(number)) for number, line in enumerate(lines))
    return tuple([one for one in made if one is not None])


def first_of(filters: Sequence[Filter], message: Message) -> Rule | None:
    """Return the rule of the first filter that holds for a message; None where none does."""
    reading = Reading(message, message.groups, None, "")
    return next((one.rule for one in filters if one.holds(None, reading)), None)


def decided(events: dict[str, Any], message: Message, rule: str) -> tuple[Key, ...]:
    """Return where the event file says what is done with a message: in a filter of the rule's name, or its event."""
    for number, one in enumerate(events.get(FILTERS) or ()):
        if one["rule"] == rule:
            return FILTERS, number
    return ("events", message.trigger) if message.trigger in (events.get("events") or {}) else ("others",)


def _filter(compiler: Compiler, line: Any, scope: Scope) -> Filter | None:
    if not isinstance(line, dict):
        compiler.problem(scope, f"found {kind_of(line)}", "write {rule: NAME, when: CONDITION, do: filter}")
        return None
    compiler.keys(line, FILTER_KEYS, scope)
    missing = [name for name in ("rule", "when", "do") if not line.get(name)]
    if missing:
        compiler.problem(scope, f"no {missing[0]!r}", "write {rule: NAME, when: CONDITION, do: filter}")
        return None
    do = DOES.get(str(line["do"]))
    if do is None:
        compiler.problem(scope.at("do"), f"found {line['do']!r}", "expected filter or refuse")
    checks = compiler.guards({"when": line["when"]}, scope)
    if do is None or not checks:
        return None
    return Filter(Rule(str(line["rule"]), do), checks[0][0].test)
