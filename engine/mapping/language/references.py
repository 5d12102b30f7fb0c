"""References of listed resources: to the patient, the visit, and the resources another file makes of the segment."""

from collections.abc import Mapping
from typing import Any, Final

from engine.fhir.plan import ElementChange

SAME: Final = "#~"
WHOLE: Final = frozenset({"#patient", "#encounter"})
Refers = tuple[tuple[int, tuple[str, ...]], ...]


def names_in(value: Any) -> tuple[str, ...]:
    """Return the names in a value that only a plan can resolve."""
    if isinstance(value, dict):
        reference = value.get("reference")
        own = (reference,) if isinstance(reference, str) and _is_name(reference) else ()
        return (*own, *(name for part in value.values() for name in names_in(part)))
    return tuple([name for part in value for name in names_in(part)]) if isinstance(value, list | tuple) else ()


def referring(changes: tuple[ElementChange, ...]) -> Refers:
    """Return the changes with such names, and the names."""
    named = enumerate(names_in(change.items) for change in changes)
    return tuple((number, names) for number, names in named if names)


def _is_name(reference: str) -> bool:
    return reference in WHOLE or reference.startswith(SAME)


def pointed(
    changes: tuple[ElementChange, ...], refers: Refers, place: str, suffix: str, earlier: Mapping[str, str]
) -> tuple[ElementChange, ...]:
    """Return changes with their references resolved in this plan; an unresolved one keeps its display alone.

    `refers`: the changes with such names. `earlier`: the local names of earlier resources of the plan, by these names.
    """

    result = list(changes)
    for number, names in reversed(refers):
        if all(earlier.get(_local(name, place, suffix)) == name[1:] for name in names):
            continue
        change = changes[number]
        items = tuple([made for item in change.items if (made := resolved(item, place, suffix, earlier))])
        result[number : number + 1] = [ElementChange(change.element, change.slice, items, change.many)] if items else []
    return tuple(result)


def placed(value: Any, place: str) -> Any:
    """Return a value whose references to another file's resource name this segment's: `#~X.GT1-2`."""
    if isinstance(value, list):
        return [placed(one, place) for one in value]
    if not isinstance(value, dict):
        return value
    made = {name: placed(part, place) for name, part in value.items()}
    reference = made.get("reference")
    if isinstance(reference, str) and reference.startswith(SAME):
        made["reference"] = f"{reference}.{place}"
    return made


def resolved(value: Any, place: str, suffix: str, earlier: Mapping[str, str]) -> Any:
    """Return a value with its references resolved as in `pointed`."""
    if isinstance(value, list):
        return [made for one in value if (made := resolved(one, place, suffix, earlier))]
    if not isinstance(value, dict):
        return value
    made = {
        name: resolved(part, place, suffix, earlier) if isinstance(part, dict | list) else part
        for name, part in value.items()
    }
    reference = made.get("reference")
    if isinstance(reference, str) and _is_name(reference):
        local = earlier.get(_local(reference, place, suffix))
        if local:
            made["reference"] = f"#{local}"
        else:
            del made["reference"]
    return made


def _local(reference: str, place: str, suffix: str) -> str:
    """Return the local name of a reference for one segment."""
    if not reference.startswith(SAME):
        return reference[1:] + suffix
    named = reference.removeprefix(SAME)
    return named + suffix if "." in named else f"{named}.{place}"
