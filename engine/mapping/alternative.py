"""What can be told of an alternative before any message: whether it is sure, and which components it reads."""

from engine.mapping.expression import Alternative, Call, Constant, Guard, Head, Part
from engine.mapping.functions import FUNCTIONS
from engine.mapping.getter import Step
from engine.mapping.kit import Takes
from engine.mapping.reading import NESTED
from engine.mapping.steps import Apply, staged, staged_part


def is_sure(one: Alternative) -> bool:
    """Say whether an alternative always has a value, so that none after it is reached."""
    return isinstance(one.head, Constant) and not any(isinstance(stage, Guard) for stage in one.stages)


def reach_of(one: Alternative) -> int:
    """Return the least component that an alternative can make something of; 0 where it reads no component."""
    head = one.head
    if not isinstance(head, Part):
        return 0
    return NESTED + head.component if head.subcomponent > 1 else head.component


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
