"""DocumentReference/$p360-retrieve: a job that gathers a patient's record from all sources."""

from functools import partial
from typing import Final

from engine.fhir.json import Json, JsonObject
from engine.fhir.schema import FhirVersion
from engine.interchange.core.exchange import FhirRequest, HttpAnswer, Interaction, InteractionLevel, RequiredAccess
from engine.interchange.core.service import Service
from engine.interchange.jobs.asking import ask
from engine.interchange.kernel.outcome import Category, Issue, RefusedError, refuse, unsupported
from engine.interchange.network.patient360.retrieve import KIND
from engine.interchange.store.references import local_target, relative
from engine.interchange.store.search.page import FORMAT
from engine.interchange.store.transaction import StoredVersion, Transaction
from engine.interchange.tokens.role import RoleRule

NAME: Final = "patient"
# The scope that suffices in place of those of all types (specification, Scopes); `patient360` reads only.
SCOPES: Final = frozenset({"patient.write"})


async def retrieve(service: Service, request: FhirRequest) -> HttpAnswer:
    """Answer POST, or GET, /DocumentReference/$p360-retrieve: 202 with the handle of the retrieval.

    A second request of a patient gets the handle of the retrieval under way. RefusedError: 400 without
    `Prefer: respond-async` or a patient, 404 and 410 for no live patient, 422 for too few demographics.
    """
    if not request.prefer.respond_async:
        text = "A retrieval is asynchronous: send 'Prefer: respond-async'."
        raise refuse(Category.UNSUPPORTED, text, location="http.Prefer")
    patient_id = _patient_id(request, service.configuration.base_url)
    service.store.read(request.principal.tenant, partial(_check, patient_id))
    return await ask(service, request, KIND, patient_id, {})


def _patient_id(request: FhirRequest, base_url: str) -> str:
    """Return the patient of a request's query and body; RefusedError (400) for none, or for two."""
    unknown = next((name for name, _ in request.query if name not in {NAME, *FORMAT}), None)
    if unknown is not None:
        raise unsupported(unknown)
    named = [value for name, value in request.query if name == NAME] + _in_body(request.body)
    ids = {local_target(relative(one, base_url) or one).removeprefix("Patient/") for one in named}
    if not ids - {""}:
        raise refuse(Category.REQUIRED, "Name the patient: patient=ID.", location=f"http.{NAME}")
    if len(ids) > 1:
        raise refuse(Category.BAD_VALUE, "Address and body name different patients.", location=f"http.{NAME}")
    return ids.pop()


def _in_body(body: Json) -> list[str]:
    """Return the patients of a Parameters: references or texts."""
    if body is None:
        return []
    parts = body.get("parameter", []) if isinstance(body, dict) and body.get("resourceType") == "Parameters" else None
    if not isinstance(parts, list) or not all(isinstance(part, dict) for part in parts):
        raise refuse(Category.BAD_VALUE, "Send a Parameters resource, or nothing.", location="Parameters.parameter")
    return [_named(part) for part in parts]


def _named(part: JsonObject) -> str:
    values = [value for name, value in part.items() if name.startswith("value")]
    value = values[0] if len(values) == 1 else None
    text = value.get("reference") if isinstance(value, dict) else value
    if part.get("name") != NAME or not isinstance(text, str):
        problem = f"The only parameter is {NAME}, a valueReference."
        raise refuse(Category.BAD_VALUE, problem, location="Parameters.parameter")
    return text


def _check(patient_id: str, transaction: Transaction) -> None:
    stored = transaction.get("Patient", patient_id)
    if stored is None:
        raise refuse(Category.NOT_FOUND, f"Patient/{patient_id[:64]} does not exist.", location=f"http.{NAME}")
    if stored.survivor is not None:
        raise _gone(stored)
    missing = tuple(_missing(stored.resource()))
    if missing:
        raise RefusedError(Category.INCOMPLETE, missing)


def _gone(stored: StoredVersion) -> RefusedError:
    if stored.deleted:
        return refuse(Category.DELETED, f"Patient/{stored.id} was deleted.", location=f"http.{NAME}")
    text = f"Patient/{stored.id} was merged into Patient/{stored.survivor}; ask for that one."
    return refuse(Category.DELETED, text, location=f"http.{NAME}", detail="already-merged")


def _missing(patient: JsonObject) -> list[Issue]:
    """Return the missing demographics that sources need to recognise a patient."""
    names = patient.get("name", [])
    known = {
        "Patient.name.given": any(name.get("given") for name in names),
        "Patient.name.family": any(name.get("family") for name in names),
        "Patient.birthDate": bool(patient.get("birthDate")),
        "Patient.gender": bool(patient.get("gender")),
        "Patient.address": any(
            one.get("postalCode") or (one.get("city") and one.get("state")) for one in patient.get("address", [])
        ),
    }
    text = "{}: sources recognise a patient by it, an address by its postal code, or by city and state."
    return [Issue(text.format(path), path, "missing-field") for path, there in known.items() if not there]


INTERACTIONS: Final = tuple(
    Interaction(
        "DocumentReference",
        KIND,
        InteractionLevel.TYPE,
        method,
        RequiredAccess.WRITE,
        RoleRule.MERGE,
        retrieve,
        operation=f"${KIND}",
        versions=(FhirVersion.STU3,),
        flags=SCOPES,
        bodiless=True,
    )
    for method in ("POST", "GET")
)
