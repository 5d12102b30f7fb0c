"""Made values, and how they are put together: alternatives, objects and lists, in the three states of a leaf."""

from typing import Any, Final, NamedTuple

from engine.fhir.period import REVERSED, is_reversed
from engine.hl7.leaf import NULL, Null
from engine.mapping.language.expression import Field
from engine.mapping.language.function import function_of
from engine.mapping.language.node import Check, First, Guarded, Joined, Masked, Node, Object, Step, Word
from engine.mapping.language.pointing import placed
from engine.mapping.language.reading import EVERYTHING, Cells, Reading


class Made(NamedTuple):
    """A compiled value: its node, whether it can come out without anything in the message (`fixed`), and its mask.

    `names`: the elements of an object. `always`: to be asked even where nothing of what it reads is there, for it may
    make something by itself.
    """

    node: Node
    fixed: bool = False
    mask: int = EVERYTHING
    names: frozenset[str] = frozenset()
    always: bool = True

    @property
    def step(self) -> Step:
        """The node as a function."""
        return function_of(self.node)


NOTHING: Final = Made(Word(None), mask=0)


def first_of(made: tuple[Made, ...], *, held: bool) -> Node:
    """Return a node for the first of several that has a value."""
    return First(tuple(_masked(one, held=held) for one in made))


def guarded(node: Node, checks: list[tuple[Check, bool]]) -> Node:
    """Return a node that says nothing unless each check comes out other than its second part (`unless`)."""
    for check, unless in checks:
        node = Guarded(node, check, unless)
    return node


def object_of(made: list[tuple[str, Made]], needs: frozenset[str], told: str, *, held: bool) -> Node:
    """Return a node for an object; words come last in it. `told`: the warning where it lacks what it needs."""
    content = tuple((name, _masked(one, held=held)) for name, one in made if not one.fixed)
    fixed = [(name, one.node) for name, one in made if one.fixed]
    return Object(content, tuple(sorted(fixed, key=lambda one: isinstance(one[1], Word))), needs, told)


def joined(made: tuple[Made, ...], *, held: bool) -> Node:
    """Return a node that joins the lists of others."""
    return made[0].node if len(made) == 1 else Joined(tuple(_masked(one, held=held) for one in made))


def _masked(one: Made, *, held: bool) -> Masked:
    return Masked(one.node, one.mask if held else EVERYTHING)


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
        if reading.repeat in text:
            reading.whole.append(place)
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
        if items and null is not None:
            reading.warnings.append(f"deletion-within-list {name}")
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


def forward(period: Step) -> Step:
    """Return a step that makes no period which ends before it begins, with a warning."""

    def step(scope: Any, reading: Reading) -> Any:
        found = period(scope, reading)
        return reading.warn(REVERSED) if is_reversed(found) else found

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
