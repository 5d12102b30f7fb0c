import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.fhir.schema import FhirVersion, defects
from engine.fhir.versions.codes import CODES
from engine.fhir.versions.conversion import convert
from engine.fhir.versions.direction import Direction
from engine.fhir.versions.names import r4_name, stu3_name
from engine.interchange.kernel.view import to_stored, tolerated
from tests.interchange.kit import Running, patient
from tests.interchange.least import least

pytestmark = pytest.mark.matrix

R4, STU3 = FhirVersion.R4, FhirVersion.STU3
LATER = "http://hl7.org/fhir/4.0/StructureDefinition/extension-"
EARLIER = "http://hl7.org/fhir/3.0/StructureDefinition/extension-"
TERMINOLOGY = "http://terminology.hl7.org/CodeSystem/"
ABSENT = {"extension": [{"url": "http://hl7.org/fhir/StructureDefinition/data-absent-reason", "valueCode": "unknown"}]}
ENCOUNTER = {"reference": "Encounter/e"}
SOMEONE = {"reference": "Practitioner/p"}
TEXT = {"text": "words"}

RECORD = {
    "type": {"coding": [{"system": "http://terminology.hl7.org/CodeSystem/v2-0203", "code": "MR"}]},
    "system": "urn:x",
    "value": "1",
}


def coded(system: str, code: str, **more: Any) -> dict[str, Any]:
    """Return a concept of one of HL7's code systems."""
    return {"coding": [{"system": TERMINOLOGY + system, "code": code}], **more}


def differing(type_name: str, stu3: dict[str, Any], r4: dict[str, Any]) -> Any:
    """Return a case: what a resource of a type has in STU3 and in R4; None where the least resource's is taken out."""
    return pytest.param(type_name, stu3, r4, id=f"{type_name} {', '.join(stu3)}")


# Section 18 of the decisions, and HL7's own differences: each line holds in both directions.
RULES = [
    differing(
        "Condition",
        {"clinicalStatus": "active", "verificationStatus": "unknown", "assertedDate": "2025", "context": ENCOUNTER},
        {
            "clinicalStatus": coded("condition-clinical", "active"),
            "verificationStatus": coded("condition-ver-status", "unconfirmed"),
            "recordedDate": "2025",
            "encounter": ENCOUNTER,
        },
    ),
    differing("Condition", {"stage": {"summary": TEXT}}, {"stage": [{"summary": TEXT}]}),
    differing(
        "AllergyIntolerance",
        {"clinicalStatus": "resolved", "verificationStatus": "refuted", "assertedDate": "2025"},
        {
            "clinicalStatus": coded("allergyintolerance-clinical", "resolved"),
            "verificationStatus": coded("allergyintolerance-verification", "refuted"),
            "recordedDate": "2025",
        },
    ),
    differing("AllergyIntolerance", {"verificationStatus": None, "_verificationStatus": ABSENT}, {}),
    differing(
        "DiagnosticReport",
        {
            "category": TEXT,
            "context": ENCOUNTER,
            "performer": [{"actor": SOMEONE}],
            "codedDiagnosis": [TEXT],
            "image": [{"comment": "a", "link": {"display": "a picture"}}],
            "basedOn": [{"reference": "ProcedureRequest/r"}],
        },
        {
            "category": [TEXT],
            "encounter": ENCOUNTER,
            "performer": [SOMEONE],
            "conclusionCode": [TEXT],
            "media": [{"comment": "a", "link": {"display": "a picture"}}],
            "basedOn": [{"reference": "ServiceRequest/r"}],
        },
    ),
    differing(
        "DocumentReference",
        {
            "class": TEXT,
            "indexed": "2025-07-01T10:00:00Z",
            "context": {
                "encounter": ENCOUNTER,
                "related": [{"identifier": {"value": "1"}, "ref": {"display": "a"}}, {"ref": SOMEONE}],
            },
        },
        {
            "category": [TEXT],
            "type": {"text": "x"},
            "date": "2025-07-01T10:00:00Z",
            "context": {
                "encounter": [ENCOUNTER],
                "related": [{"identifier": {"value": "1"}, "display": "a"}, SOMEONE],
            },
        },
    ),
    differing(
        "DocumentReference",
        {"type": ABSENT, "indexed": None, "_indexed": ABSENT},
        {},
    ),
    differing(
        "Encounter",
        {
            "class": {"system": "http://hl7.org/fhir/v3/ActCode", "code": "IMP"},
            "reason": [TEXT],
            "appointment": {"display": "an appointment"},
            "diagnosis": [{"condition": {"reference": "Condition/c"}, "role": TEXT, "rank": 1}],
            "hospitalization": {"admitSource": TEXT},
        },
        {
            "class": {"system": f"{TERMINOLOGY}v3-ActCode", "code": "IMP"},
            "reasonCode": [TEXT],
            "appointment": [{"display": "an appointment"}],
            "diagnosis": [{"condition": {"reference": "Condition/c"}, "use": TEXT, "rank": 1}],
            "hospitalization": {"admitSource": TEXT},
        },
    ),
    differing("Encounter", {}, {"class": ABSENT}),
    differing(
        "MedicationRequest",
        {
            "requester": {"agent": SOMEONE},
            "context": ENCOUNTER,
            "category": TEXT,
            "substitution": {"allowed": True},
            "dosageInstruction": [{"doseQuantity": {"value": 1}, "rateRatio": {"numerator": {"value": 2}}}],
        },
        {
            "requester": SOMEONE,
            "encounter": ENCOUNTER,
            "category": [TEXT],
            "substitution": {"allowedBoolean": True},
            "dosageInstruction": [
                {"doseAndRate": [{"doseQuantity": {"value": 1}, "rateRatio": {"numerator": {"value": 2}}}]}
            ],
        },
    ),
    differing("MedicationStatement", {"status": "active", "taken": "n"}, {"status": "not-taken"}),
    differing("MedicationStatement", {"status": "active", "taken": "unk"}, {"status": "unknown"}),
    differing(
        "MedicationStatement",
        {"status": "active", "taken": "n", "reasonNotTaken": [TEXT], "context": ENCOUNTER},
        {"status": "not-taken", "statusReason": [TEXT], "context": ENCOUNTER},
    ),
    differing(
        "ServiceRequest",
        {
            "status": "suspended",
            "requester": {"agent": SOMEONE},
            "context": ENCOUNTER,
            "performer": SOMEONE,
            "replaces": [{"reference": "ProcedureRequest/r"}],
        },
        {
            "status": "on-hold",
            "code": {"text": "x"},
            "requester": SOMEONE,
            "encounter": ENCOUNTER,
            "performer": [SOMEONE],
            "replaces": [{"reference": "ServiceRequest/r"}],
        },
    ),
    differing("ServiceRequest", {"status": "cancelled", "code": ABSENT}, {"status": "revoked"}),
    differing(
        "Immunization",
        {
            "notGiven": True,
            "date": "2025",
            "practitioner": [{"role": TEXT, "actor": SOMEONE}],
            "explanation": {"reasonNotGiven": [TEXT]},
            "vaccinationProtocol": [
                {"doseStatus": ABSENT, "targetDisease": [TEXT], "doseSequence": 2, "seriesDoses": 3}
            ],
        },
        {
            "status": "not-done",
            "primarySource": True,
            "occurrenceDateTime": "2025",
            "performer": [{"function": TEXT, "actor": SOMEONE}],
            "statusReason": TEXT,
            "protocolApplied": [{"targetDisease": [TEXT], "doseNumberPositiveInt": 2, "seriesDosesPositiveInt": 3}],
        },
    ),
    differing(
        "Immunization",
        {"date": "2025", "explanation": {"reason": [TEXT]}},
        {"primarySource": True, "occurrenceDateTime": "2025", "reasonCode": [TEXT]},
    ),
    differing(
        "Immunization",
        {"primarySource": None, "_primarySource": ABSENT},
        {"occurrenceDateTime": None, "occurrenceString": "unknown"},
    ),
    differing(
        "Goal",
        {"status": "sustaining", "target": {"dueDate": "2025"}, "addresses": [{"reference": "Condition/c"}]},
        {
            "lifecycleStatus": "active",
            "achievementStatus": coded("goal-achievement", "sustaining"),
            "target": [{"dueDate": "2025"}],
            "addresses": [{"reference": "Condition/c"}],
        },
    ),
    differing(
        "Goal",
        {"status": "achieved"},
        {"lifecycleStatus": "completed", "achievementStatus": coded("goal-achievement", "achieved")},
    ),
    differing("Goal", {"status": "on-hold"}, {"lifecycleStatus": "on-hold"}),
    differing(
        "CarePlan",
        {
            "status": "cancelled",
            "context": ENCOUNTER,
            "author": [SOMEONE],
            "activity": [{"detail": {"status": "scheduled", "prohibited": True, "statusReason": "words"}}],
        },
        {
            "status": "revoked",
            "encounter": ENCOUNTER,
            "author": SOMEONE,
            "activity": [{"detail": {"status": "scheduled", "doNotPerform": True, "statusReason": TEXT}}],
        },
    ),
    differing(
        "Procedure",
        {"notDone": True, "notDoneReason": TEXT, "context": ENCOUNTER, "performer": [{"role": TEXT, "actor": SOMEONE}]},
        {
            "status": "not-done",
            "statusReason": TEXT,
            "encounter": ENCOUNTER,
            "performer": [{"function": TEXT, "actor": SOMEONE}],
        },
    ),
    differing("Procedure", {"status": "aborted"}, {"status": "stopped"}),
    differing(
        "Observation",
        {
            "context": ENCOUNTER,
            "comment": "words",
            "interpretation": {"coding": [{"system": "http://hl7.org/fhir/v2/0078", "code": "H"}]},
            "related": [
                {"type": "has-member", "target": {"reference": "Observation/m"}},
                {"type": "derived-from", "target": {"reference": "Observation/d"}},
            ],
        },
        {
            "encounter": ENCOUNTER,
            "note": [TEXT],
            "interpretation": [{"coding": [{"system": f"{TERMINOLOGY}v2-0078", "code": "H"}]}],
            "hasMember": [{"reference": "Observation/m"}],
            "derivedFrom": [{"reference": "Observation/d"}],
        },
    ),
    differing(
        "Coverage",
        {"grouping": {"group": "G", "groupDisplay": "Group", "subPlan": "P"}, "sequence": "9"},
        {
            "class": [
                {"type": coded("coverage-class", "group"), "value": "G", "name": "Group"},
                {"type": coded("coverage-class", "subplan"), "value": "P"},
                {"type": coded("coverage-class", "sequence"), "value": "9"},
            ]
        },
    ),
    differing(
        "FamilyMemberHistory",
        {"gender": "female", "notDoneReason": TEXT, "name": "Ada", "reasonCode": [TEXT]},
        {
            "sex": {"coding": [{"system": "http://hl7.org/fhir/administrative-gender", "code": "female"}]},
            "dataAbsentReason": TEXT,
            "name": "Ada",
            "reasonCode": [TEXT],
        },
    ),
    differing("Account", {"period": {"start": "2025"}}, {"servicePeriod": {"start": "2025"}}),
    differing("Location", {"type": TEXT}, {"type": [TEXT]}),
    differing("RelatedPerson", {"relationship": TEXT}, {"relationship": [TEXT]}),
    differing(
        "Provenance",
        {
            "period": {"start": "2025"},
            "activity": {"code": "a"},
            "reason": [{"code": "b"}],
            "policy": ["urn:p"],
            "agent": [{"whoUri": "mailto:a@b.example", "onBehalfOfReference": SOMEONE}],
            "entity": [{"role": "source", "whatIdentifier": {"value": "1"}}],
        },
        {
            "occurredPeriod": {"start": "2025"},
            "activity": {"coding": [{"code": "a"}]},
            "reason": [{"coding": [{"code": "b"}]}],
            "policy": ["urn:p"],
            "agent": [
                {
                    "who": {"identifier": {"system": "urn:ietf:rfc:3986", "value": "mailto:a@b.example"}},
                    "onBehalfOf": SOMEONE,
                }
            ],
            "entity": [{"role": "source", "what": {"identifier": {"value": "1"}}}],
        },
    ),
    differing(
        "Organization",
        {
            "meta": {"extension": [{"url": f"{LATER}Meta.source", "valueUri": "urn:s"}]},
            "partOf": {"display": "a", "extension": [{"url": f"{LATER}Reference.type", "valueUri": "Organization"}]},
            "address": [{"_use": {"extension": [{"url": f"{LATER}Address.use", "valueCode": "billing"}]}}],
        },
        {
            "meta": {"source": "urn:s"},
            "partOf": {"display": "a", "type": "Organization"},
            "address": [{"use": "billing"}],
        },
    ),
]


def whole(type_name: str, version: FhirVersion, elements: dict[str, Any]) -> dict[str, Any]:
    """Return the least resource of a type with some elements, without those that are None."""
    made = {**least(type_name, "p", version), **elements}
    return {name: value for name, value in made.items() if value is not None}


@pytest.mark.parametrize(("type_name", "stu3", "r4"), RULES)
def test_real_differences(type_name: str, stu3: dict[str, Any], r4: dict[str, Any]) -> None:
    """C-249: what STU3 says by some elements R4 says by others, and nothing is left over."""
    old, new = whole(type_name, STU3, stu3), whole(type_name, R4, r4)
    assert defects(old, STU3) == ()
    assert defects(new, R4) == ()
    assert to_stored(copy.deepcopy(old), STU3) == new
    assert convert(new, Direction.TO_STU3) == old


@pytest.fixture(scope="module")
def named(service: Running) -> Running:
    """The service, with all that the resources of the rules refer to."""
    assert service.ask(
        "PUT", "/fhir/R4/Patient/p", json=patient(id="p"), headers={"prefer": "create-always"}
    ).status_code in {200, 201}
    for name in ("Encounter/e", "Practitioner/p", "Condition/c", "Observation/m", "Observation/d", "ServiceRequest/r"):
        type_name, _, resource_id = name.partition("/")
        answer = service.ask("PUT", f"/fhir/R4/{name}", json=least(type_name, "p", id=resource_id))
        assert answer.status_code in {200, 201}, answer.text
    return service


def content(resource: dict[str, Any]) -> dict[str, Any]:
    """Return a resource without what the service gives it."""
    meta = {key: value for key, value in resource["meta"].items() if key not in {"versionId", "lastUpdated"}}
    rest = {key: value for key, value in resource.items() if key not in {"id", "meta"}}
    return {**rest, "meta": meta} if meta else rest


@pytest.mark.parametrize(("type_name", "stu3", "r4"), RULES)
def test_both_bases_show_one_resource(named: Running, type_name: str, stu3: dict[str, Any], r4: dict[str, Any]) -> None:
    """C-112, C-249: kept through either base, read through the other; an update of what STU3 is shown loses nothing."""
    bodies = {STU3: whole(type_name, STU3, stu3), R4: whole(type_name, R4, r4)}
    paths = {STU3: f"/fhir/{stu3_name(type_name)}", R4: f"/fhir/R4/{type_name}"}
    for written, body in bodies.items():
        made = named.ask("POST", paths[written], json=body)
        assert made.status_code == 201, made.text
        resource_id = made.json()["id"]
        shown = {version: named.ask("GET", f"{paths[version]}/{resource_id}").json() for version in bodies}
        assert {version: content(one) for version, one in shown.items()} == bodies
        again = named.ask("PUT", f"{paths[STU3]}/{resource_id}", json=shown[STU3])
        assert again.status_code == 200, again.text
        assert content(named.ask("GET", f"{paths[R4]}/{resource_id}").json()) == bodies[R4]


PARKED = [
    pytest.param(
        {"resourceType": "Condition", "subject": {"display": "x"}, "recorder": {"reference": "Practitioner/p"}},
        [{"url": f"{LATER}Condition.recorder", "valueReference": {"reference": "Practitioner/p"}}],
        id="complex",
    ),
    pytest.param(
        {"resourceType": "Procedure", "status": "completed", "subject": {"display": "x"}, "performedString": "then"},
        [{"url": f"{LATER}Procedure.performed", "valueString": "then"}],
        id="choice",
    ),
    pytest.param(
        {
            "resourceType": "RelatedPerson",
            "patient": {"display": "x"},
            "communication": [{"language": {"text": "es"}, "preferred": True}],
        },
        [
            {
                "url": f"{LATER}RelatedPerson.communication",
                "extension": [
                    {"url": "language", "valueCodeableConcept": {"text": "es"}},
                    {"url": "preferred", "valueBoolean": True},
                ],
            }
        ],
        id="backbone element",
    ),
]


@pytest.mark.parametrize(("resource", "extensions"), PARKED)
def test_elements_without_a_place(resource: dict[str, Any], extensions: list[Any]) -> None:
    """An element that only R4 has is HL7's inter-version extension in STU3, and comes home from there."""
    shown = convert(resource, Direction.TO_STU3)
    assert shown["extension"] == extensions
    assert convert(shown, Direction.TO_R4) == resource


def test_elements_that_change_the_meaning() -> None:
    """What says that a record is of the contrary stays a modifier where it is an extension."""
    history = whole("FamilyMemberHistory", STU3, {"notDone": True})
    made = convert(history, Direction.TO_R4)
    assert made["modifierExtension"] == [{"url": f"{EARLIER}FamilyMemberHistory.notDone", "valueBoolean": True}]
    request = whole("MedicationRequest", R4, {"doNotPerform": True})
    assert convert(request, Direction.TO_STU3)["modifierExtension"][0]["valueBoolean"] is True


@given(st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=4))
def test_one_and_many(texts: list[str]) -> None:
    """Of a list that STU3 has once it is shown the first; the rest comes home as long as that one is unchanged."""
    report = whole("DiagnosticReport", R4, {"category": [{"text": text} for text in texts]})
    shown = convert(report, Direction.TO_STU3)
    assert shown["category"] == {"text": texts[0]}
    assert convert(shown, Direction.TO_R4) == report
    changed = {**shown, "category": {"text": "changed"}}
    assert convert(changed, Direction.TO_R4)["category"] == [{"text": "changed"}]
    del changed["category"]
    assert "category" not in convert(changed, Direction.TO_R4)


@pytest.mark.parametrize("path", sorted(CODES))
@settings(deadline=None)
@given(data=st.data())
def test_codes(path: str, data: st.DataObject) -> None:
    """A code that STU3 lacks is shown as the nearest it has, with R4's beside it, until a client sets another."""
    type_name, _, element = path.partition(".")
    codes = CODES[path]
    code = data.draw(st.sampled_from(sorted({*codes.only_r4, *codes.equals.values(), "unheard-of"})))
    element, detail = element.rpartition(".")[2], {"detail": {"status": code}}
    resource = whole(type_name, R4, {"activity": [detail]} if "detail" in path else {element: code})
    if defects(resource, R4):
        return
    shown = convert(resource, Direction.TO_STU3)
    assert defects(shown, STU3) == ()
    assert convert(shown, Direction.TO_R4) == resource
    holder = shown["activity"][0]["detail"] if "detail" in path else shown
    nearest = {**{r4: stu3 for stu3, r4 in codes.equals.items()}, **codes.only_r4}
    assert holder.get(element, "nothing") in {nearest.get(code, "nothing"), code}
    holder[element] = another = "Task" if element == "kind" else "completed"
    home = convert(shown, Direction.TO_R4)
    assert (home["activity"][0]["detail"] if "detail" in path else home)[element] == another


@pytest.mark.parametrize(
    ("value", "real"),
    [
        ({"valueUrl": "http://a.example"}, "url"),
        ({"valueCanonical": "http://a.example"}, "canonical"),
        ({"valueUuid": "urn:uuid:53fefa32-fcbb-4ff8-8a92-55ee120877b7"}, "uuid"),
        ({"valueAge": {"value": 1}}, "Age"),
        ({"valueMoney": {"value": 1, "currency": "EUR"}}, "Money"),
        ({"valueDosage": {"text": "a"}}, "Dosage"),
        ({"valueExpression": {"language": "text/cql", "expression": "a"}}, "Expression"),
    ],
)
def test_values_of_extensions(value: dict[str, Any], real: str) -> None:
    """A value of a type that STU3's extensions cannot have is shown as the nearest, with its type written in it."""
    patient = {"resourceType": "Patient", "extension": [{"url": "urn:mine", **value}]}
    shown = convert(patient, Direction.TO_STU3)
    assert defects(shown, STU3) == ()
    assert f"'{real}'" in str(shown)
    assert convert(shown, Direction.TO_R4) == patient


@pytest.mark.parametrize(
    "extension",
    [
        {"url": f"{LATER}Condition.recorder", "valueString": "no reference"},
        {"url": f"{LATER}Condition.clinicalStatus", "valueCode": "active"},
        {"url": f"{LATER}Condition.stage", "extension": [{"url": "shoeSize", "valueInteger": 44}]},
        {"url": f"{LATER}Condition.recorder"},
        {
            "url": "urn:u",
            "extension": [{"url": "http://hl7.org/fhir/StructureDefinition/_datatype", "valueString": "url"}],
        },
        {
            "url": "urn:u",
            "valueQuantity": {
                "extension": [
                    {"url": "urn:x"},
                    {"url": "http://hl7.org/fhir/StructureDefinition/_datatype", "valueString": "url"},
                ]
            },
        },
    ],
)
def test_what_is_no_element_stays_an_extension(extension: dict[str, Any]) -> None:
    """A client's extension that only looks like a parked element is kept as it is, and leaves R4 valid."""
    condition = whole("Condition", STU3, {"extension": [extension]})
    assert defects(condition, STU3) == ()
    made = convert(condition, Direction.TO_R4)
    assert defects(made, R4) == ()
    assert made["extension"] == [extension]
    assert convert(made, Direction.TO_STU3) == condition


def test_a_code_that_nobody_has_does_not_come_home() -> None:
    """A parked original that would not be valid in R4 leaves the resource as valid as it was."""
    use = {"extension": [{"url": f"{LATER}Identifier.use", "valueCode": "nonsense"}]}
    made = convert({"resourceType": "Patient", "identifier": [{"_use": use, "value": "1"}]}, Direction.TO_R4)
    assert made["identifier"] == [{"_use": use, "value": "1"}]


@given(
    st.sampled_from(["ServiceRequest/1", "http://h.example/fhir/R4/ServiceRequest/1", "#ServiceRequest", "Patient/1"])
)
def test_references_to_types_with_two_names(reference: str) -> None:
    """A reference to a ServiceRequest is one to a ProcedureRequest in STU3, wherever it stands."""
    report = whole("DiagnosticReport", R4, {"basedOn": [{"reference": reference}]})
    shown = convert(report, Direction.TO_STU3)
    assert shown["basedOn"][0]["reference"] == reference.replace("ServiceRequest/", "ProcedureRequest/")
    assert convert(shown, Direction.TO_R4) == report


def test_contained_resources() -> None:
    """Contained resources are of the version of what contains them; what is no valid resource stays as it is."""
    medication = {"resourceType": "Medication", "id": "m", "amount": {"numerator": {"value": 1}}}
    order = {"resourceType": "ServiceRequest", "id": "s", **whole("ServiceRequest", R4, {})}
    odd = [{"resourceType": "Condition", "id": "c", "clinicalStatus": ["x"]}, {"resourceType": "Nonsense"}]
    request = whole("MedicationRequest", R4, {"contained": [medication, order, *odd]})
    shown = convert(request, Direction.TO_STU3)
    assert shown["contained"][0]["extension"][0]["url"] == f"{LATER}Medication.amount"
    assert shown["contained"][1]["resourceType"] == "ProcedureRequest"
    assert shown["contained"][2:] == odd
    assert convert(shown, Direction.TO_R4) == request


STRANGERS = [
    pytest.param(
        R4,
        {"resourceType": "BodyStructure", "id": "b", "active": True, "morphology": TEXT, "patient": {"display": "x"}},
        id="R4 BodyStructure",
    ),
    pytest.param(
        R4,
        {
            "resourceType": "MolecularSequence",
            "id": "m",
            "meta": {"source": "urn:s"},
            "coordinateSystem": 1,
            "variant": [{"start": 1, "variantPointer": {"display": "x", "type": "Observation"}}],
            "extension": [{"url": "urn:x", "valueUrl": "http://a.example"}],
        },
        id="R4 MolecularSequence",
    ),
    pytest.param(
        STU3,
        {
            "resourceType": "ReferralRequest",
            "id": "r",
            "status": "active",
            "intent": "order",
            "subject": {"display": "x"},
            "requester": {"agent": SOMEONE},
        },
        id="STU3 ReferralRequest",
    ),
]


@pytest.mark.parametrize(("version", "stranger"), STRANGERS)
def test_contained_types_of_one_version(version: FhirVersion, stranger: dict[str, Any]) -> None:
    """A contained resource whose type the other version does not have is a Basic there, and comes home."""
    there, back = Direction.TO_STU3, Direction.TO_R4
    if version is STU3:
        there, back = back, there
    observation = whole("Observation", version, {"contained": [stranger]})
    assert defects(observation, version) == ()
    made = convert(observation, there)
    assert defects(made, there.target) == ()
    assert made["contained"][0]["resourceType"] == "Basic"
    assert convert(made, back) == observation


def test_basic_resources_are_their_own() -> None:
    """A contained Basic that stands for nothing else stays one."""
    for coding in ([], [{"code": "referral"}], [{"code": "BodyStructure"}]):
        code = {"coding": coding} if coding else TEXT
        basic = {"resourceType": "Basic", "id": "b", "code": code, "extension": [{"url": "urn:x", "valueString": "a"}]}
        observation = whole("Observation", STU3, {"contained": [basic]})
        made = convert(observation, Direction.TO_R4)
        assert made["contained"] == [basic]
        assert convert(made, Direction.TO_STU3) == observation


@pytest.mark.parametrize("type_name", ["Goal", "Immunization", "MedicationStatement", "Procedure", "CarePlan"])
@pytest.mark.parametrize("status", [["active"], {"active": 1}, 1, "unheard-of"])
def test_codes_that_are_none(named: Running, type_name: str, status: Any) -> None:
    """A status of the wrong shape is refused, and breaks nothing on its way."""
    answer = named.ask("POST", f"/fhir/{type_name}", json=whole(type_name, STU3, {"status": status}))
    assert answer.status_code == (422 if status == "unheard-of" else 400), answer.text


def test_animals() -> None:
    """An animal is R4's own extension for it."""
    animal = {"species": TEXT, "breed": TEXT, "genderStatus": TEXT}
    made = convert({"resourceType": "Patient", "animal": animal}, Direction.TO_R4)
    assert made["extension"][0]["url"] == "http://hl7.org/fhir/StructureDefinition/patient-animal"
    assert [part["url"] for part in made["extension"][0]["extension"]] == ["species", "breed", "genderStatus"]
    assert convert(made, Direction.TO_STU3)["animal"] == animal


def test_later_codes_are_tolerated() -> None:
    """A client of STU3 may send R4's codes: they are checked as extensions, and kept as codes."""
    body = {"resourceType": "Organization", "address": [{"use": "billing", "city": "Keswick"}], "name": "a"}
    checked = tolerated(body, STU3)
    assert defects(checked, STU3) == ()
    assert to_stored(checked, STU3) == body
    assert tolerated(body, R4) is body
    for odd in ([], None, {"resourceType": ["x"]}, {"resourceType": "Patient", "address": "x", "identifier": [1]}):
        assert tolerated(odd, STU3) == odd


def test_names() -> None:
    """ServiceRequest is the one kept type that has two names."""
    assert (stu3_name("ServiceRequest"), r4_name("ProcedureRequest")) == ("ProcedureRequest", "ServiceRequest")
    assert (stu3_name("Patient"), r4_name("Patient")) == ("Patient", "Patient")


@pytest.mark.parametrize(
    ("type_name", "elements", "absent"),
    [
        pytest.param(
            "MedicationStatement", {"status": "stopped", "statusReason": [TEXT]}, "reasonNotTaken", id="mst-1"
        ),
        pytest.param(
            "MedicationStatement", {"status": "unknown", "statusReason": [TEXT]}, "reasonNotTaken", id="unknown"
        ),
        pytest.param("Procedure", {"status": "stopped", "statusReason": TEXT}, "notDoneReason", id="stopped"),
        pytest.param("Procedure", {"status": "on-hold", "statusReason": TEXT}, "notDoneReason", id="on hold"),
        pytest.param("Immunization", {"status": "completed", "statusReason": TEXT}, "explanation", id="imm-1"),
        pytest.param("Immunization", {"status": "not-done", "reasonCode": [TEXT]}, "explanation", id="imm-2"),
    ],
)
def test_no_meaning_is_invented(type_name: str, elements: dict[str, Any], absent: str) -> None:
    """C-112: a reason of a status is no reason why something was not done; it is an extension, and comes back."""
    resource = least(type_name, "p", **elements)
    other = convert(resource, Direction.TO_STU3)
    assert absent not in other
    assert defects(other, FhirVersion.STU3) == ()
    assert "extension" in other
    assert convert(other, Direction.TO_R4) == resource


def test_code_systems_in_the_form_of_the_base() -> None:
    """C-112: tables of HL7 have each version's own address, but for the type of a medical record number."""

    def coding(form: str, table: str, code: str) -> dict[str, Any]:
        start = {"v2": "http://hl7.org/fhir/v2/", "v3": "http://hl7.org/fhir/v3/"}[table[:2]]
        later = "http://terminology.hl7.org/CodeSystem/"
        return {"system": later + table if form == "R4" else start + table[3:], "code": code}

    def made(form: str) -> dict[str, Any]:
        numbers = [
            {"type": {"coding": [coding(form, "v2-0203", code)]}, "system": "urn:x", "value": code}
            for code in ("DL", "VN")
        ]
        marital = {"coding": [coding(form, "v3-MaritalStatus", "M")]}
        return {"resourceType": "Patient", "identifier": [*numbers, RECORD], "maritalStatus": marital}

    assert convert(made("R4"), Direction.TO_STU3) == made("STU3")
    assert convert(made("STU3"), Direction.TO_R4) == made("R4")
    # What a client of STU3 writes in STU3's form is told in the specification's.
    old = {"resourceType": "Patient", "identifier": [{**RECORD, "type": {"coding": [coding("STU3", "v2-0203", "MR")]}}]}
    assert convert(convert(old, Direction.TO_R4), Direction.TO_STU3)["identifier"] == [RECORD]
