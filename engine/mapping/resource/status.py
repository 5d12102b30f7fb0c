"""The status table of a resource file: how an event moves the stored status; the first matching line applies."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from engine.fhir.plan import LocationTrail, StatusMove
from engine.mapping.files.reference import CODES, ReferenceElement, elements, kind_of, listed, nearest
from engine.mapping.language.compiled import is_sure
from engine.mapping.language.dependence import Dependence
from engine.mapping.language.expression import ExpressionError, Guard, parse_expression
from engine.mapping.language.node import Step, Test
from engine.mapping.language.reading import MessageReading
from engine.mapping.language.scope import Scope
from engine.mapping.language.template import Compiler
from engine.mapping.resource.slice_cache import Memo

STATUS_KEYS: Final = frozenset({"element", "moves", "ended", "forgets", "history", "trail"})
TRAIL_KEYS: Final = frozenset({"list", "here", "prior", "arrives", "leaves"})
MOVE_KEYS: Final = frozenset({"when", "to", "new", "only", "never", "reopens", "otherwise"})

_MOMENTS: Final = ("arrives", "leaves")


class StatusLine(NamedTuple):
    """One line of the table: its condition, and its move of the status."""

    fits: Step
    to: Step | None
    new: Step | None
    move: StatusMove


class StatusTable:
    """The lines of one file, with their moves cached by dependence."""

    def __init__(
        self, lines: Sequence[StatusLine], trail: LocationTrail | None, tests: Mapping[str, Test], depends: Dependence
    ) -> None:
        self._lines = lines
        self._trail = trail
        self._tests = tests
        self._moves = Memo(depends, self._read)

    def move(self, reading: MessageReading) -> StatusMove:
        """Return a message's move of the status."""
        move, warnings = self._moves.of(reading)
        reading.warnings += warnings
        return move

    def _read(self, reading: MessageReading) -> tuple[StatusMove, list[str]]:
        own = reading.apart()
        trail, move = self._trail, self._fitting(own)
        if trail is not None:
            arrives, leaves = (key in self._tests and self._tests[key](None, own) for key in _MOMENTS)
            move = move._replace(trail=trail._replace(arrives=arrives, leaves=leaves))
        return move, own.warnings

    def _fitting(self, reading: MessageReading) -> StatusMove:
        """Return the move of the first matching line; a line with a `to` needs a value for it."""
        for line in self._lines:
            if not line.fits(None, reading):
                continue
            to, new = (step(None, reading) if step else None for step in (line.to, line.new))
            if line.to is None or isinstance(to, str):
                goes = to or ""
                return line.move._replace(to=goes, created=new if isinstance(new, str) else goes)
        return self._lines[-1].move


def status_table(compiler: Compiler, scope: Scope, type_: str) -> StatusTable | None:
    """Compile the table of a resource file; None if it has none."""
    value = scope.document.value.get("status")
    if value is None:
        return None
    at = scope.at("status")
    if not isinstance(value, dict) or not isinstance(value.get("moves"), list):
        compiler.problem(at, "no list 'moves'", "write lines such as {when: event = A03, to: \"'finished'\"}")
        return None
    compiler.keys(value, STATUS_KEYS, at)
    name = str(value.get("element") or "status")
    if not compiler.has(type_, name, at.at("element")):
        return None
    element = elements()[type_][name]
    base = StatusMove(
        "",
        "",
        forgets=tuple(listed(value.get("forgets"))),
        ended=_codes(compiler, value.get("ended"), at.at("ended"), element),
        histories=tuple((value.get("history") or {}).items()),
        element=name,
    )
    lines = [_line(compiler, one, at.at("moves", number), element, base) for number, one in enumerate(value["moves"])]
    _reached(compiler, value["moves"], at)
    trail, tests = _trail(compiler, value.get("trail"), at.at("trail"), type_)
    moments = [value["trail"].get(key) for key in tests]
    return StatusTable(lines, trail, tests, compiler.dependence([value["moves"], *moments]))


def _trail(compiler: Compiler, value: Any, scope: Scope, type_: str) -> tuple[LocationTrail | None, dict[str, Test]]:
    """Compile the trail of a resource, and the tests whether an event is an arrival or a departure."""
    if value is None:
        return None, {}
    if not isinstance(value, dict) or not all(value.get(name) for name in ("list", "here", "prior")):
        compiler.problem(scope, "incomplete", "write {list: location, here: PV1-3, prior: PV1-6, arrives: event = A02}")
        return None, {}
    compiler.keys(value, TRAIL_KEYS, scope)
    name = str(value["list"])
    compiler.has(type_, name, scope.at("list"), many=True)
    conditions = {key: compiler.condition(value[key], scope.at(key)) for key in _MOMENTS if value.get(key)}
    guards = {key: Guard(one, unless=False) for key, one in conditions.items() if one is not None}
    tests = {key: compiler.check(one, scope.at(key)).test for key, one in guards.items()}
    return LocationTrail(name, str(value["here"]), str(value["prior"])), tests


def _reached(compiler: Compiler, moves: list[Any], at: Scope) -> None:
    """Note unreachable lines: after one that always applies, or one of the same condition that always has a status."""
    taken: dict[Any, int] = {}
    for number, move in enumerate(moves):
        if not isinstance(move, dict):
            continue
        place, condition = at.at("moves", number), move.get("when")
        before = next((taken[one] for one in (None, condition) if one in taken), None)
        if before is not None:
            line = place.document.place((*at.path, "moves", before))[1]
            compiler.problem(place, "an unreachable line", f"line {line} always matches first; reorder them")
        if _surely(move.get("to")):
            taken.setdefault(condition, number)


def _surely(to: Any) -> bool:
    """True if a matching line always applies: it moves nowhere, or to a literal code."""
    try:
        return to is None or any(is_sure(one) for one in parse_expression(str(to)))
    except ExpressionError:
        return False


def _line(compiler: Compiler, value: Any, scope: Scope, element: ReferenceElement, base: StatusMove) -> StatusLine:
    if not isinstance(value, dict):
        compiler.problem(scope, f"found {kind_of(value)}", "write {when: event = A03, to: \"'finished'\"}")
        return StatusLine(_always, None, None, base)
    compiler.keys(value, MOVE_KEYS, scope)
    tests = compiler.guards({"when": value["when"]}, scope) if "when" in value else []
    steps = [
        compiler.expression(value[key], scope.at(key), element).step if key in value else None for key in ("to", "new")
    ]
    only, never, reopens = (
        _codes(compiler, value.get(key), scope.at(key), element) for key in ("only", "never", "reopens")
    )
    otherwise = str(value.get("otherwise") or "")
    move = base._replace(only=only, never=never, reopens=reopens, otherwise=otherwise)
    return StatusLine(tests[0][0].test if tests else _always, steps[0], steps[1], move)


def _codes(compiler: Compiler, value: Any, scope: Scope, element: ReferenceElement) -> frozenset[str]:
    codes = frozenset(listed(value))
    for code in sorted(codes - element.codes if element.codes else ()):
        compiler.problem(scope, f"the code {code!r}", nearest(code, element.codes, CODES))
    return codes


def _always(_: Any, __: MessageReading) -> bool:
    return True
