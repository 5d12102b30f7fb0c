"""Steps put together: stages, guards, objects and lists, in the three states of a leaf.

A `mask` has the bits of the components that a step can make something of; where none of them is filled in the cells
at hand, it is not asked at all.
"""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from engine.hl7.leaf import NULL, Null
from engine.mapping.expression import Field
from engine.mapping.getter import Step, Test
from engine.mapping.pointing import placed
from engine.mapping.reading import EVERYTHING, Cells, Reading

Apply = Callable[[Any, Reading], Any]


class Made(NamedTuple):
    """A compiled value: its step, whether it can come out without anything in the message (`fixed`), and its mask.

    `part`: the value is that component of the cells at hand, read in place instead of by the step, and then given to
    `apply`, if there is one. `constant`: it is always that text. `item`: the step of the one item, where the step
    itself makes a list of it. `names`: the elements of an object. `always`: to be asked even where nothing of what it
    reads is there, for it may make something by itself.
    """

    step: Step
    fixed: bool = False
    mask: int = EVERYTHING
    part: int = 0
    apply: Apply | None = None
    constant: str | None = None
    item: Step | None = None
    names: frozenset[str] = frozenset()
    always: bool = True


class Entry(NamedTuple):
    """One element of an object template, as of `Made`."""

    name: str
    mask: int
    part: int
    apply: Apply | None
    step: Step


NOTHING: Final = Made(lambda _, __: None, mask=0)


def first_of(made: tuple[Made, ...], *, held: bool) -> Step:
    """Return a step that tries others in turn: the first value, else NULL if any said so."""
    asked = tuple((one.step, one.mask) for one in made)

    def step(scope: Any, reading: Reading) -> Any:
        null: Null | None = None
        filled = scope.filled if held else EVERYTHING
        for one, mask in asked:
            if not mask & filled:
                continue
            value = one(scope, reading)
            if value is NULL:
                null = NULL
            elif value is not None:
                return value
        return null

    return step


def staged(inner: Step, made: Apply) -> Step:
    """Return a step that applies a function to what another step finds."""

    def step(scope: Any, reading: Reading) -> Any:
        value = inner(scope, reading)
        return value if value is None or value is NULL else made(value, reading)

    return step


def staged_part(part: int, made: Apply) -> Step:
    """Return a step that applies a function to a component of the cells at hand."""
    index = part - 1

    def step(scope: Any, reading: Reading) -> Any:
        first = scope.first
        value = first[index] if index < len(first) else None
        if value:
            return made(value, reading)
        return value if value is NULL else None

    return step


def guarded(inner: Step, tests: list[tuple[Test, bool]]) -> Step:
    """Return a step that says nothing unless each test comes out other than its second part (`unless`)."""
    for test, unless in tests:
        inner = _guarded(inner, test, unless)
    return inner


def _guarded(inner: Step, test: Test, unless: bool) -> Step:
    return lambda scope, reading: None if test(scope, reading) is unless else inner(scope, reading)


def object_step(made: list[tuple[str, Made]], needs: frozenset[str], *, held: bool) -> Step:
    """Return a step that makes an object: nothing without content or without one of what it needs.

    What is fixed is added to content, and makes no object by itself.
    """
    constants: dict[str, Any] = {name: one.constant for name, one in made if one.constant is not None}
    content = tuple(Entry(name, one.mask, one.part, one.apply, one.step) for name, one in made if not one.fixed)
    fixed = tuple((name, one.step) for name, one in made if one.fixed and one.constant is None)
    if len(content) == 1 and not fixed and not needs:
        one = content[0]
        return _single_part(one, constants) if one.part and held else _single(one, constants)
    return _several(content, fixed, constants, needs, held=held) if content else _constant(fixed, constants)


def _several(
    content: tuple[Entry, ...],
    fixed: tuple[tuple[str, Step], ...],
    constants: dict[str, Any],
    needs: frozenset[str],
    *,
    held: bool,
) -> Step:
    def step(scope: Any, reading: Reading) -> Any:
        item: dict[str, Any] = {}
        null: Null | None = None
        filled = scope.filled if held else EVERYTHING
        for name, mask, part, apply, one in content:
            if not mask & filled:
                continue
            if part:
                value = scope.first[part - 1]
                if value and apply is not None:
                    value = apply(value, reading)
            else:
                value = one(scope, reading)
            if value is NULL:
                null = NULL
            elif value is not None:
                item[name] = value
        if not item or (needs and needs.isdisjoint(item)):
            return null
        for name, one in fixed:
            value = one(scope, reading)
            if value is not None and value is not NULL:
                item[name] = value
        if constants:
            item.update(constants)
        return item

    return step


def _single(content: Entry, constants: dict[str, Any]) -> Step:
    name, inner = content.name, content.step

    def step(scope: Any, reading: Reading) -> Any:
        value = inner(scope, reading)
        return value if value is None or value is NULL else {name: value, **constants}

    return step


def _single_part(content: Entry, constants: dict[str, Any]) -> Step:
    name, index, apply = content.name, content.part - 1, content.apply

    def step(scope: Any, reading: Reading) -> Any:
        first = scope.first
        value = first[index] if index < len(first) else None
        if not value:
            return NULL if value is NULL else None
        if apply is not None:
            value = apply(value, reading)
        return value if value is None or value is NULL else {name: value, **constants}

    return step


def _constant(fixed: tuple[tuple[str, Step], ...], constants: dict[str, Any]) -> Step:
    def step(scope: Any, reading: Reading) -> Any:
        return {**_values(fixed, scope, reading), **constants} or None

    return step


def _values(steps: tuple[tuple[str, Step], ...], scope: Any, reading: Reading) -> dict[str, Any]:
    values = [(name, one(scope, reading)) for name, one in steps]
    return {name: value for name, value in values if value is not None and value is not NULL}


def listed(inner: Step) -> Step:
    """Return a step that makes a list of the one item of another."""

    def step(scope: Any, reading: Reading) -> Any:
        value = inner(scope, reading)
        return value if value is None or value is NULL else [value]

    return step


def joined(made: tuple[Made, ...], *, held: bool) -> Step:
    """Return a step that joins the lists of others."""
    if all(one.part and one.apply is None for one in made):
        return _parts(tuple(one.part for one in made))
    if len(made) == 1:
        return made[0].step
    asked = tuple((one.item or one.step, one.mask, one.item is not None) for one in made)

    def step(scope: Any, reading: Reading) -> Any:
        items: list[Any] = []
        null: Null | None = None
        filled = scope.filled if held else EVERYTHING
        for one, mask, alone in asked:
            if not mask & filled:
                continue
            value = one(scope, reading)
            if value is NULL:
                null = NULL
            elif alone and value is not None:
                items.append(value)
            elif value is not None:
                items += value
        return items or null

    return step


def _parts(parts: tuple[int, ...]) -> Step:
    def step(scope: Any, _: Reading) -> Any:
        first, count = scope.first, len(scope.first)
        items = [value for part in parts if part <= count and (value := first[part - 1])]
        if items:
            return items
        return NULL if any(first[part - 1] is NULL for part in parts if part <= count) else None

    return step


def each_field(head: Field, segment_at_hand: str, item: Step, also: tuple[Step, ...]) -> Step:
    """Return a step that makes an item of each repetition of a field."""
    name, number, own = head.segment, head.field, head.segment == segment_at_hand
    place = f"{name}-{number}"

    def step(scope: Any, reading: Reading) -> Any:
        segment = scope if own else reading.first.get(name)
        if segment is None:
            return None
        text = segment.field(number)
        if not text:
            return None
        reading.place = place
        if text == '""':
            return NULL
        items: list[Any] = []
        null: Null | None = None
        for cells in segment.cells(number):
            value = item(cells, reading)
            if value is NULL:
                null = NULL
            elif value is not None:
                items.append(value)
                if also:
                    items += _more(also, cells, reading)
        if items and null is not None:
            reading.warn("deletion-within-list")
        return items or null

    return step


def _more(also: tuple[Step, ...], cells: Cells, reading: Reading) -> list[Any]:
    return [item for one in also if isinstance(item := one(cells, reading), dict)]


def each_segment(name: str, item: Step, *, refers: bool = False) -> Step:
    """Return a step that makes an item of each segment of a name; `""` in the first field deletes.

    `refers`: items name what another file makes of their segment.
    """

    def step(_: Any, reading: Reading) -> Any:
        segments = reading.all.get(name)
        if segments is None:
            return None
        items: list[Any] = []
        null: Null | None = None
        for number, segment in enumerate(segments, 1):
            reading.place = name
            value = NULL if segment.is_null(1) else item(segment, reading)
            if value is NULL:
                null = NULL
            elif value is not None:
                items.append(placed(value, f"{name}-{number}") if refers else value)
        return items or null

    return step


def defaulted(item: Step, default: Made) -> Step:
    """Return a step that adds to an item what it lacks."""
    make, names = default.step, default.names

    def step(scope: Any, reading: Reading) -> Any:
        found = item(scope, reading)
        if isinstance(found, dict) and not names <= found.keys():
            extra = make(scope, reading)
            if isinstance(extra, dict):
                return {**extra, **found}
        return found

    return step


def filled(items: Step, fill: Step) -> Step:
    """Return a step that adds to the first item of use `home`, or else to the first, what it lacks."""

    def step(at_hand: Any, reading: Reading) -> Any:
        found = items(at_hand, reading)
        if isinstance(found, list):
            extra = fill(at_hand, reading)
            if isinstance(extra, dict):
                index = next((number for number, item in enumerate(found) if item.get("use") == "home"), 0)
                found[index] = {**extra, **found[index]}
        return found

    return step
