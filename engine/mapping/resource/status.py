"""The status table of a resource file: which event moves the stored status where; the first line that fits holds."""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from engine.fhir.plan import StatusMove, Trail
from engine.mapping.files.reference import Element, elements, nearest
from engine.mapping.language.expression import ExpressionError, parse_expression
from engine.mapping.language.function import condition_of
from engine.mapping.language.made import is_sure
from engine.mapping.language.node import Step
from engine.mapping.language.reading import Reading, Sources
from engine.mapping.language.scope import Scope
from engine.mapping.language.template import Compiler
from engine.mapping.resource.slice_cache import SliceCache
from engine.mapping.resource.slices import sources_of

STATUS_KEYS: Final = frozenset({"element", "moves", "ended", "forgets", "history", "trail"})
TRAIL_KEYS: Final = frozenset({"list", "here", "prior", "arrives", "leaves"})
MOVE_KEYS: Final = frozenset({"when", "to", "new", "only", "never", "reopens", "otherwise"})

_MOMENTS: Final = ("arrives", "leaves")

Judge = Callable[[Reading], StatusMove]


class Line(NamedTuple):
    """One line of the table: whether it fits, and what it makes of the status."""

    fits: Step
    to: Step | None
    new: Step | None
    move: StatusMove


def status_table(compiler: Compiler, scope: Scope, type_: str) -> Judge | None:
    """Compile the table of a resource file; None where it has none."""
    value = scope.document.value.get("status")
    if value is None:
        return None
    at = scope.at("status")
    if not isinstance(value, dict) or not isinstance(value.get("moves"), list):
        compiler.problem(at, "no list 'moves'", "write lines such as {when: event = A03, to: \"'finished'\"}")
        return None
    _known(compiler, value, STATUS_KEYS, at)
    name = str(value.get("element") or "status")
    element = elements()[type_].get(name)
    if element is None:
        compiler.problem(at.at("element"), f"{type_} has no element {name!r}", nearest(name, elements()[type_]))
        return None
    base = StatusMove(
        "",
        "",
        forgets=tuple(_words(value.get("forgets"))),
        ended=_codes(compiler, value.get("ended"), at.at("ended"), element),
        histories=tuple((value.get("history") or {}).items()),
        element=name,
    )
    lines = [_line(compiler, one, at.at("moves", number), element, base) for number, one in enumerate(value["moves"])]
    _reached(compiler, value["moves"], at)
    judge = _on_its_way(compiler, value.get("trail"), at.at("trail"), type_, _judge(tuple(lines)))
    trail = value.get("trail") or {}
    return _remembered(judge, sources_of([value["moves"], *(trail[key] for key in _MOMENTS if key in trail)]))


def _remembered(judge: Judge, sources: Sources) -> Judge:
    """Return what judges the same, and asks once for an event, its day and the texts that the lines read."""
    cache: SliceCache[tuple[StatusMove, list[str]]] = SliceCache()

    def judged(reading: Reading) -> StatusMove:
        (known,) = cache.of(reading)
        key = (reading.event, reading.today, reading.key(sources))
        kept = known.get(key)
        if kept is None:
            own = reading.apart()
            kept = known.keep_if_again(key, (judge(own), own.warnings))
        move, warnings = kept
        reading.warnings += warnings
        return move

    return judged


def _on_its_way(compiler: Compiler, value: Any, scope: Scope, type_: str, judge: Judge) -> Judge:
    """Return what judges a status and says, too, whether the event tells of an arrival in a place or of leaving it."""
    if value is None:
        return judge
    if not isinstance(value, dict) or not all(value.get(name) for name in ("list", "here", "prior")):
        compiler.problem(scope, "not whole", "write {list: location, here: PV1-3, prior: PV1-6, arrives: event = A02}")
        return judge
    _known(compiler, value, TRAIL_KEYS, scope)
    known = elements()[type_]
    name = str(value["list"])
    if name not in known or not known[name].many:
        compiler.problem(scope.at("list"), f"{type_} has no list {name!r}", nearest(name, known))
    checks = {key: compiler.guards({"when": value[key]}, scope.at(key))[0][0] for key in _MOMENTS if value.get(key)}
    tests = {key: condition_of(check) for key, check in checks.items()}
    base = Trail(name, str(value["here"]), str(value["prior"]))

    def judged(reading: Reading) -> StatusMove:
        arrives, leaves = (key in tests and tests[key](None, reading) for key in _MOMENTS)
        return judge(reading)._replace(trail=base._replace(arrives=arrives, leaves=leaves))

    return judged


def _reached(compiler: Compiler, moves: list[Any], at: Scope) -> None:
    """Note lines behind one that always holds, or behind one of the same condition that never passes on."""
    taken: dict[Any, int] = {}
    for number, move in enumerate(moves):
        if not isinstance(move, dict):
            continue
        place, condition = at.at("moves", number), move.get("when")
        before = next((taken[one] for one in (None, condition) if one in taken), None)
        if before is not None:
            line = place.document.place((*at.path, "moves", before))[1]
            compiler.problem(place, "a line that is never reached", f"line {line} takes all of it; reorder them")
        if _surely(move.get("to")):
            taken.setdefault(condition, number)


def _surely(to: Any) -> bool:
    """Say whether a line that fits always holds: it moves nowhere, or to a code that is written out."""
    try:
        return to is None or any(is_sure(one) for one in parse_expression(str(to)))
    except ExpressionError:
        return False


def _judge(lines: tuple[Line, ...]) -> Judge:
    def judge(reading: Reading) -> StatusMove:
        for fits, to, new, move in lines:
            if not fits(None, reading):
                continue
            moved, made = (step(None, reading) if step else None for step in (to, new))
            if to is not None and not isinstance(moved, str):
                continue
            goes = moved if isinstance(moved, str) else ""
            return move._replace(to=goes, created=made if isinstance(made, str) else goes)
        return lines[-1].move

    return judge


def _line(compiler: Compiler, value: Any, scope: Scope, element: Element, base: StatusMove) -> Line:
    if not isinstance(value, dict):
        compiler.problem(scope, f"found {value!r}", "write {when: event = A03, to: \"'finished'\"}")
        return Line(_always, None, None, base)
    _known(compiler, value, MOVE_KEYS, scope)
    tests = compiler.guards({"when": value["when"]}, scope) if "when" in value else []
    steps = [
        compiler.expression(value[key], scope.at(key), element).step if key in value else None for key in ("to", "new")
    ]
    only, never, reopens = (
        _codes(compiler, value.get(key), scope.at(key), element) for key in ("only", "never", "reopens")
    )
    otherwise = str(value.get("otherwise") or "")
    move = base._replace(only=only, never=never, reopens=reopens, otherwise=otherwise)
    return Line(condition_of(tests[0][0]) if tests else _always, steps[0], steps[1], move)


def _codes(compiler: Compiler, value: Any, scope: Scope, element: Element) -> frozenset[str]:
    codes = frozenset(_words(value))
    for code in sorted(codes - element.codes if element.codes else ()):
        compiler.problem(scope, f"the code {code!r}", nearest(code, element.codes))
    return codes


def _words(value: Any) -> list[str]:
    return [str(one) for one in value] if isinstance(value, list) else [] if value is None else [str(value)]


def _known(compiler: Compiler, value: dict[str, Any], keys: frozenset[str], scope: Scope) -> None:
    for key in value:
        if key not in keys:
            compiler.problem(scope.at(key), f"unknown key {key!r}", nearest(key, keys))


def _always(_: Any, __: Reading) -> bool:
    return True
