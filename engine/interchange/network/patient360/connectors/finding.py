"""Finds the subject among the patients of another server: one sure match, or none."""

from collections.abc import AsyncIterator
from typing import Final

from engine.fhir.json import Json, JsonObject
from engine.fhir.schema import FhirVersion
from engine.fhir.versions.conversion import convert
from engine.fhir.versions.direction import Direction
from engine.interchange.clinical.patient360.facts import DocumentIdentity
from engine.interchange.kernel.outbound import OutboundError
from engine.interchange.network.patient360.connectors.connector import RequestedPatient
from engine.interchange.network.patient360.connectors.server import NOT_OFFERED, ServerSession, objects
from engine.interchange.network.patient360.match import matches

# The elements that are sent for a match: the person's demographics, nothing of the care.
DEMOGRAPHICS: Final = ("name", "gender", "birthDate", "identifier", "address", "telecom")
MOST_CANDIDATES: Final = 20


async def find_patient(server: ServerSession, subject: RequestedPatient, version: FhirVersion) -> JsonObject | None:
    """Return the one patient of a server who is the subject; None for none or several; OutboundError.

    By `Patient/$match` if the server has it, else by each identifier, else by name, birth date and sex. Each candidate
    must match by the same rule as the patient of a document.
    """
    async for candidates in _candidates(server, subject, version):
        sure = {one["id"]: one for one in candidates if isinstance(one.get("id"), str) and _is(one, subject)}
        if sure:
            return next(iter(sure.values())) if len(sure) == 1 else None
    return None


async def _candidates(
    server: ServerSession, subject: RequestedPatient, version: FhirVersion
) -> AsyncIterator[list[JsonObject]]:
    """Yield the candidates of each search in turn."""
    person: JsonObject = {
        "resourceType": "Patient",
        **{name: subject.patient[name] for name in DEMOGRAPHICS if name in subject.patient},
    }
    parameters = [
        {"name": "resource", "resource": convert(person, Direction.TO_STU3) if version is FhirVersion.STU3 else person},
        {"name": "onlyCertainMatches", "valueBoolean": True},
        {"name": "count", "valueInteger": MOST_CANDIDATES},
    ]
    status, bundle = await server.post("Patient/$match", {"resourceType": "Parameters", "parameter": parameters})
    if status == 200:
        yield patients_of(bundle)
        return
    _check(status)
    for system, value in subject.identifiers:
        yield await _searched(server, {"identifier": f"{_plain(system)}|{_plain(value)}"})
    given = subject.given[0] if subject.given else ""
    criteria = {"family": subject.family, "given": given, "birthdate": subject.birth_date, "gender": subject.gender}
    yield await _searched(server, {name: _plain(value) for name, value in criteria.items() if value})


async def _searched(server: ServerSession, criteria: dict[str, str]) -> list[JsonObject]:
    status, bundle = await server.search("Patient", {**criteria, "_count": str(MOST_CANDIDATES)})
    if status == 200:
        return patients_of(bundle)
    _check(status)
    return []


def _check(status: int) -> None:
    if status not in NOT_OFFERED:
        raise OutboundError(f"answered the question for a patient with {status}")


def patients_of(bundle: Json) -> list[JsonObject]:
    """Return the Patients of an untrusted Bundle."""
    resources = [entry.get("resource") for entry in objects(bundle, "entry")]
    return [one for one in resources if isinstance(one, dict) and one.get("resourceType") == "Patient"]


def _is(candidate: JsonObject, subject: RequestedPatient) -> bool:
    return any(matches(one, subject.patient) for one in identities(candidate))


def identities(candidate: JsonObject) -> tuple[DocumentIdentity, ...]:
    """Return the identities of an untrusted Patient, one for each name."""
    numbers = ((one.get("system"), one.get("value")) for one in objects(candidate, "identifier"))
    identifiers = tuple((str(system or ""), str(value)) for system, value in numbers if value)
    born, sex = str(candidate.get("birthDate", "")), str(candidate.get("gender", ""))
    names = ((_texts(one.get("given")), str(one.get("family", ""))) for one in objects(candidate, "name"))
    return tuple(DocumentIdentity(given, family, born, sex, identifiers) for given, family in names)


def _texts(value: Json) -> tuple[str, ...]:
    return tuple(one for one in value if isinstance(one, str)) if isinstance(value, list) else ()


def _plain(value: str) -> str:
    """Return a value with the special characters of a search escaped."""
    for character in "\\|,$":
        value = value.replace(character, f"\\{character}")
    return value
