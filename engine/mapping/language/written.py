"""Expressions written out again, as an author would write them."""

from engine.mapping.language.expression import Alternative, Call, Condition, Constant, Field, Guard, Head, Part, Term


def written_head(head: Head) -> str:
    """Return a path as it is written, or a constant in quotes."""
    if isinstance(head, Constant):
        return f"'{head.value}'"
    return written_field(head) if isinstance(head, Field) else written_part(head)


def written_field(head: Field) -> str:
    """Return a path into a segment, such as `PID-3[CX.5=MR].1`."""
    choice = f"({head.repetition})" if head.repetition else ""
    if head.where:
        choice = f"[{head.type_}.{head.where}={head.equals}]"
    return f"{head.segment}-{head.field}{choice}{_below(head.component, head.subcomponent)}"


def written_part(head: Part) -> str:
    """Return a path into the repetition at hand, such as `CX.4.1`."""
    return head.type_ + _below(head.component, head.subcomponent)


def written_call(call: Call) -> str:
    """Return a function with its arguments."""
    return f"{call.name}({' '.join(call.arguments)})" if call.arguments else call.name


def written_alternative(one: Alternative) -> str:
    """Return one alternative of an expression: its head and stages."""
    stages = (_guard(stage) if isinstance(stage, Guard) else written_call(stage) for stage in one.stages)
    return " | ".join((written_head(one.head), *stages))


def written_condition(condition: Condition) -> str:
    """Return a condition, such as `XTN.2 = NET and not XTN.1`."""
    return " or ".join(" and ".join(_term(term) for term in group) for group in condition)


def _below(component: int, subcomponent: int) -> str:
    return "".join(f".{number}" for number in (component, subcomponent) if number)


def _guard(guard: Guard) -> str:
    return f"{'unless' if guard.unless else 'when'} {written_condition(guard.condition)}"


def _term(term: Term) -> str:
    source = term.source if isinstance(term.source, str) else written_head(term.source)
    if not term.values:
        return f"not {source}" if term.negated else source
    if len(term.values) == 1:
        return f"{source} {'!=' if term.negated else '='} {term.values[0]}"
    return f"{source} {'not in' if term.negated else 'in'} ({', '.join(term.values)})"
