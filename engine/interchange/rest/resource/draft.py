"""A body on its way into the store: read in the client's version, kept in R4's shape, judged once conflicts are out."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from engine.fhir.json import JsonObject
from engine.fhir.schema import FhirVersion
from engine.fhir.versions.names import name_in
from engine.interchange.core.exchange import FhirRequest
from engine.interchange.core.service import Service
from engine.interchange.kernel.outcome import Category, RefusedError, refuse
from engine.interchange.kernel.view import to_stored, tolerated
from engine.interchange.rest.binary.patient_compartment import owners
from engine.interchange.rest.resource.context import outside_compartment
from engine.interchange.rest.resource.definition import Definition
from engine.interchange.rest.resource.items import named
from engine.interchange.rest.resource.projection import SUBSETTED, TAG_SYSTEMS
from engine.interchange.rest.resource.targets import Stray, check_strays, find_strays
from engine.interchange.store.references import (
    Reference,
    attachments_in,
    check_references,
    local_target,
    normalise_references,
)
from engine.interchange.store.transaction import StoredVersion, Transaction

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
        for one in attachments_in(self.resource) - before:
            binary = transaction.get("Binary", local_target(one).removeprefix("Binary/"))
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
    if not any(one.get("code") == SUBSETTED and one.get("system") in TAG_SYSTEMS.values() for one in tags):
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
