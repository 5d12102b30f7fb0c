"""The choice of a patient at sign-in: a search by name, birth date or record number, within the user's tenant."""

from collections.abc import Mapping
from typing import Final

from engine.fhir.json import JsonObject
from engine.fhir.schema import FhirVersion
from engine.interchange.core.exchange import FhirRequest, Prefer
from engine.interchange.core.service import Service
from engine.interchange.kernel.exact import read_resource
from engine.interchange.kernel.outcome import RefusedError
from engine.interchange.rest.resource.search import search
from engine.interchange.store.access import AccessRow, joined
from engine.interchange.store.transaction import milliseconds
from engine.interchange.tokens.oauth.vault import Principal
from engine.interchange.web.oauth.page import PatientOption

# The fields of the page and their search parameters.
FIELDS: Final = ("family", "given", "birthdate", "identifier")
MOST: Final = 20
NOTHING: Final = "Enter a name, a date of birth or a record number."
NOBODY: Final = "No patient fits. Check the spelling, or enter less."
UNREADABLE: Final = "This cannot be searched for. Dates are written as 1984-02-29."
MANY: Final = f"More than {MOST} patients fit; the first {MOST} are shown. Enter more to narrow it down."


async def find_people(
    service: Service, principal: Principal, fields: Mapping[str, str], address: str
) -> tuple[tuple[PatientOption, ...], str]:
    """Return the patients that match the page's fields, 20 at most, and a message, '' for none.

    The search is in the access log before the patients are shown.
    """
    query = tuple((name, fields[name].strip()) for name in FIELDS if fields.get(name, "").strip())
    if not query:
        return (), NOTHING
    version = FhirVersion.R4
    count = (("_count", str(MOST)),)
    request = FhirRequest(
        version, service.base(version), "Patient", "", (*query, *count), {}, Prefer(), principal, None
    )
    try:
        answer = await search(service, request)
    except RefusedError:
        return (), UNREADABLE
    bundle = read_resource(answer.body)
    people = tuple(_person(entry["resource"]) for entry in bundle.get("entry", ()))
    ids = joined(one.id for one in people)
    at_ms = milliseconds(service.clock())
    who = (principal.tenant, principal.client, principal.user, principal.role, address)
    row = AccessRow(at_ms, *who, "", version.value, "search-type", "Patient", "", ids, "done", answer.status)
    await service.recorder.record((row,))
    return people, MANY if bundle["total"] > len(people) else "" if people else NOBODY


def is_patient(service: Service, tenant: str, patient_id: str) -> bool:
    """Say whether a tenant has a patient of this id who is not merged into another."""
    standing = service.store.read(tenant, lambda transaction: transaction.standing("Patient", patient_id))
    return standing is not None and standing.survivor is None


def _person(patient: JsonObject) -> PatientOption:
    name: JsonObject = next(iter(patient.get("name", ())), {})
    called = " ".join(part for part in name.get("given", ()) if part)
    numbers = [one.get("value", "") for one in patient.get("identifier", ()) if _is_record_number(one)]
    parts = [f"{name.get('family', '')}, {called}", patient.get("birthDate", ""), patient.get("gender", ""), *numbers]
    return PatientOption(patient["id"], " · ".join(part for part in parts if part))


def _is_record_number(identifier: JsonObject) -> bool:
    codings = identifier.get("type", {}).get("coding", ())
    return any(coding.get("code") == "MR" for coding in codings)
