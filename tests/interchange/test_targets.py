"""References to a resource of a type that the element does not allow: refused at their place, in both versions."""

from pathlib import Path
from typing import Any

import pytest

from engine.fhir.r4 import target_types
from engine.fhir.schema import definitions
from engine.fhir.versions.names import name_in, r4_name
from engine.interchange.rest.resource.catalogue import KEPT
from tests.interchange.kit import Running, issue, patient, running
from tests.interchange.least import LEAST, least, version_of

# The service is shared with tests before these, which may have made as many namesakes as it takes.
ALWAYS = {"prefer": "create-always"}
# What the references of these tests name, by type: every element allows one of them, or refuses one.
NAMED = ("Account", "Organization", "Patient", "Practitioner", "PractitionerRole")


@pytest.fixture(scope="module")
def known(service: Running) -> dict[str, str]:
    """Return a reference to a kept resource of each type."""
    made = {"Patient": service.create()["id"]}
    for name in NAMED:
        if name != "Patient":
            answer = service.ask("POST", f"/fhir/R4/{name}", json=least(name, made["Patient"]))
            assert answer.status_code == 201, answer.text
            made[name] = answer.json()["id"]
    return {name: f"{name}/{made[name]}" for name in NAMED}


def to(reference: str, **more: Any) -> dict[str, Any]:
    """Return a Reference."""
    return {"reference": reference, **more}


def body_of(known: dict[str, str], base: str, type_name: str, **more: Any) -> dict[str, Any]:
    """Return the smallest resource of a type with more elements."""
    if type_name == "Patient":
        return patient(**more)
    return least(type_name, known["Patient"].partition("/")[2], version_of(base), **more)


def post(service: Running, base: str, body: dict[str, Any], operation: str = "", **more: Any) -> Any:
    """Create a resource."""
    headers = {**ALWAYS, **more.pop("headers", {})}
    return service.ask("POST", f"{base}/{body['resourceType']}{operation}", json=body, headers=headers, **more)


@pytest.mark.parametrize("type_name", sorted({*LEAST, "Patient"}))
def test_every_reference_of_every_kept_type(service: Running, base: str, known: dict[str, str], type_name: str) -> None:
    """N-260: each element that says which types it takes refuses another one, created or updated, at its place."""
    version = version_of(base)
    name = name_in(version, type_name)
    made = post(service, base, body_of(known, base, type_name)).json()
    tried = 0
    for element, shape in definitions(version)[name].items():
        allowed = target_types(version, f"{name}.{element}") if shape.type == "Reference" else ()
        if not allowed:
            continue
        wrong = to(known["Account"] if "Account" not in allowed else known["Practitioner"])
        body = body_of(known, base, type_name, **{element: [wrong] if shape.many else wrong})
        if element == "medicationReference":
            del body["medicationCodeableConcept"]
        place = f"{name}.{element}{'[0]' if shape.many else ''}.reference"
        put = service.ask("PUT", f"{base}/{name}/{made['id']}", json={**body, "id": made["id"]})
        new = service.ask("PUT", f"{base}/{name}/new-one", json={**body, "id": "new-one"}, headers=ALWAYS)
        for answer in (post(service, base, body), put, new):
            assert issue(answer, 422, "invalid")["location"] == [place], element
        tried += 1
    assert tried or name in {"Binary", "Group", "Practitioner", "Provenance", "Questionnaire", "Subscription"}
    assert service.ask("GET", f"{base}/{name}/{made['id']}").json() == made


DEEP = [
    pytest.param(
        "Encounter", {"participant": [{"individual": "Organization"}]}, "participant[0].individual", id="backbone"
    ),
    pytest.param(
        "Observation",
        {"performer": ["Practitioner", "Account", "Patient"]},
        "performer[1]",
        id="one of several",
    ),
    pytest.param(
        "Patient",
        {"identifier": [{"system": "urn:x:targets", "value": "1", "assigner": "Patient"}]},
        "identifier[0].assigner",
        id="data type",
    ),
    pytest.param(
        "Patient",
        {"extension": [{"url": "urn:x", "valueIdentifier": {"value": "1", "assigner": "Patient"}}]},
        "extension[0].valueIdentifier.assigner",
        id="extension",
    ),
    pytest.param(
        "Organization",
        {"contained": [{"resourceType": "Location", "id": "l", "managingOrganization": "Patient"}]},
        "contained[0].managingOrganization",
        id="in a contained resource",
    ),
    pytest.param(
        "Patient",
        {"contained": [{"resourceType": "Location", "id": "l"}], "generalPractitioner": ["#l"]},
        "generalPractitioner[0]",
        id="to a contained resource",
    ),
    pytest.param("Location", {"managingOrganization": "#"}, "managingOrganization", id="to itself"),
]


def filled(part: Any, known: dict[str, str], name: str = "") -> Any:
    """Return elements in which references stand where a type's name, or `#id`, does."""
    if isinstance(part, dict):
        return {key: filled(value, known, key) for key, value in part.items()}
    if isinstance(part, list):
        return [filled(one, known) for one in part]
    if part in known and name != "resourceType":
        return to(known[part])
    return to(part) if isinstance(part, str) and part.startswith("#") else part


@pytest.mark.parametrize(("type_name", "elements", "place"), DEEP)
def test_wherever_the_reference_stands(
    service: Running, base: str, known: dict[str, str], type_name: str, elements: dict[str, Any], place: str
) -> None:
    """Deep in the resource, to what is contained and from it: only the wrong one is named, with what is allowed.

    N-260.
    """
    body = body_of(known, base, type_name, **filled(elements, known))
    found = post(service, base, body)
    told = issue(found, 422, "invalid")
    assert [one["location"] for one in found.json()["issue"]] == [[f"{body['resourceType']}.{place}.reference"]]
    assert told["expression"] == told["location"]
    assert "Practitioner" in told["diagnostics"] or "Organization" in told["diagnostics"]


def test_a_base_judges_by_its_version(service: Running, known: dict[str, str]) -> None:
    """N-260: R4 knows roles of practitioners where STU3 does not; an order has the name of the version."""
    body = {"participant": [{"individual": to(known["PractitionerRole"])}]}
    assert post(service, "/fhir/R4", body_of(known, "/fhir/R4", "Encounter", **body)).status_code == 201
    issue(post(service, "/fhir", body_of(known, "/fhir", "Encounter", **body)), 422, "invalid")
    for base in ("/fhir/R4", "/fhir"):
        name = name_in(version_of(base), "ServiceRequest")
        order = post(service, base, body_of(known, base, "ServiceRequest")).json()["id"]
        for reference in (f"{name}/{order}", f"{service.url}{base}/{name}/{order}", "#order"):
            inner = {**body_of(known, base, "ServiceRequest"), "id": "order"}
            result = body_of(known, base, "DiagnosticReport", basedOn=[to(reference)], contained=[inner])
            assert post(service, base, result).status_code == 201


def test_a_result_names_a_whole_order(service: Running, base: str, known: dict[str, str]) -> None:
    """C-428: a RequestGroup too, which FHIR does not list; of a result alone, kept here or contained."""
    order = post(service, base, body_of(known, base, "RequestGroup")).json()["id"]
    inner = {**body_of(known, base, "RequestGroup"), "id": "order"}
    for reference in (f"RequestGroup/{order}", f"{service.url}{base}/RequestGroup/{order}", "#order"):
        for kind in ("DiagnosticReport", "Observation"):
            result = body_of(known, base, kind, basedOn=[to(reference)], contained=[inner])
            assert post(service, base, result).status_code == 201
    done = body_of(known, base, "Procedure", basedOn=[to(f"RequestGroup/{order}")])
    issue(post(service, base, done), 422, "invalid")


def test_what_is_allowed_stays_allowed(service: Running, base: str, known: dict[str, str]) -> None:
    """N-260: any type where the element takes any; an address with a version; a reference without an address."""
    link = {"url": "https://x.example", "valueReference": to(known["Account"])}
    assert post(service, base, body_of(known, base, "Patient", extension=[link])).status_code == 201
    everything = [to(reference) for reference in known.values()]
    assert post(service, base, body_of(known, base, "Provenance", target=everything)).status_code == 201
    for reference in (to(f"{known['Practitioner']}/_history/1"), {"display": "Dr. Abara"}):
        body = body_of(known, base, "Patient", generalPractitioner=[reference])
        assert post(service, base, body).status_code == 201
    body = body_of(known, base, "Patient", generalPractitioner=[to(f"{known['Account']}/_history/1")])
    issue(post(service, base, body), 422, "invalid")


def test_conditional_writes(service: Running, base: str, known: dict[str, str]) -> None:
    """N-260: a conditional create judges what it would write; one that finds a match writes nothing."""
    number = {"system": "urn:x:conditional", "value": version_of(base).value}
    wrong = body_of(known, base, "Location", identifier=[number], managingOrganization=to(known["Patient"]))
    condition = {"if-none-exist": f"identifier={number['system']}|{number['value']}"}
    issue(post(service, base, wrong, headers=condition), 422, "invalid")
    assert post(service, base, {**wrong, "managingOrganization": to(known["Organization"])}).status_code == 201
    assert post(service, base, wrong, headers=condition).status_code == 200


def test_what_stands_already_is_no_fault_of_an_update(service: Running, known: dict[str, str]) -> None:
    """What R4 allowed is written back in STU3 beside other changes, at another place of the list too; no more of it.

    N-260.
    """
    role = {"individual": to(known["PractitionerRole"])}
    kept = post(service, "/fhir/R4", body_of(known, "/fhir/R4", "Encounter", participant=[role])).json()
    address = f"/fhir/Encounter/{kept['id']}"
    read = service.ask("GET", address).json()
    doctor = {"individual": to(known["Practitioner"])}
    changed = {**read, "participant": [doctor, *read["participant"]], "status": "cancelled"}
    assert service.ask("PUT", address, json=changed).status_code == 200
    more = {**changed, "participant": [*changed["participant"], {"individual": to(known["Organization"])}]}
    found = service.ask("PUT", address, json=more)
    assert issue(found, 422, "invalid")["location"] == ["Encounter.participant[2].individual.reference"]
    elsewhere = {**read, "serviceProvider": to(known["PractitionerRole"])}
    issue(service.ask("PUT", address, json=elsewhere), 422, "invalid")


def test_validate_says_the_same(tmp_path: Path, base: str) -> None:
    """`$validate` names the same elements as a create, of a Patient and of any other type."""
    with running(tmp_path, feature_flags=("validate",)) as sandbox:
        someone = sandbox.create()["id"]
        version = version_of(base)
        for body, place in (
            (patient(managingOrganization=to(f"Patient/{someone}")), "Patient.managingOrganization.reference"),
            (
                least("Encounter", someone, version, serviceProvider=to(f"Patient/{someone}")),
                "Encounter.serviceProvider.reference",
            ),
        ):
            told = post(sandbox, base, body, "/$validate")
            assert told.status_code == 200
            assert [one["location"] for one in told.json()["issue"]] == [[place]]
            assert told.json() == post(sandbox, base, body).json()


def test_every_kept_type_is_in_the_table() -> None:
    """A type that the service comes to keep is tried here too."""
    assert {r4_name(name) for name in (*LEAST, "Patient")} == {*KEPT}
