"""What can be told of an alternative before any message: whether it is sure, and which components it reads."""

from collections.abc import Iterable
from functools import reduce

from engine.hl7.cells import BITS, NESTED
from engine.mapping.language.expression import Alternative, Constant, Field, Guard, Head, Part, Term
from engine.mapping.language.kit import Takes
from engine.mapping.language.node import Apply, Asked, Cell, Node, Staged
from engine.mapping.language.reading import EVERYTHING
from engine.mapping.language.steps import Made


def is_sure(one: Alternative) -> bool:
    """Say whether an alternative always has a value, so that none after it is reached."""
    return isinstance(one.head, Constant) and not any(isinstance(stage, Guard) for stage in one.stages)


def masked(one: Alternative, at_hand: str) -> int:
    """Return the mask of an alternative: the field or component at hand that it reads, or everything.

    That of a word is what its first condition needs, if it needs something at hand.
    """
    if not isinstance(one.head, Constant):
        return mask_in(one.head, at_hand)
    guards = [stage for stage in one.stages if isinstance(stage, Guard) and not stage.unless]
    terms = [group[0] for group in guards[0].condition] if guards else []
    return reduce(int.__or__, [_needed(term, at_hand) for term in terms]) if terms else EVERYTHING


def _needed(term: Term, at_hand: str) -> int:
    """Return the mask of what a term needs to hold; everything, where it holds without."""
    if term.negated or isinstance(term.source, str) or "" in term.values:
        return EVERYTHING
    return mask_in(term.source, at_hand)


def mask_in(head: Field | Part, at_hand: str) -> int:
    """Return the mask of a path in the segment or the repetition at hand; everything for a path to elsewhere."""
    if isinstance(head, Field):
        return BITS[head.field] if head.segment == at_hand else EVERYTHING
    if not head.component:
        return EVERYTHING
    return NESTED if head.subcomponent > 1 else BITS[head.component]


def applied(node: Node, head: Head, takes: Takes, apply: Apply) -> Node:
    """Return the first function's node, without a detour where it reads what is at hand."""
    if isinstance(head, Part) and head.subcomponent <= 1:
        if takes is Takes.CELLS and not head.component:
            return Asked(apply)
        if takes is Takes.TEXT:
            return Staged(Cell(head.component or 1), apply)
    return Staged(node, apply)


def any_mask(made: Iterable[Made]) -> int:
    """Return the mask of what can make something of any of several masks; everything, where there is none."""
    masks = [one.mask for one in made]
    return reduce(int.__or__, masks) if masks else EVERYTHING
