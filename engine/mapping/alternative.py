"""What can be told of an alternative before any message: whether it is sure, and which components it reads."""

from engine.mapping.expression import Alternative, Call, Constant, Field, Guard, Head, Part
from engine.mapping.functions import FUNCTIONS
from engine.mapping.getter import Step
from engine.mapping.kit import Takes
from engine.mapping.reading import EVERYTHING, NESTED, mask_of
from engine.mapping.steps import Apply, staged, staged_part


def is_sure(one: Alternative) -> bool:
    """Say whether an alternative always has a value, so that none after it is reached."""
    return isinstance(one.head, Constant) and not any(isinstance(stage, Guard) for stage in one.stages)


def masked(one: Alternative, at_hand: str) -> int:
    """Return the mask of an alternative: the field or component at hand that it reads, or everything."""
    return EVERYTHING if isinstance(one.head, Constant) else mask_in(one.head, at_hand)


def mask_in(head: Field | Part, at_hand: str) -> int:
    """Return the mask of a path in the segment or the repetition at hand; everything for a path to elsewhere."""
    if isinstance(head, Field):
        return mask_of(head.field) if head.segment == at_hand else EVERYTHING
    if not head.component:
        return EVERYTHING
    return NESTED if head.subcomponent > 1 else mask_of(head.component)


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
