"""What a compiled template is made of: nodes, each a way to a value, before they are written out as a function.

A `mask` has the bits of the components, or fields, at hand that a node can make something of; where none of them is
filled, it is not asked at all.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from engine.mapping.language.reading import Reading

Step = Callable[[Any, Reading], Any]
"""Takes what is at hand and the reading; returns None where nothing is said, NULL for a deletion, else a value."""
Test = Callable[[Any, Reading], bool]
Apply = Callable[[Any, Reading], Any]


class Word(NamedTuple):
    """A value that stands for itself."""

    value: Any


class Cell(NamedTuple):
    """A component of the repetition at hand."""

    number: int


class Text(NamedTuple):
    """A leaf of a field, without blanks around it: of the segment at hand, or of the first of its name.

    `place` names the field, and is noted where it holds anything; so is, unless `mere` (a condition), that it repeats.
    """

    segment: str
    at_hand: bool
    place: str
    field: int
    component: int
    subcomponent: int
    repetition: int
    mere: bool = False


class Leaf(NamedTuple):
    """A subcomponent of the repetition at hand."""

    component: int
    subcomponent: int


class Whole(NamedTuple):
    """The repetition at hand as cells, or (not 0) a component of it as the cells of a data type of its own."""

    component: int


class Chosen(NamedTuple):
    """The cells of one repetition of a field, or (not 0) of its component: the one of a number, else the first.

    `where`: the first whose component of that number equals a text. That a field repeats is noted where none is chosen.
    """

    segment: str
    at_hand: bool
    place: str
    field: int
    component: int
    repetition: int
    where: int
    equals: str


class Every(NamedTuple):
    """The cells of every repetition of a field."""

    segment: str
    at_hand: bool
    place: str
    field: int


class Each(NamedTuple):
    """An item of each repetition of a field, and further items of the same repetition (`also`)."""

    segment: str
    at_hand: bool
    place: str
    field: int
    item: "Node"
    also: tuple["Node", ...]


class EachSegment(NamedTuple):
    """An item of each segment of a name; `""` in its first field deletes.

    `refers`: items name what another file makes of their segment.
    """

    segment: str
    item: "Node"
    refers: bool


class Defaulted(NamedTuple):
    """An object, and what it lacks of a default's elements (`names`)."""

    node: "Node"
    default: "Node"
    names: frozenset[str]


class Filled(NamedTuple):
    """A list whose first item of use `home`, or else its first, gets what it lacks."""

    items: "Node"
    fill: "Node"


class Asked(NamedTuple):
    """What another function makes of what is at hand: a data type, a resource file."""

    step: Step


class Staged(NamedTuple):
    """A function of what a node finds; of nothing it makes nothing."""

    node: "Node"
    apply: Apply


class Guarded(NamedTuple):
    """A node that says nothing unless the check holds (with `unless`: if it does)."""

    node: "Node"
    check: "Check"
    unless: bool


class Masked(NamedTuple):
    """One of several nodes, with its mask."""

    node: "Node"
    mask: int


class First(NamedTuple):
    """The first of several that has a value, else NULL if any said so."""

    among: tuple[Masked, ...]


class Item(NamedTuple):
    """A list of the one item that a node makes."""

    node: "Node"


class Joined(NamedTuple):
    """The lists of several nodes as one."""

    lists: tuple[Masked, ...]


class Object(NamedTuple):
    """An object: nothing without content, or without any of what it needs.

    What is `fixed` is added to content, and makes no object by itself. `told`: the warning where content is there and
    what it needs is not; empty for none.
    """

    content: tuple[tuple[str, Masked], ...]
    fixed: tuple[tuple[str, "Node"], ...]
    needs: frozenset[str]
    told: str = ""


class Term(NamedTuple):
    """One test of a condition: that a source (EVENT, or a node) is a text, or one of `values`; or is not."""

    source: "Node | str"
    values: frozenset[str]
    negated: bool


class Check(NamedTuple):
    """A condition: alternatives of terms that must all hold."""

    groups: tuple[tuple[Term, ...], ...]


Place = Text | Chosen | Every | Each
Node = (
    Word | Cell | Leaf | Whole | Place | EachSegment | Asked | Staged | Guarded | First | Item | Joined | Object
    | Defaulted | Filled
)  # fmt: skip
