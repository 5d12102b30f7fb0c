"""What holds when many clients write at once, over real connections: each promise as if they had come in turn."""

from itertools import count
from typing import Any

import pytest

from tests.interchange.kit import BASES, Running, patient, record_number
from tests.interchange.least import least, version_of
from tests.interchange.parallel import at_once, statuses

pytestmark = pytest.mark.process

FRESH = count(1)
# Every supported criterion, alone and together, with modifiers and prefixes.
CRITERIA = (
    "given={given}&family={family}&gender=female&birthdate=1984-02-29",
    "family={family}",
    "family:exact={family}&birthdate=ge1984-02-29",
    "given:contains={given}&family={family}",
    "gender=F&given={given}",
    "given:exact={given}&birthdate=1984-02",
    "birthdate=le1984-02-29&family={family}&gender=female",
)


@pytest.fixture(scope="module", params=["one process", "two on PostgreSQL"])
def service(request: pytest.FixtureRequest, service: Running) -> Running:
    """One process of the service, and two that share a database: nobody must notice."""
    return service if request.param == "one process" else request.getfixturevalue("pair")


def fresh() -> tuple[str, str]:
    """Return a given and a family name that nobody has, neither of which begins another."""
    number = f"{next(FRESH):05}"
    return f"G{number}x", f"F{number}x"


def someone(given: str, family: str, **more: Any) -> dict[str, Any]:
    """Return a patient of a name."""
    return patient(name=[{"family": family, "given": [given]}], **more)


def total(service: Running, query: str) -> int:
    """Count what a search finds."""
    return service.ask("GET", f"/fhir/R4/{query}&_count=0").json()["total"]


def test_distinct_patients(service: Running, base: str) -> None:
    """32 clients that conditionally create distinct patients get 201, every one, and each is kept."""
    for _ in range(4):
        names = [fresh() for _ in range(32)]
        calls = [
            ("POST", f"{base}/Patient", someone(*name), {"if-none-exist": f"family={name[1]}&given={name[0]}"})
            for name in names
        ]
        answers = at_once(service, calls)
        assert statuses(answers) == [201] * 32
        assert len({answer.json()["id"] for answer in answers}) == 32


def test_identical_patients(service: Running) -> None:
    """C-145: of 16 identical conditional creates exactly one is stored, by any criteria, a hundred times."""
    for number in range(100):
        given, family = fresh()
        condition = CRITERIA[number % len(CRITERIA)].format(given=given, family=family)
        base = BASES["R4" if number % 2 else "STU3"]
        call = ("POST", f"{base}/Patient", someone(given, family), {"if-none-exist": condition})
        answers = at_once(service, [call] * 16)
        assert statuses(answers) == [200] * 15 + [201], condition
        assert len({answer.json()["id"] for answer in answers}) == 1
        assert total(service, f"Patient?family:exact={family}") == 1


@pytest.mark.parametrize("type_name", ["Observation", "Encounter", "ServiceRequest"])
def test_identical_resources(service: Running, type_name: str) -> None:
    """C-145 for other types: by identifier, of 16 at once exactly one is stored."""
    patient_id = service.create()["id"]
    for _ in range(10):
        value = f"once-{next(FRESH)}"
        body = least(type_name, patient_id, identifier=[{"system": "urn:races", "value": value}])
        call = ("POST", f"/fhir/R4/{type_name}", body, {"if-none-exist": f"identifier=urn:races|{value}"})
        assert statuses(at_once(service, [call] * 16)) == [200] * 15 + [201]
        assert total(service, f"{type_name}?patient={patient_id}&identifier=urn:races|{value}") == 1


@pytest.mark.parametrize("type_name", ["Patient", "Observation"])
def test_one_version_is_changed_once(service: Running, base: str, type_name: str) -> None:
    """C-152, C-153, C-154: of 16 updates of one version one wins, and what it wrote is what stands."""
    kept = service.create()
    if type_name == "Observation":
        kept = service.ask("POST", f"{base}/Observation", json=least("Observation", kept["id"])).json()
    path = f"{base}/{type_name}/{kept['id']}"
    for version in range(1, 11):
        bodies = [{**kept, "language": f"x-{version}-{writer}"} for writer in range(16)]
        headers = {"if-match": f'W/"{version}"'}
        answers = at_once(service, [("PUT", path, body, headers) for body in bodies])
        lost = 412 if base == "/fhir/R4" else 409
        assert statuses(answers) == [200] + [lost] * 15
        won = next(body for body, answer in zip(bodies, answers, strict=True) if answer.status_code == 200)
        now = service.ask("GET", path).json()
        assert (now["language"], now["meta"]["versionId"]) == (won["language"], f"{version + 1}")


def test_updates_without_a_condition_all_count(service: Running, base: str) -> None:
    """C-156: each of 16 updates without If-Match makes a version; of 16 that would create one does."""
    patient_id = service.create()["id"]
    name = f"made-{next(FRESH)}"
    body = least("Condition", patient_id, version_of(base), id=name)
    answers = at_once(service, [("PUT", f"{base}/Condition/{name}", body, {})] * 16)
    assert statuses(answers) == [200] * 15 + [201]
    assert sorted(int(answer.json()["meta"]["versionId"]) for answer in answers) == list(range(1, 17))


def test_one_record_number(service: Running, base: str) -> None:
    """C-121: of 16 creates with one medical record number one is kept; all the others are 409."""
    for _ in range(5):
        number = record_number(f"R-{next(FRESH)}")
        bodies = [someone(*fresh(), identifier=[number]) for _ in range(16)]
        answers = at_once(service, [("POST", f"{base}/Patient", body, {}) for body in bodies])
        assert statuses(answers) == [201] + [409] * 15
        assert total(service, f"Patient?identifier={number['system']}|{number['value']}") == 1


def test_exactly_ten_duplicates(service: Running, base: str) -> None:
    """C-127, C-128: of 24 creates of the same demographics ten are kept; create-always lifts that."""
    for _ in range(5):
        given, family = fresh()
        call = ("POST", f"{base}/Patient", someone(given, family), {})
        assert statuses(at_once(service, [call] * 24)) == [201] * 10 + [409] * 14
        assert total(service, f"Patient?family:exact={family}") == 10
    always = (*call[:3], {"prefer": "create-always"})
    assert statuses(at_once(service, [always] * 8)) == [201] * 8
