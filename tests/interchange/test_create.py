"""Patient create and conditional create, identifiers, the duplicate limit (points D, E, F)."""

from concurrent.futures import ThreadPoolExecutor
from itertools import count
from typing import Any

import pytest

from tests.interchange.kit import MRN, SYSTEM, Running, issue, patient, record_number

FRESH = count(1)


def someone(**elements: Any) -> dict[str, Any]:
    """Return a patient whose name nobody else has."""
    return patient(name=[{"family": f"Family{next(FRESH)}x", "given": ["Ada"]}], **elements)


def condition(body: dict[str, Any]) -> dict[str, str]:
    """Return the header that makes a create conditional on the four demographics."""
    name = body["name"][0]
    demographics = f"gender={body['gender']}&birthdate={body['birthDate']}"
    return {"if-none-exist": f"given={name['given'][0]}&family={name['family']}&{demographics}"}


def total(service: Running, body: dict[str, Any]) -> int:
    """Count the patients with a family name."""
    return service.ask("GET", f"/fhir/R4/Patient?family:exact={body['name'][0]['family']}&_count=0").json()["total"]


def test_create(service: Running, base: str) -> None:
    """C-100, C-101: 201 with Location in the called base, with the version, ETag, and the kept Patient."""
    answer = service.ask("POST", f"{base}/Patient", json=someone())
    made = answer.json()
    assert answer.status_code == 201
    # HAPI's client has the version from here, as FHIR says; C-100 has the address without it.
    assert answer.headers["location"] == f"{service.url}{base}/Patient/{made['id']}/_history/1"
    assert answer.headers["etag"] == 'W/"1"'
    assert made["meta"]["versionId"] == "1"
    assert made["meta"]["lastUpdated"].endswith("+00:00")
    assert len(made["id"]) == 24


def test_prefer(service: Running, base: str) -> None:
    """C-102, C-130: minimal has no body, OperationOutcome tells of success, one header may hold several."""
    minimal = service.ask(
        "POST", f"{base}/Patient", json=someone(), headers={"prefer": "return=minimal, create-always"}
    )
    assert (minimal.status_code, minimal.content) == (201, b"")
    assert "/Patient/" in minimal.headers["location"]
    told = service.ask("POST", f"{base}/Patient", json=someone(), headers={"prefer": "return=OperationOutcome"})
    assert told.json()["issue"][0]["severity"] == "information"


@pytest.mark.parametrize(
    ("elements", "status", "code", "locations"),
    [
        pytest.param({"name": None}, 400, "required", ["Patient.name"], id="C-103"),
        pytest.param({"name": [{"given": ["A"]}]}, 400, "required", ["Patient.name[0].family"], id="C-104 family"),
        pytest.param({"name": [{"family": "A"}]}, 400, "required", ["Patient.name[0].given"], id="C-104 given"),
        pytest.param(
            {"name": [{"family": " ", "given": ["\t", ""]}]},
            400,
            "required",
            ["Patient.name[0].family", "Patient.name[0].given"],
            id="C-104 blank",
        ),
        pytest.param(
            {"identifier": [{"system": MRN, "value": " "}]},
            400,
            "required",
            ["Patient.identifier[0].value"],
            id="C-125 blank",
        ),
        pytest.param({"gender": None}, 400, "required", ["Patient.gender"], id="C-105 gender"),
        pytest.param({"birthDate": None}, 400, "required", ["Patient.birthDate"], id="C-105 birthDate"),
        pytest.param(
            {"gender": None, "birthDate": None}, 400, "required", ["Patient.gender", "Patient.birthDate"], id="C-106"
        ),
        pytest.param({"gender": "X"}, 422, "invalid", ["Patient.gender"], id="C-107 gender"),
        pytest.param({"birthDate": "1984-13-40"}, 422, "invalid", None, id="C-107 birthDate"),
        pytest.param({"birthDate": "1985-02-29"}, 422, "invalid", ["Patient.birthDate"], id="no leap year"),
        pytest.param({"resourceType": "Observation"}, 400, "structure", ["Patient.resourceType"], id="C-108 type"),
        pytest.param({"name": "Quintero"}, 400, "structure", ["Patient.name"], id="C-108 name"),
        pytest.param({"name": ["Quintero"]}, 400, "structure", ["Patient.name[0]"], id="C-108 name item"),
        pytest.param({"shoeSize": 44}, 400, "structure", ["Patient.shoeSize"], id="unknown element"),
        pytest.param({"address": []}, 400, "structure", ["Patient.address"], id="empty list"),
        pytest.param(
            {"identifier": [{"value": "1"}]}, 400, "required", ["Patient.identifier[0].system"], id="C-125 system"
        ),
        pytest.param(
            {"identifier": [{"system": "urn:x"}]}, 400, "required", ["Patient.identifier[0].value"], id="C-125 value"
        ),
        pytest.param({"deceasedBoolean": True, "deceasedDateTime": "2020"}, 400, "structure", None, id="two choices"),
        pytest.param(
            {"link": [{"type": "seealso", "other": {"reference": "Patient/none"}}]},
            422,
            "not-found",
            ["Patient.link[0].other.reference"],
            id="unknown reference",
        ),
        pytest.param(
            {"managingOrganization": {"reference": "https://elsewhere.example/fhir/Organization/1"}},
            422,
            "not-found",
            ["Patient.managingOrganization.reference"],
            id="other host",
        ),
    ],
)
def test_refused_bodies(
    service: Running, base: str, elements: dict[str, Any], status: int, code: str, locations: list[str] | None
) -> None:
    """Each refused body has its status, code and locations, and names no value of the patient."""
    answer = service.ask("POST", f"{base}/Patient", json=patient(**elements), headers={"prefer": "create-always"})
    issue(answer, status, code)
    if locations is not None:
        assert [one["location"][0] for one in answer.json()["issue"]] == locations
    assert "Quintero" not in answer.text


@pytest.mark.parametrize("body", [b"[]", b"1", b"null", b'"Patient"'])
def test_bodies_that_are_no_objects(service: Running, base: str, body: bytes) -> None:
    """C-108: JSON that is no object is 400 structure."""
    answer = service.ask("POST", f"{base}/Patient", content=body, headers={"content-type": "application/fhir+json"})
    issue(answer, 400, "structure")


MARITAL = "http://terminology.hl7.org/CodeSystem/v3-MaritalStatus"
FULL: dict[str, Any] = {
    "active": True,
    "identifier": [{"use": "usual", "system": "https://cards.example", "value": "C-77"}],
    "photo": [{"contentType": "image/png", "data": "AAAA"}],
    "name": [{"use": "official", "family": "Ng-Ångström", "given": ["Zoë"], "suffix": ["Jr."]}],  # PID-5
    "deceasedDateTime": "2024-02-29T10:11:12.123+01:00",
    "telecom": [{"system": "phone", "value": "+1 503 555 0142", "use": "home", "rank": 1}],
    "address": [{"line": ["12 Alder Way"], "city": "Keswick", "state": "OR", "postalCode": "97301"}],
    "maritalStatus": {"coding": [{"system": MARITAL, "code": "M"}]},
    "multipleBirthInteger": 2,
    "communication": [{"language": {"coding": [{"system": "urn:ietf:bcp:47", "code": "es"}]}, "preferred": True}],
    "managingOrganization": {"reference": "Organization/riverbend", "display": "Riverbend"},
    "contact": [{"name": {"family": "Doe"}, "telecom": [{"system": "phone", "value": "1"}]}],
    "extension": [
        {"url": "http://hl7.org/fhir/StructureDefinition/patient-interpreterRequired", "valueBoolean": True},
        {
            "url": "http://hl7.org/fhir/us/core/StructureDefinition/us-core-race",
            "extension": [{"url": "text", "valueString": "Mixed"}],
        },
        {
            "url": "http://hl7.org/fhir/us/core/StructureDefinition/us-core-ethnicity",
            "extension": [{"url": "text", "valueString": "Not Hispanic or Latino"}],
        },
    ],
    "_birthDate": {
        "extension": [
            {
                "url": "http://hl7.org/fhir/StructureDefinition/patient-birthTime",
                "valueDateTime": "1984-02-29T08:00:00Z",
            }
        ]
    },
}


@pytest.mark.parametrize(
    ("write", "read"), [("/fhir/R4", "/fhir/R4"), ("/fhir", "/fhir"), ("/fhir/R4", "/fhir"), ("/fhir", "/fhir/R4")]
)
def test_round_trip(service: Running, write: str, read: str) -> None:
    """C-109, C-110, C-111, C-112: every element comes back as it was given, on both bases."""
    riverbend = {"resourceType": "Organization", "id": "riverbend", "name": "Riverbend"}
    assert service.ask("PUT", "/fhir/R4/Organization/riverbend", json=riverbend).status_code in {200, 201}
    made = service.create(write, **FULL)
    kept = service.ask("GET", f"{read}/Patient/{made['id']}").json()
    own = {"system": SYSTEM, "value": made["id"]}
    assert kept["identifier"] == [*FULL["identifier"], own]
    system = {"/fhir": "http://hl7.org/fhir/v3/MaritalStatus"}.get(read, MARITAL)
    wanted = {**FULL, "maritalStatus": {"coding": [{"system": system, "code": "M"}]}}
    assert {name: kept[name] for name in FULL if name != "identifier"} == {
        name: value for name, value in wanted.items() if name != "identifier"
    }


def test_decimals_keep_their_digits(service: Running) -> None:
    """FHIR: the precision of a decimal has a meaning, through create, update and merge."""
    url = "http://hl7.org/fhir/StructureDefinition/geolocation"
    place = b'{"url":"%s","extension":[{"url":"latitude","valueDecimal":45.10}]}' % url.encode()
    body = b'{"resourceType":"Patient","name":[{"family":"Dec","given":["A"]}],"gender":"male","birthDate":"1990",'
    body += b'"extension":[' + place + b"]}"
    json = {"content-type": "application/fhir+json"}
    made = service.ask("POST", "/fhir/R4/Patient", content=body, headers=json)
    assert b'"valueDecimal":45.10}' in made.content
    other = service.create()
    order = {
        "resourceType": "Parameters",
        "parameter": [
            {"name": "source-patient", "valueReference": {"reference": f"Patient/{other['id']}"}},
            {"name": "target-patient", "valueReference": {"reference": f"Patient/{made.json()['id']}"}},
        ],
    }
    assert service.ask("POST", "/fhir/R4/Patient/$merge", json=order).status_code == 200
    assert b'"valueDecimal":45.10}' in service.ask("GET", f"/fhir/R4/Patient/{made.json()['id']}").content
    assert b'"valueDecimal":45.10}' in service.ask("GET", f"/fhir/Patient/{made.json()['id']}").content


def test_stu3_shapes(service: Running) -> None:
    """Section 18: v2 tables have STU3 addresses, but for identifier types; an animal is an extension in R4."""
    role = {"coding": [{"system": "http://hl7.org/fhir/v2/0131", "code": "N"}]}
    animal = {"species": {"coding": [{"system": "http://hl7.org/fhir/animal-species", "code": "canislf"}]}}
    made = service.create(
        "/fhir", contact=[{"relationship": [role]}], animal=animal, identifier=[record_number("S3-1")]
    )
    assert made["contact"][0]["relationship"] == [role]
    assert made["animal"] == animal
    assert made["identifier"][0]["type"]["coding"][0]["system"] == "http://terminology.hl7.org/CodeSystem/v2-0203"
    r4 = service.ask("GET", f"/fhir/R4/Patient/{made['id']}").json()
    assert r4["contact"][0]["relationship"][0]["coding"][0]["system"] == "http://terminology.hl7.org/CodeSystem/v2-0131"
    assert r4["extension"][0]["url"] == "http://hl7.org/fhir/StructureDefinition/patient-animal"


def test_codes_that_stu3_does_not_have(service: Running) -> None:
    """A code that STU3 lacks (identifier `old`, address `billing`) is shown by an extension and comes back whole."""
    old = {"use": "old", "system": "https://cards.example", "value": "1"}
    made = service.create("/fhir", identifier=[old], address=[{"use": "billing", "city": "Keswick"}])
    assert "use" not in made["identifier"][0]
    assert made["identifier"][0]["_use"]["extension"][0]["valueCode"] == "old"
    path = f"Patient/{made['id']}"
    kept = service.ask("GET", f"/fhir/R4/{path}").json()
    assert (kept["identifier"][0], kept["address"][0]["use"]) == (old, "billing")
    assert service.ask("PUT", f"/fhir/{path}", json=made).status_code == 200
    assert service.ask("GET", f"/fhir/R4/{path}").json()["identifier"][0] == old


def test_unknown_patient(service: Running, base: str) -> None:
    """C-113: an unknown id is 404, and the diagnostics name it."""
    found = issue(service.ask("GET", f"{base}/Patient/unknown"), 404, "not-found")
    assert "Patient/unknown" in found["diagnostics"]


def test_the_service_gives_ids(service: Running, base: str) -> None:
    """C-114, C-115: the global id, the id and the version are the service's; the client's do not count."""
    claimed = {"system": SYSTEM, "value": "mine"}
    body = someone(id="mine", meta={"versionId": "9", "lastUpdated": "2001-01-01T00:00:00Z"}, identifier=[claimed])
    made = service.ask("POST", f"{base}/Patient", json=body).json()
    assert made["id"] != "mine"
    assert made["meta"]["versionId"] == "1"
    assert not made["meta"]["lastUpdated"].startswith("2001")
    assert made["identifier"] == [{"system": SYSTEM, "value": made["id"]}]


def test_own_absolute_references_become_relative(service: Running, base: str) -> None:
    """Section 1: a reference under our own base is kept as Type/id."""
    other = service.create()
    link = [{"type": "seealso", "other": {"reference": f"{service.url}{base}/Patient/{other['id']}"}}]
    made = service.create(base, link=link)
    assert made["link"][0]["other"]["reference"] == f"Patient/{other['id']}"


def test_record_numbers_are_unique(service: Running, base: str) -> None:
    """C-120, C-121, C-122, C-124: a taken MRN is 409, create-always or not; in another tenant it is free."""
    number = record_number(f"U-{next(FRESH)}")
    made = service.create(base, identifier=[number])
    assert made["identifier"][0] == number
    for prefer in ("return=minimal", "create-always"):
        again = service.ask("POST", f"{base}/Patient", json=someone(identifier=[number]), headers={"prefer": prefer})
        found = issue(again, 409, "duplicate")
        assert found["details"]["coding"][0] == {"system": f"{SYSTEM}/outcome", "code": "duplicate-mrn"}
    assert service.ask("GET", f"{base}/Patient?identifier={MRN}|{number['value']}").json()["total"] == 1
    assert service.create(base, client="other", identifier=[number])["id"] != made["id"]


def test_other_identifiers_may_repeat(service: Running, base: str) -> None:
    """C-125, C-126: an identifier that is no MRN may be on several patients."""
    card = {"system": "https://cards.example", "value": f"shared-{next(FRESH)}"}
    service.create(base, identifier=[card])
    service.create(base, identifier=[card])
    assert service.ask("GET", f"{base}/Patient?identifier={card['system']}|{card['value']}").json()["total"] == 2


def test_duplicate_limit(service: Running, base: str) -> None:
    """C-127, C-128, C-129, C-131: ten of the same demographics, then 409; create-always lifts it."""
    body = someone()
    family, given = body["name"][0]["family"], body["name"][0]["given"]
    spellings = [{"family": family.upper(), "given": given}, {"family": family, "given": given, "suffix": ["Jr"]}]
    for index in range(10):
        named = {**body, "name": [spellings[index % 2]]}
        assert service.ask("POST", f"{base}/Patient", json=named).status_code == 201
    found = issue(service.ask("POST", f"{base}/Patient", json=body), 409, "duplicate")
    assert found["details"]["coding"][0]["code"] == "duplicate-patient-limit"
    assert family not in found["diagnostics"]
    put = service.ask("PUT", f"{base}/Patient/eleven-{family}", json={**body, "id": f"eleven-{family}"})
    issue(put, 409, "duplicate")
    assert service.ask("POST", f"{base}/Patient", json={**body, "birthDate": "1999-01-01"}).status_code == 201
    always = {"prefer": "create-always"}
    assert service.ask("POST", f"{base}/Patient", json=body, headers=always).status_code == 201


def test_conditional_create(service: Running, base: str) -> None:
    """C-140, C-141, C-144: no match creates; one match answers it, with create-always too, and writes nothing."""
    body = someone()
    first = service.ask("POST", f"{base}/Patient", json=body, headers=condition(body))
    assert first.status_code == 201
    for prefer in ("return=representation", "create-always"):
        again = service.ask("POST", f"{base}/Patient", json=body, headers={**condition(body), "prefer": prefer})
        assert again.status_code == 200
        assert again.json()["id"] == first.json()["id"]
        assert again.headers["location"] == first.headers["location"]
        assert again.headers["etag"] == 'W/"1"'
    assert total(service, body) == 1


@pytest.mark.parametrize("written", ["utf-8", "latin-1"])
def test_conditions_in_letters_beyond_ascii(service: Running, base: str, written: str) -> None:
    """C-141: a name that a client leaves unescaped in If-None-Exist finds the patient, in either encoding."""
    body = patient(name=[{"family": f"Müller{next(FRESH)}x", "given": ["Zoë"]}])
    header = {b"if-none-exist": f"family={body['name'][0]['family']}&given=Zoë".encode(written)}
    answers = []
    for _ in range(2):
        headers = {
            b"content-type": b"application/fhir+json",
            b"authorization": f"Bearer {service.token('physician')}".encode(),
            **header,
        }
        answers.append(service.http.post(f"{service.url}{base}/Patient", json=body, headers=headers))
    assert [answer.status_code for answer in answers] == [201, 200]
    assert answers[0].json()["id"] == answers[1].json()["id"]


def test_conditions_in_the_address(service: Running, base: str) -> None:
    """Clients that put the criteria into the address of a create get a conditional create, not a duplicate."""
    body = someone()
    criteria = condition(body)["if-none-exist"]
    first = service.ask("POST", f"{base}/Patient?{criteria}", json=body)
    again = service.ask("POST", f"{base}/Patient?{criteria}&_format=json", json=body)
    assert (first.status_code, again.status_code, again.json()["id"]) == (201, 200, first.json()["id"])
    issue(service.ask("POST", f"{base}/Patient?{criteria}", json=body, headers=condition(body)), 400, "invalid")
    issue(service.ask("POST", f"{base}/Patient?identifier=a", json=body), 400, "invalid")


@pytest.mark.parametrize(("base_path", "code"), [("/fhir/R4", "multiple-matches"), ("/fhir", "duplicate")])
def test_conditional_create_with_several_matches(service: Running, base_path: str, code: str) -> None:
    """C-142: several matches are 412, and nothing is written."""
    body = someone()
    for _ in range(2):
        assert service.ask("POST", f"{base_path}/Patient", json=body).status_code == 201
    issue(service.ask("POST", f"{base_path}/Patient", json=body, headers=condition(body)), 412, code)
    assert total(service, body) == 2


@pytest.mark.parametrize(
    "header",
    [
        "identifier=a|b",
        "family=A&foo=1",
        "family=A&family=B",
        "",
        "family:not=A",
        "birthdate=ap1984",
        "birthdate=x",
        "family=",
    ],
)
def test_conditions_that_are_not_supported(service: Running, base: str, header: str) -> None:
    """C-143: another criterion, or a malformed one, is 400 invalid, and nothing is written."""
    body = someone()
    answer = service.ask("POST", f"{base}/Patient", json=body, headers={"if-none-exist": header})
    issue(answer, 400, "invalid")
    assert total(service, body) == 0


def test_parallel_identical_conditional_creates(service: Running, base: str) -> None:
    """C-145: of 20 at once exactly one is stored; all the others answer 200 with it, none 409."""
    body = someone()
    with ThreadPoolExecutor(20) as pool:
        work = [
            pool.submit(service.ask, "POST", f"{base}/Patient", json=body, headers=condition(body)) for _ in range(20)
        ]
        answers = [one.result() for one in work]
    assert sorted(answer.status_code for answer in answers) == [200] * 19 + [201]
    assert len({answer.json()["id"] for answer in answers}) == 1
    assert total(service, body) == 1
