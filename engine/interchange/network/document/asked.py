"""Whose documents an operation is about: the patient in its address, its parameters or its body."""

from engine.fhir.json import JsonObject
from engine.interchange.core.exchange import FhirRequest
from engine.interchange.core.service import Service
from engine.interchange.kernel.outcome import Category, RefusedError, refuse, unsupported
from engine.interchange.rest.resource.context import outside_compartment
from engine.interchange.store.references import local_target, relative
from engine.interchange.store.search.page import FORMAT
from engine.interchange.store.transaction import Transaction


def patient_asked(service: Service, request: FhirRequest) -> str:
    """Return the id of the live patient that a request names; RefusedError 400, 403, 404 or 410.

    The instance level of Patient and DocumentReference names one by itself; each other naming must be the same.
    """
    base_url = service.configuration.base_url
    named = {_id(value, base_url) for value in (*_in_query(request), *_in_body(request.body))}

    def look(transaction: Transaction) -> str:
        if request.id:
            named.add(request.id if request.type == "Patient" else _of_document(transaction, request))
        if len(named) != 1:
            category = Category.BAD_VALUE if named else Category.REQUIRED
            text = "Different patients are named." if named else "Name the patient by the parameter patient."
            raise refuse(category, text, location="http.patient")
        [patient] = named
        if request.within and patient not in request.within:
            raise outside_compartment()
        return live_patient(transaction, patient)

    return service.store.read(request.principal.tenant, look)


def live_patient(transaction: Transaction, patient: str) -> str:
    """Return the id of a patient who is there; RefusedError: 404 for nobody, 410 once deleted or merged away."""
    standing = transaction.standing("Patient", patient)
    if standing is None:
        raise refuse(Category.NOT_FOUND, f"Patient/{patient[:64]} does not exist.", location="http.patient")
    if standing.survivor:
        text = f"Patient/{patient} was merged into Patient/{standing.survivor}; ask for that one."
        raise refuse(Category.DELETED, text, location="http.patient", detail="already-merged")
    if standing.survivor is not None:
        raise refuse(Category.DELETED, f"Patient/{patient} was deleted.", location="http.patient")
    return patient


def _in_query(request: FhirRequest) -> list[str]:
    unknown = next((name for name, _ in request.query if name != "patient" and name not in FORMAT), None)
    if unknown is not None:
        raise unsupported(unknown)
    return [value for name, value in request.query if name == "patient"]


def _in_body(body: JsonObject) -> list[str]:
    """Return what a Parameters names as its patient: a reference, or a text as it stands in an address."""
    if body is None or body == {}:
        return []
    parameters = body.get("parameter", []) if isinstance(body, dict) else None
    if not isinstance(parameters, list) or body.get("resourceType") != "Parameters":
        raise _bad("Send a Parameters resource.")
    found = []
    for one in parameters:
        if not isinstance(one, dict) or one.get("name") != "patient":
            raise _bad("The only parameter is patient.")
        reference = one.get("valueReference")
        value = reference.get("reference") if isinstance(reference, dict) else None
        value = value or one.get("valueString") or one.get("valueId") or one.get("valueUri")
        if not isinstance(value, str):
            raise _bad("patient is a valueReference, or an id as valueString.")
        found.append(value)
    return found


def _id(value: str, base_url: str) -> str:
    reference = relative(value, base_url) or ""
    type_name, slash, patient = local_target(reference).rpartition("/")
    if not patient or type_name not in {"", "Patient"} or (slash and not type_name):
        raise refuse(Category.BAD_VALUE, "patient is an id, or Patient/ and an id.", location="http.patient")
    return patient


def _of_document(transaction: Transaction, request: FhirRequest) -> str:
    stored = transaction.get(request.type, request.id)
    if stored is None:
        raise refuse(Category.NOT_FOUND, f"{request.type}/{request.id[:64]} does not exist.", location="http.id")
    if stored.deleted:
        raise refuse(Category.DELETED, f"{request.type}/{stored.id} was deleted.", location="http.id")
    return str(stored.resource()["subject"]["reference"]).removeprefix("Patient/")


def _bad(text: str) -> RefusedError:
    return refuse(Category.BAD_VALUE, text, location="Parameters.parameter")
