"""Literal references in resources: our own addresses made relative, other hosts refused, targets looked up."""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from engine.interchange.outcome import Category, Issue, RefusedError
from engine.interchange.store.transaction import Transaction

Json = Any

KEPT_TYPES: Final = frozenset({"Patient"})


class Reference(NamedTuple):
    """A literal reference: where it stands, and `Type/id`."""

    path: str
    target: str


def normalise_references(resource: dict[str, Json], base_url: str) -> tuple[Reference, ...]:
    """Make absolute references under our own bases relative, in place, and return all; RefusedError for other hosts.

    A reference into the resource itself (`#id`) stays as it is; a URN is no reference to anything here.
    """
    foreign: list[Issue] = []
    found: list[Reference] = []
    for path, holder in _holders(resource, resource["resourceType"]):
        reference = relative(holder["reference"], base_url)
        if reference is None:
            foreign.append(Issue("The reference is not to a resource of this service.", f"{path}.reference"))
        else:
            holder["reference"] = reference
            found.append(Reference(f"{path}.reference", reference))
    if foreign:
        raise RefusedError(Category.UNRESOLVED, tuple(foreign))
    return tuple(found)


def check_references(transaction: Transaction, references: tuple[Reference, ...]) -> None:
    """Refuse references to resources that the tenant does not have, of the types that are kept here."""
    missing = [
        Issue("The reference names a resource that does not exist.", reference.path)
        for reference in references
        if _unresolved(transaction, reference.target)
    ]
    if missing:
        raise RefusedError(Category.UNRESOLVED, tuple(missing))


def repoint(part: Json, source: str, target: str) -> Json:
    """Return a resource, or a part of one, in which every reference to `source` names `target` instead."""
    if isinstance(part, dict):
        return {
            key: target if key == "reference" and value == source else repoint(value, source, target)
            for key, value in part.items()
        }
    if isinstance(part, list):
        return [repoint(item, source, target) for item in part]
    return part


def relative(reference: str, base_url: str) -> str | None:
    """Return a reference as `Type/id` (or `#id`); None where it leads to another host."""
    for base in (f"{base_url}/fhir/R4/", f"{base_url}/fhir/"):
        if reference.startswith(base):
            return reference.removeprefix(base)
    return None if ":" in reference.partition("/")[0] else reference


def _unresolved(transaction: Transaction, reference: str) -> bool:
    type_name, _, resource_id = reference.partition("/")
    return type_name in KEPT_TYPES and transaction.get(type_name, resource_id) is None


def _holders(part: Json, path: str) -> Iterator[tuple[str, dict[str, Json]]]:
    if isinstance(part, dict):
        if isinstance(part.get("reference"), str):
            yield path, part
        for key, value in part.items():
            if isinstance(value, dict | list):
                yield from _holders(value, f"{path}.{key}")
    elif isinstance(part, list):
        for index, item in enumerate(part):
            yield from _holders(item, f"{path}[{index}]")
