"""A body on its way into the store: read in the client's version, kept in R4's shape, its references' types judged."""

import asyncio
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from engine.fhir.json import JsonObject
from engine.fhir.r4 import target_types
from engine.fhir.schema import FhirVersion
from engine.fhir.versions.names import name_in, r4_name
from engine.interchange.core.exchange import FhirRequest
from engine.interchange.core.service import Service
from engine.interchange.kernel.exact import read_resource
from engine.interchange.kernel.outcome import Category, Issue, RefusedError, refuse
from engine.interchange.kernel.view import to_stored, to_version, tolerated
from engine.interchange.rest.binary.content import owners
from engine.interchange.rest.resource.context import outside_compartment
from engine.interchange.rest.resource.definition import Definition
from engine.interchange.rest.resource.projection import SUBSETTED, TAG_SYSTEMS
from engine.interchange.store.references import (
    Reference,
    attachments_in,
    check_references,
    local_target,
    normalise_references,
    placed_references,
)
from engine.interchange.store.transaction import StoredVersion, Transaction

QUESTIONNAIRE: Final = "Questionnaire"
MISSING: Final = "missing-field"


def named(body: JsonObject) -> JsonObject:
    """Return a body in which each item that has one of the two names has both; any other body stays as it is."""
    if not isinstance(body, dict) or body.get("resourceType") != QUESTIONNAIRE:
        return body
    return _named(body)


def unnamed_items(body: JsonObject) -> Iterator[Issue]:
    """Yield the items of a Questionnaire in its right shape that have neither name."""
    for path, item in _items(body, QUESTIONNAIRE):
        if "linkId" not in item:
            yield Issue(f"{path}.linkId: a required element is missing.", f"{path}.linkId", MISSING)


def check_items(body: JsonObject) -> RefusedError | None:
    """Return the refusal (422) of items of a valid Questionnaire: two names, that of another, a blank; else None."""
    seen: set[str] = set()
    wrong: list[Issue] = []
    for path, item in _items(body, QUESTIONNAIRE):
        name = item["linkId"]
        if item.get("id") != name:
            wrong.append(Issue("linkId and id of an item must be the same.", f"{path}.linkId"))
        if any(map(str.isspace, name)):
            text = "A linkId is the id of its item too, and an id has no blanks: write it without, as 1.1-c."
            wrong.append(Issue(text, f"{path}.linkId"))
        if name in seen:
            wrong.append(Issue("Another item of the Questionnaire has this linkId.", f"{path}.linkId"))
        seen.add(name)
    return RefusedError(Category.INVALID, tuple(wrong)) if wrong else None


def _named(part: JsonObject) -> JsonObject:
    items = part.get("item")
    if not isinstance(items, list):
        return part
    return {**part, "item": [_item(item) if isinstance(item, dict) else item for item in items]}


def _item(item: JsonObject) -> JsonObject:
    name = item.get("linkId", item.get("id"))
    return _named({"id": name, "linkId": name, **item} if name is not None else item)


def _items(part: JsonObject, path: str) -> Iterator[tuple[str, JsonObject]]:
    """Yield every item with its place, those within it behind it."""
    for index, item in enumerate(part.get("item", ())):
        place = f"{path}.item[{index}]"
        yield place, item
        yield from _items(item, place)


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


Check = Callable[[JsonObject, FhirVersion], RefusedError | None]
# Returns the resource to keep, or refuses. Its arguments are the client's resource, and the live one that it replaces
# (None for a new one, whose id is in the request).
Settle = Callable[[Service, Transaction, FhirRequest, JsonObject, StoredVersion | None], JsonObject]


def unchanged(
    _service: Service,
    _transaction: Transaction,
    _request: FhirRequest,
    resource: JsonObject,
    _live: StoredVersion | None,
) -> JsonObject:
    """Return a resource as it came in, for a type without a rule of its own."""
    return resource


@dataclass(frozen=True, slots=True)
class DraftResource:
    """A resource as it came in, in the kept shape; `invalid` is the refusal whose turn comes after conflicts."""

    resource: JsonObject
    invalid: RefusedError | None
    references: tuple[Reference, ...]
    strays: tuple[Stray, ...]
    version: FhirVersion
    within: tuple[str, ...] = ()

    def judge(self, transaction: Transaction, stored: StoredVersion | None = None) -> None:
        """Raise what makes the body unprocessable (422); `stored` is the resource that it replaces or brings back."""
        if self.invalid is not None:
            raise self.invalid
        check_references(transaction, self.references, stored)
        check_strays(self.strays, None if stored is None or stored.deleted else stored, self.version)
        if self.within:
            self._check_attached(transaction, stored)

    def _check_attached(self, transaction: Transaction, stored: StoredVersion | None) -> None:
        """Refuse (403) to attach content of others, to which the token for one patient would so come."""
        before = attachments_in(stored.resource()) if stored is not None and not stored.deleted else set()
        for attachment in attachments_in(self.resource) - before:
            binary = transaction.get("Binary", local_target(attachment).removeprefix("Binary/"))
            if binary is None or binary.deleted:
                continue
            whose = owners(transaction, binary.id, binary.resource())
            if not whose or not whose <= {*self.within}:
                raise outside_compartment()


async def read_draft(service: Service, request: FhirRequest, check: Check) -> DraftResource:
    """Return the body of a request as a draft; RefusedError for one that is malformed or incomplete."""
    if request.large:
        return await asyncio.to_thread(make_draft, service, request, check)
    return make_draft(service, request, check)


def make_draft(service: Service, request: FhirRequest, check: Check) -> DraftResource:
    """Do the work of `read_draft` in the calling thread."""
    body = named(tolerated(request.body, request.version))
    invalid = check(body, request.version)
    references: tuple[Reference, ...] = ()
    try:
        references = normalise_references(body, service.configuration.base_url)
    except RefusedError as refusal:
        invalid = invalid or refusal
    invalid = invalid or _of_a_part(body)
    strays = find_strays(body, references, request.version)
    return DraftResource(to_stored(body, request.version), invalid, references, strays, request.version, request.within)


def _of_a_part(body: JsonObject) -> RefusedError | None:
    """Return the refusal of what a client has read in part (`_elements`, `_summary`): it would lose all the rest."""
    tags = body.get("meta", {}).get("tag", [])
    if not any(tag.get("code") == SUBSETTED and tag.get("system") in TAG_SYSTEMS.values() for tag in tags):
        return None
    text = "This is a part of a resource (SUBSETTED): read the whole, and write that."
    return refuse(Category.RULE, text, location=f"{body['resourceType']}.meta.tag")


def check_chart(definition: Definition, resource: JsonObject, version: FhirVersion) -> None:
    """Refuse a resource of a chart whose subject is no patient (422): nobody would find it."""
    if definition.charted and not resource[definition.patient]["reference"].startswith("Patient/"):
        location = f"{name_in(version, definition.name)}.{definition.patient}.reference"
        raise refuse(Category.INVALID, "The reference must be to a Patient.", location=location)


def check_status(definition: Definition, resource: JsonObject, version: FhirVersion) -> None:
    """Refuse a new resource with a status that only an update may bring (422)."""
    if definition.statuses and resource.get("status") not in definition.statuses:
        text = f"status must be one of: {', '.join(sorted(definition.statuses))}."
        raise refuse(Category.INVALID, text, location=f"{name_in(version, definition.name)}.status")
