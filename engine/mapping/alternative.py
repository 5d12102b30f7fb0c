"""What can be told of an alternative before any message: whether it is sure, and which components it reads."""

from collections.abc import Iterable
from functools import reduce

from engine.hl7.cells import BITS, NESTED
from engine.mapping.expression import Alternative, Call, Constant, Field, Guard, Head, Part, Term
from engine.mapping.functions import FUNCTIONS
from engine.mapping.getter import Step
from engine.mapping.kit import Takes
from engine.mapping.reading import EVERYTHING
from engine.mapping.steps import Apply, Made, staged, staged_part


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


def applied(step: Step, head: Head, takes: Takes, apply: Apply) -> Step:
    """Return the first function's step, without a detour where it reads what is at hand."""
    if isinstance(head, Part) and head.subcomponent <= 1:
        if takes is Takes.CELLS and not head.component:
            return apply
        if takes is Takes.TEXT:
            return staged_part(head.component or 1, apply)
    return staged(step, apply)


def plain_part(one: Alternative) -> int:
    """Return the component that an alternative reads as it is or through one function of texts; 0 for any other."""
    head, stages = one.head, one.stages
    if not isinstance(head, Part) or head.subcomponent > 1 or len(stages) > 1:
        return 0
    if not stages:
        return head.component
    call = stages[0]
    text = isinstance(call, Call) and call.name in FUNCTIONS and FUNCTIONS[call.name].takes is Takes.TEXT
    return head.component if text else 0


def any_mask(made: Iterable[Made]) -> int:
    """Return the mask of what can make something of any of several masks; everything, where there is none."""
    masks = [one.mask for one in made]
    return reduce(int.__or__, masks) if masks else EVERYTHING
