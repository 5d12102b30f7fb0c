"""Who may do what to which type: every role, every kind of scope, every interaction."""

from itertools import count
from typing import Any

import pytest

from engine.fhir.versions.names import name_in
from engine.interchange.rest.resource.catalogue import KEPT
from engine.interchange.tokens.scope import allows
from tests.interchange.kit import Running, issue, patient
from tests.interchange.least import least, version_of

FRESH = count(1)
ALWAYS = {"prefer": "create-always"}

# The table of roles, once more by hand.
CLINICAL = {
    *("AllergyIntolerance", "CarePlan", "Condition", "DiagnosticReport", "DocumentReference", "Encounter"),
    *("FamilyMemberHistory", "Goal", "Immunization", "MedicationRequest", "MedicationStatement", "Observation"),
    *(
        "Binary",
        "Group",
        "Procedure",
        "Provenance",
        "QuestionnaireResponse",
        "RequestGroup",
        "ServiceRequest",
        "Specimen",
    ),
}
BILLING = {"Coverage", "Account", "RelatedPerson"}
DIRECTORY = {
    *("ActivityDefinition", "Organization", "Location", "Practitioner", "PractitionerRole", "Questionnaire"),
}
EVERY = {"Patient", *CLINICAL, *BILLING, *DIRECTORY, "Subscription"}
CARE = EVERY - {"Subscription"}
READS = {"physician": EVERY, "nurse": CARE, "system": EVERY, "administrative": {"Patient", *BILLING, *DIRECTORY}}
UPDATES = {"physician": EVERY, "nurse": CARE, "system": EVERY, "administrative": {"Patient", *BILLING}}
CREATES = {**UPDATES, "nurse": CARE - {"MedicationRequest"}}


def some(type_name: str, patient_id: str, base: str, **more: Any) -> dict[str, Any]:
    """Return a resource of a type."""
    if type_name == "Patient":
        return patient(birthDate=f"19{next(FRESH) % 90 + 10}-03-01", **more)
    return least(type_name, patient_id, version_of(base), **more)


def asked(service: Running, base: str, type_name: str, **who: Any) -> dict[str, int]:
    """Try every interaction with a type, and return the status of each."""
    patient_id = service.create()["id"]
    path = f"{base}/{name_in(version_of(base), type_name)}"
    kept = service.ask("POST", path, json=some(type_name, patient_id, base), headers=ALWAYS).json()
    new_id = f"role-{next(FRESH)}"
    new = some(type_name, patient_id, base, id=new_id)
    search = f"{path}?_id={kept['id']}" + (
        "" if type_name in {"Group", "Patient", "Subscription", *DIRECTORY} else f"&patient={patient_id}"
    )
    answers = {
        "read": service.ask("GET", f"{path}/{kept['id']}", **who),
        "search": service.ask("GET", search, **who),
        "create": service.ask("POST", path, json=some(type_name, patient_id, base), headers=ALWAYS, **who),
        "update": service.ask("PUT", f"{path}/{kept['id']}", json=kept, **who),
        "update that creates": service.ask("PUT", f"{path}/{new_id}", json=new, headers=ALWAYS, **who),
    }
    for answer in answers.values():
        if answer.status_code == 403:
            issue(answer, 403, "forbidden")
    left = service.ask("GET", f"{path}/{new_id}").status_code
    assert left == (200 if answers["update that creates"].status_code == 201 else 404)
    return {name: answer.status_code for name, answer in answers.items()}


def wanted(*, reads: bool, updates: bool, creates: bool) -> dict[str, int]:
    """Return the statuses of the interactions for what is allowed."""
    reading, creating = 200 if reads else 403, 201 if creates else 403
    return {
        "read": reading,
        "search": reading,
        "create": creating,
        "update": 200 if updates else 403,
        "update that creates": creating,
    }


def test_the_table_names_every_type() -> None:
    """A type that is kept stands in the table of roles."""
    assert set(KEPT) == EVERY


@pytest.mark.parametrize("role", sorted(READS))
@pytest.mark.parametrize("type_name", sorted(EVERY))
def test_roles(service: Running, base: str, role: str, type_name: str) -> None:
    """C-071, C-077 to C-083: with every scope, each role does to each type what its table says, and nothing else."""
    expected = wanted(
        reads=type_name in READS[role], updates=type_name in UPDATES[role], creates=type_name in CREATES[role]
    )
    assert asked(service, base, type_name, client=role) == expected


READING, WRITING, BOTH = ("user/{}.read", "{}.read"), ("patient/{}.write", "{}.write"), ("system/{}.*",)


# Who subscribes must be allowed to read what is told: `subscriptions/test_subscription.py`.
@pytest.mark.parametrize("type_name", sorted(CARE))
def test_scopes_of_one_type(service: Running, base: str, type_name: str) -> None:
    """C-066 to C-070, C-073, C-083: the scopes of a type open it and no other; reading and writing stay apart."""
    names = {type_name, name_in(version_of("/fhir"), type_name)}
    for form in (*READING, *WRITING, *BOTH):
        for name in sorted(names):
            scope = form.format(name.lower() if form.startswith("{") else name)
            reads, writes = form not in WRITING, form not in READING
            found = asked(service, base, type_name, scope=scope)
            assert found == wanted(reads=reads, updates=writes, creates=writes), scope
    another = "patient.read patient.write" if type_name != "Patient" else "observation.read observation.write"
    found = asked(service, base, type_name, scope=another)
    assert found == wanted(reads=False, updates=False, creates=False)


@pytest.mark.parametrize(
    ("scope", "reads", "writes"),
    [
        ("patient/*.read", True, False),
        ("system/*.read", True, False),
        ("patient/*.write", False, True),
        ("user/*.*", True, True),
        ("user/.*", True, True),
        ("system/*.*", True, True),
    ],
)
@pytest.mark.parametrize("type_name", ["Patient", "Observation", "Coverage", "Organization"])
def test_scopes_of_every_type(service: Running, type_name: str, scope: str, *, reads: bool, writes: bool) -> None:
    """C-063, C-070, C-072: wildcards open every type, read and write apart."""
    found = asked(service, "/fhir/R4", type_name, scope=scope)
    assert found == wanted(reads=reads, updates=writes, creates=writes)


def test_no_scope_of_a_type_opens_another() -> None:
    """C-076, C-083: of all types and all forms of scopes, only the type's own opens it; a flag opens none."""
    flags = ("patient360", "place_orders", "offline_access", "openid", "profile", "fhirUser")
    assert not any(allows(flags, name, access) for name in EVERY for access in ("read", "write"))
    for form in (*READING, *WRITING, *BOTH):
        for name in EVERY:
            scope = form.format(name.lower() if form.startswith("{") else name)
            for other in EVERY:
                opened = [access for access in ("read", "write") if allows((scope,), other, access)]
                assert bool(opened) == (other == name)


def test_a_role_denies_before_the_body_is_judged(service: Running, base: str) -> None:
    """Section 1: 403 comes before 400 and 422, and tells nothing of what is there."""
    for body in ({}, {"resourceType": "MedicationRequest"}, least("MedicationRequest", "nobody")):
        answer = service.ask("POST", f"{base}/MedicationRequest", client="nurse", json=body)
        issue(answer, 403, "forbidden")
        assert "www-authenticate" not in answer.headers
    for path in ("Observation/nobody", f"Observation?patient={service.create()['id']}", "Patient/x/$everything"):
        issue(service.ask("GET", f"{base}/{path}", client="administrative"), 403, "forbidden")
