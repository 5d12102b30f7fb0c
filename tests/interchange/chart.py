"""Charts for the tests of $everything: one that holds every type, and what comes back of it page by page."""

from collections.abc import Iterator
from typing import Any

from engine.interchange.rest.resource.catalogue import CHART
from tests.interchange.kit import Running
from tests.interchange.test_resource import least

Json = Any
CHARTED = [one.name for one in CHART]
SUPPORTING = ["Practitioner", "Organization", "Location"]
# Named in the specification as what $everything may return.
LISTED = {
    "Patient",
    "Encounter",
    "Condition",
    "Observation",
    "MedicationRequest",
    "MedicationStatement",
    "AllergyIntolerance",
    "DiagnosticReport",
    "Immunization",
    "Procedure",
    "CarePlan",
    "Goal",
    "ServiceRequest",
    "Coverage",
    "DocumentReference",
    "FamilyMemberHistory",
    *SUPPORTING,
}


def put(service: Running, type_name: str, patient_id: str = "", *, client: str = "physician", **elements: Any) -> str:
    """Create a resource with the least that it needs and these elements; return its reference."""
    made = {**least(type_name, patient_id), **elements}
    answer = service.ask("POST", f"/fhir/R4/{type_name}", client=client, json=made)
    assert answer.status_code == 201, answer.text
    return f"{type_name}/{answer.json()['id']}"


def to(reference: str) -> Json:
    """Return a reference as an element."""
    return {"reference": reference}


def rich_chart(service: Running) -> tuple[str, set[str]]:
    """Make a chart of every type, whose parts refer to each other; return the patient's id and all that belongs to it.

    Beside it stand a directory that nothing refers to, and the patient's resources of types that are not returned.
    """
    system = put(service, "Organization")
    hospital = put(service, "Organization", partOf=to(system))
    payer = put(service, "Organization")
    house = put(service, "Location", managingOrganization=to(hospital))
    ward = put(service, "Location", partOf=to(house))
    attending, family = put(service, "Practitioner"), put(service, "Practitioner")
    for type_name in SUPPORTING:
        put(service, type_name)
    patient = service.create(generalPractitioner=[to(family)])
    own = {name: put(service, name, patient["id"]) for name in CHARTED if name not in {"Encounter", "Observation"}}
    stay = put(
        service,
        "Encounter",
        patient["id"],
        location=[{"location": to(ward)}],
        participant=[{"individual": to(attending)}],
    )
    result = put(
        service,
        "Observation",
        patient["id"],
        encounter=to(stay),
        basedOn=[to(own["ServiceRequest"])],
        performer=[to(attending)],
    )
    report = put(service, "DiagnosticReport", patient["id"], result=[to(result)], encounter=to(stay))
    coverage = put(service, "Coverage", patient["id"], payor=[to(payer)])
    role = put(service, "PractitionerRole", practitioner=to(put(service, "Practitioner")))
    order = put(service, "ServiceRequest", patient["id"], requester=to(role))
    for type_name in ("RelatedPerson", "Account", "Provenance"):
        put(service, type_name, patient["id"])
    supporting = {system, hospital, payer, house, ward, attending, family}
    members = {f"Patient/{patient['id']}", *own.values(), stay, result, report, coverage, order, *supporting}
    return patient["id"], members


def pages(service: Running, path: str, *, client: str = "physician") -> Iterator[Json]:
    """Yield the Bundles of an answer, following each next link as it stands."""
    while path:
        answer = service.ask("GET", path, client=client)
        assert answer.status_code == 200, answer.text
        bundle = answer.json()
        assert (bundle["resourceType"], bundle["type"]) == ("Bundle", "searchset")
        yield bundle
        path = next_path(service, bundle)


def next_path(service: Running, bundle: Json) -> str:
    """Return the path of the next link, '' on the last page."""
    found = [link["url"] for link in bundle["link"] if link["relation"] == "next"]
    assert len(found) <= 1
    assert all(url.startswith(service.url) for url in found)
    return found[0].removeprefix(service.url) if found else ""


def resources(*bundles: Json) -> list[Json]:
    """Return the resources of some pages, in their order."""
    found = []
    for bundle in bundles:
        for entry in bundle["entry"]:
            resource = entry["resource"]
            assert entry["fullUrl"].endswith(f"/{resource['resourceType']}/{resource['id']}")
            found.append(resource)
    return found


def named(found: list[Json]) -> list[str]:
    """Return resources as `Type/id`, by the names of R4."""
    known = {"ProcedureRequest": "ServiceRequest"}
    return [f"{known.get(one['resourceType'], one['resourceType'])}/{one['id']}" for one in found]


def everything(service: Running, base: str, patient_id: str, query: str = "", **more: Any) -> list[str]:
    """Return what $everything returns of a patient, all pages joined, as `Type/id`."""
    found = list(pages(service, f"{base}/Patient/{patient_id}/$everything?{query}".rstrip("?"), **more))
    assert {bundle["total"] for bundle in found} == {found[0]["total"]}
    return named(resources(*found))


def references(part: Json) -> Iterator[str]:
    """Yield each reference in a resource, however deep."""
    if isinstance(part, dict):
        if isinstance(part.get("reference"), str):
            yield part["reference"]
        for value in part.values():
            yield from references(value)
    elif isinstance(part, list):
        for item in part:
            yield from references(item)
