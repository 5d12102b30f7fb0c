"""Replaces the references within a plan (`#encounter`) by those of the resources on the server."""

from collections.abc import Iterable, Mapping
from typing import Any

from engine.errors import HeldDeliveryError
from engine.fhir.plan import LOCAL, ElementChange


def resolved(changes: Iterable[ElementChange], references: Mapping[str, str]) -> tuple[ElementChange, ...]:
    """Return changes with every local reference replaced; the given ones are not altered.

    Raises HeldDeliveryError `unresolved-reference` for one that the plan does not have.
    """
    return tuple([_change(one, references) if one.refers else one for one in changes])


def _change(change: ElementChange, references: Mapping[str, str]) -> ElementChange:
    """Return a change with its references replaced; the same object while a shared change refers to the same."""
    targets = tuple([references.get(name) for name in change.refers])
    last = change.resolved_as
    if last is not None and last[0] == targets:
        return last[1]
    items = tuple([_value(item, references) for item in change.items])
    resolved_change = ElementChange(change.element, change.slice, items, change.many)
    change.resolved_as = targets, resolved_change
    return resolved_change


def _value(value: Any, references: Mapping[str, str]) -> Any:
    if isinstance(value, dict):
        reference = value.get("reference")
        if isinstance(reference, str) and reference.startswith(LOCAL):
            if reference[1:] not in references:
                raise HeldDeliveryError("unresolved-reference")
            return {**value, "reference": references[reference[1:]]}
        made = {name: _value(part, references) for name, part in value.items()}
        return value if all(made[name] is value[name] for name in value) else made
    if isinstance(value, list):
        items = [_value(part, references) for part in value]
        return value if all(one is other for one, other in zip(items, value, strict=True)) else items
    return value
