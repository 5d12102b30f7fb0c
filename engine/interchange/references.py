"""Literal references in resources: our own addresses made relative, other hosts refused, targets looked up."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from engine.interchange.outcome import Category, Issue, RefusedError
from engine.interchange.store.transaction import Transaction
from engine.interchange.versions.names import r4_name

Json = Any


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
    """Refuse references to resources that the tenant does not have."""
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
            key: target if key == "reference" and _names(value, source) else repoint(value, source, target)
            for key, value in part.items()
        }
    if isinstance(part, list):
        return [repoint(item, source, target) for item in part]
    return part


def _names(reference: Json, target: str) -> bool:
    return isinstance(reference, str) and local_target(reference) == target


def relative(reference: str, base_url: str) -> str | None:
    """Return a reference as `Type/id` (or `#id`), with R4's name of the type; None where it leads to another host."""
    for base in (f"{base_url}/fhir/R4/", f"{base_url}/fhir/"):
        reference = reference.removeprefix(base)
    type_name, slash, rest = reference.partition("/")
    return None if ":" in type_name else f"{r4_name(type_name)}{slash}{rest}"


def references_in(resource: dict[str, Json]) -> set[str]:
    """Return every literal reference in a resource, however deep."""
    return {holder["reference"] for _, holder in _holders(resource, "")}


def local_target(reference: str) -> str:
    """Return what a relative reference names, as `Type/id` without a version; '' for one into the resource itself."""
    return "" if reference.startswith("#") else reference.partition("/_history/")[0]


def _unresolved(transaction: Transaction, reference: str) -> bool:
    target = local_target(reference)
    type_name, _, resource_id = target.partition("/")
    return bool(target) and transaction.get(type_name, resource_id) is None


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
