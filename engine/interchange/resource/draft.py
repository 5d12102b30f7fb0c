"""A body on its way into the store: read in the client's version, kept in R4's shape, judged once conflicts are out."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from engine.fhir.schema import FhirVersion
from engine.interchange.exchange import Request
from engine.interchange.outcome import Category, RefusedError, refuse
from engine.interchange.references import Reference, check_references, local_target, normalise_references
from engine.interchange.resource.definition import Definition
from engine.interchange.service import Service
from engine.interchange.store.transaction import Transaction
from engine.interchange.versions.view import kept, tolerated

Json = Any
Check = Callable[[Json, FhirVersion], RefusedError | None]


@dataclass(frozen=True, slots=True)
class Draft:
    """A resource as it came in, in the kept shape; `invalid` is the refusal whose turn comes after conflicts."""

    resource: dict[str, Json]
    invalid: RefusedError | None
    references: tuple[Reference, ...]

    def judge(self, transaction: Transaction) -> None:
        """Raise what makes the body unprocessable (422)."""
        if self.invalid is not None:
            raise self.invalid
        check_references(transaction, self.references)


def read_draft(service: Service, request: Request, check: Check) -> Draft:
    """Return the body of a request as a draft; RefusedError for one that is malformed or incomplete."""
    body = tolerated(request.body, request.version)
    invalid = check(body, request.version)
    resource = kept(body, request.version)
    references: tuple[Reference, ...] = ()
    try:
        references = normalise_references(resource, service.configuration.base_url)
    except RefusedError as refusal:
        invalid = invalid or refusal
    return Draft(resource, invalid, references)


def check_chart(transaction: Transaction, definition: Definition, resource: dict[str, Json]) -> None:
    """Refuse a resource for the chart of a patient who was merged away (422)."""
    holder = resource.get(definition.patient, {}) if definition.charted else {}
    type_name, _, patient_id = local_target(holder.get("reference", "")).partition("/")
    stored = transaction.get(type_name, patient_id) if type_name == "Patient" else None
    if stored is not None and stored.survivor is not None:
        text = f"Patient/{stored.id} was merged into Patient/{stored.survivor}."
        location = f"{definition.name}.{definition.patient}"
        raise refuse(Category.RULE, text, location=location, detail="already-merged")
