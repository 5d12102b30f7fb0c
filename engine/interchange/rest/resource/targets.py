"""References to a resource of a type that their element does not allow (specification, Errors: FHIR validation)."""

import re
from typing import Final, NamedTuple

from engine.fhir.json import JsonObject
from engine.fhir.r4 import target_types
from engine.fhir.schema import FhirVersion
from engine.fhir.versions.names import name_in, r4_name
from engine.interchange.kernel.exact import read_resource
from engine.interchange.kernel.outcome import Category, Issue, RefusedError
from engine.interchange.kernel.view import to_version
from engine.interchange.store.references import Reference, placed_references
from engine.interchange.store.transaction import StoredVersion

INDEX: Final = re.compile(r"\[\d+\]")
# Targets allowed here although HL7's definitions do not list them: a result may name the order as a whole.
MORE: Final = {"DiagnosticReport.basedOn": {"RequestGroup"}, "Observation.basedOn": {"RequestGroup"}}
WITHIN: Final = re.compile(r"\w+\.contained\[(\d+)\]")


class Stray(NamedTuple):
    """A reference to a type that its element does not allow: where, the element without indices, and what it names."""

    path: str
    element: str
    target: str
    type: str
    allowed: frozenset[str]


def find_strays(resource: JsonObject, references: tuple[Reference, ...], version: FhirVersion) -> tuple[Stray, ...]:
    """Return those of a resource's references, made relative, that name a wrong type in its version.

    A reference into the resource is judged by the type of what is contained.
    """
    if not references:
        return ()
    contained = {f"#{part.get('id')}": str(part["resourceType"]) for part in resource.get("contained", ())}
    types = {"#": str(resource["resourceType"]), **contained}
    found: list[Stray] = []
    for path, target in references:
        element = _element(resource, path)
        allowed = target_types(version, element)
        if not allowed:
            continue
        type_name = types.get(target) or name_in(version, r4_name(target.partition("/")[0]))
        allowed |= MORE.get(element, set())
        if type_name not in allowed:
            found.append(Stray(path, element, target, type_name, allowed))
    return tuple(found)


def check_strays(strays: tuple[Stray, ...], stored: StoredVersion | None, version: FhirVersion) -> None:
    """Refuse references to a wrong type (422).

    Only the changes to `stored` are judged: a reference that the other version allows, or that is stored already, can
    be written back unchanged.
    """
    if not strays:
        return
    before = _known(stored, version) if stored is not None else set()
    wrong = tuple(
        Issue(f"A reference to {one.type} is not allowed here, only to: {', '.join(sorted(one.allowed))}.", one.path)
        for one in strays
        if (one.element, one.target, one.type) not in before
    )
    if wrong:
        raise RefusedError(Category.INVALID, wrong)


def _known(stored: StoredVersion, version: FhirVersion) -> set[tuple[str, str, str]]:
    resource = read_resource(to_version(stored.body, stored.type, version))
    strays = find_strays(resource, placed_references(resource), version)
    return {(one.element, one.target, one.type) for one in strays}


def _element(resource: JsonObject, path: str) -> str:
    """Return the path of a Reference without indices; within a contained resource, from that one on."""
    holder = path.removesuffix(".reference")
    within = WITHIN.match(holder)
    if within:
        holder = resource["contained"][int(within[1])]["resourceType"] + holder[within.end() :]
    return INDEX.sub("", holder)
