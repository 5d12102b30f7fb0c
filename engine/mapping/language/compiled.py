"""Compiled values: their nodes and static properties; alternatives, objects and lists."""

from collections.abc import Iterable
from functools import reduce
from typing import Any, Final, NamedTuple

from engine.fhir.period import REVERSED, is_reversed
from engine.hl7.segment import BITS, NESTED
from engine.mapping.language.compared import CompiledCondition
from engine.mapping.language.composite import FirstNode, Guarded, Joined, Masked, Object, Staged
from engine.mapping.language.expression import Alternative, Constant, Guard, Head, RepetitionPath, SegmentPath, Term
from engine.mapping.language.function_context import Takes
from engine.mapping.language.node import Apply, Called, ComponentNode, Step, ValueNode, Word, function_of
from engine.mapping.language.reading import EVERYTHING, MessageReading


class Compiled(NamedTuple):
    """A compiled value: its node, its mask, and whether it can come out without anything in the message (`fixed`).

    `names`: the elements of an object. `always`: to be evaluated even if all that it reads is empty, because it may
    make something by itself.
    """

    node: ValueNode
    fixed: bool = False
    mask: int = EVERYTHING
    names: frozenset[str] = frozenset()
    always: bool = True

    @property
    def step(self) -> Step:
        """The node as a function."""
        return function_of(self.node)


NOTHING: Final = Compiled(Word(None), mask=0)


def first_of(made: tuple[Compiled, ...], *, held: bool) -> ValueNode:
    """Return a node for the first of several that has a value."""
    return FirstNode(tuple(_masked(one, held=held) for one in made))


def guarded(node: ValueNode, checks: list[tuple[CompiledCondition, bool]]) -> ValueNode:
    """Return a node without a value unless each check differs from its second part (`unless`)."""
    for check, unless in checks:
        node = Guarded(node, check, unless)
    return node


def object_of(made: list[tuple[str, Compiled]], needs: frozenset[str], warning: str, *, held: bool) -> ValueNode:
    """Return a node for an object; words come last in it. `warning`: the warning if it lacks an element it needs."""
    content = tuple((name, _masked(one, held=held)) for name, one in made if not one.fixed)
    fixed = [(name, one.node) for name, one in made if one.fixed]
    return Object(content, tuple(sorted(fixed, key=lambda one: isinstance(one[1], Word))), needs, warning)


def joined(made: tuple[Compiled, ...], *, held: bool) -> ValueNode:
    """Return a node that joins the lists of others."""
    return made[0].node if len(made) == 1 else Joined(tuple(_masked(one, held=held) for one in made))


def _masked(one: Compiled, *, held: bool) -> Masked:
    return Masked(one.node, one.mask if held else EVERYTHING)


def forward(period: ValueNode) -> ValueNode:
    """Return a node that drops a period which ends before it begins, with a warning."""
    return Staged(period, _forward)


def _forward(period: Any, reading: MessageReading) -> Any:
    return reading.warn(REVERSED) if is_reversed(period) else period


def is_sure(one: Alternative) -> bool:
    """True if an alternative always has a value, so that none after it is reached."""
    return isinstance(one.head, Constant) and not any(isinstance(stage, Guard) for stage in one.stages)


def masked(one: Alternative, at_hand: str) -> int:
    """Return the mask of an alternative: the field or component at hand that it reads, or everything.

    A word has the mask of its first condition, if that reads something at hand.
    """
    if not isinstance(one.head, Constant):
        return mask_in(one.head, at_hand)
    guards = [stage for stage in one.stages if isinstance(stage, Guard) and not stage.unless]
    terms = [group[0] for group in guards[0].condition] if guards else []
    return reduce(int.__or__, [_needed(term, at_hand) for term in terms]) if terms else EVERYTHING


def _needed(term: Term, at_hand: str) -> int:
    """Return the mask of the fields that a term needs to hold; everything if it needs none."""
    if term.negated or isinstance(term.source, str) or ("" in term.values and not term.unlike):
        return EVERYTHING
    return mask_in(term.source, at_hand)


def mask_in(head: SegmentPath | RepetitionPath, at_hand: str) -> int:
    """Return the mask of a path in the segment or the repetition at hand; everything for a path to elsewhere."""
    if isinstance(head, SegmentPath):
        return BITS[head.field] if head.segment == at_hand else EVERYTHING
    if not head.component:
        return EVERYTHING
    return NESTED if head.subcomponent > 1 else BITS[head.component]


def applied(node: ValueNode, head: Head, takes: Takes, apply: Apply) -> ValueNode:
    """Return the first function's node, inlined where it reads the part at hand."""
    if isinstance(head, RepetitionPath) and head.subcomponent <= 1:
        if takes is Takes.CELLS and not head.component:
            return Called(apply)
        if takes is Takes.TEXT:
            return Staged(ComponentNode(head.component or 1), apply)
    return Staged(node, apply)


def any_mask(made: Iterable[Compiled]) -> int:
    """Return the union of the masks of several values; everything if there are none."""
    masks = [one.mask for one in made]
    return reduce(int.__or__, masks) if masks else EVERYTHING
