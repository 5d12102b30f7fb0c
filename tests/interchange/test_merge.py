"""Patient/$merge: its preview, its refusals, its effect (points K)."""

import asyncio
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from engine.interchange.rest.merge import MergePair, merge
from engine.interchange.rest.resource.catalogue import INDEXERS
from engine.interchange.store.store import Store
from engine.interchange.store.transaction import Transaction
from tests.interchange.kit import MRN, SYSTEM, Running, issue, merge_body, patient, record_number

FRESH = count(1)
MERGED = {"resourceType": "Parameters", "parameter": [{"name": "info", "valueString": "merged"}]}


def number() -> dict[str, Any]:
    """Return a record number that nobody has."""
    return record_number(f"M-{next(FRESH)}")


def named(identifier: dict[str, Any]) -> tuple[str, str]:
    """Return an identifier as system and value."""
    return identifier["system"], identifier["value"]


def order(service: Running, base: str, source: Any, target: Any, **more: Any) -> Any:
    """Send a merge."""
    return service.ask("POST", f"{base}/Patient/$merge", json=merge_body(source, target, **more))


def hold_to_one_value(parameters: list[dict[str, Any]]) -> None:
    """Hold each parameter, and each part at any depth, to a name with exactly one value[x] or a list of parts."""
    for parameter in parameters:
        (held,) = parameter.keys() - {"name"}
        assert parameter["name"]
        assert held == "part" or held.startswith("value")
        hold_to_one_value(parameter.get("part", []))


def read(service: Running, patient_id: str, base: str = "/fhir/R4") -> dict[str, Any]:
    """Read a patient."""
    return service.ask("GET", f"{base}/Patient/{patient_id}").json()


@pytest.mark.parametrize("preview", [True, "true"])
def test_preview(service: Running, base: str, preview: Any) -> None:
    """C-260 to C-265, C-291: every attribute of the source that would be lost, with its values; nothing is written."""
    source = service.create(
        base,
        name=[
            {"use": "official", "family": "Quintero", "given": ["Marisol", "Ines"]},
            {"family": "Vance", "given": ["M"]},
        ],
        telecom=[{"system": "phone", "value": "+1 503 555 0142"}],
        active=True,
        deceasedDateTime="2020-01-01",
        maritalStatus={"text": "single"},
        communication=[{"language": {"text": "Spanish"}, "preferred": True}],
        extension=[
            {"url": "http://hl7.org/fhir/StructureDefinition/patient-interpreterRequired", "valueBoolean": True},
            {
                "url": "http://hl7.org/fhir/us/core/StructureDefinition/us-core-race",
                "extension": [{"url": "text", "valueString": "A"}],
            },
        ],
    )
    target = service.create(
        base,
        name=[{"use": "official", "family": "Quintera", "given": ["Marisol"]}],
        birthDate="1984-02-28",
        gender="unknown",
        active=True,
        photo=[{"title": "kept"}],
    )
    answer = order(service, base, source["id"], target["id"], preview=preview)
    assert answer.status_code == 200
    told = {one["name"]: {part["name"]: part for part in one["part"]} for one in answer.json()["parameter"]}
    assert told["Patient.birthDate"]["targetValue"]["valueDate"] == "1984-02-28"  # PID-7
    assert told["Patient.birthDate"]["sourceValue"]["valueDate"] == "1984-02-29"
    assert told["Patient.name[0].family"]["sourceValue"]["valueString"] == "Quintero"
    assert told["Patient.gender"]["targetValue"]["valueString"] == "unknown"
    assert set(told["Patient.name[0].given[1]"]) == {"sourceValue"}
    assert told["Patient.name[1]"]["sourceValue"]["valueHumanName"] == {"family": "Vance", "given": ["M"]}
    assert told["Patient.telecom[0]"]["sourceValue"]["valueContactPoint"]["value"] == "+1 503 555 0142"
    assert told["Patient.deceasedDateTime"]["sourceValue"]["valueDateTime"] == "2020-01-01"
    assert told["Patient.maritalStatus.text"]["sourceValue"]["valueString"] == "single"
    assert {part["name"] for part in told["Patient.communication[0]"]["sourceValue"]["part"]} == {
        "language",
        "preferred",
    }
    assert told["Patient.extension[0]"]["sourceValue"]["valueBoolean"] is True
    assert told["Patient.extension[1]"]["sourceValue"]["part"] == [{"name": "text", "valueString": "A"}]
    assert not {"Patient.active", "Patient.name[0].use", "Patient.name[0].given[0]", "Patient.photo[0]"} & set(told)
    assert SYSTEM not in answer.text
    assert {frozenset(one) for one in answer.json()["parameter"]} == {frozenset({"name", "part"})}
    hold_to_one_value(answer.json()["parameter"])
    assert read(service, source["id"], base) == source
    assert read(service, target["id"], base) == target


def test_preview_without_differences(service: Running, base: str) -> None:
    """C-266: nothing to lose is a Parameters without parameter."""
    source, target = service.create(), service.create(telecom=[{"system": "phone", "value": "1"}])
    answer = order(service, base, source["id"], target["id"], preview=True)
    assert answer.json() == {"resourceType": "Parameters"}


@pytest.mark.parametrize("more", [{"preview": False}, {"preview": "false"}, {}])
def test_merge(service: Running, base: str, more: dict[str, Any]) -> None:
    """C-267, C-268, C-269, C-273, C-275, C-286: the target keeps its content, the source becomes a tombstone."""
    source, target = service.create(base, gender="male"), service.create(base)
    answer = order(service, base, source["id"], target["id"], **more)
    assert (answer.status_code, answer.json()) == (200, MERGED)
    hold_to_one_value(answer.json()["parameter"])
    kept = read(service, target["id"], base)
    assert kept.pop("link") == [{"other": {"reference": f"Patient/{source['id']}"}, "type": "replaces"}]
    assert kept.pop("meta")["versionId"] == "2"
    target.pop("meta")
    assert kept == target
    gone = read(service, source["id"], base)
    assert gone["active"] is False
    assert gone["link"] == [{"other": {"reference": f"Patient/{target['id']}"}, "type": "replaced-by"}]
    assert (gone["meta"]["versionId"], gone["gender"]) == ("2", "male")


def test_ways_to_name_the_patients(service: Running, base: str) -> None:
    """C-270, C-271, C-272: by identifier, by the global id, by reference, and mixed; absolute references too."""
    first, second, third, fourth = number(), number(), number(), number()
    people = [service.create(base, identifier=[one]) for one in (first, second, third, fourth)]
    assert order(service, base, named(first), named(second)).json() == MERGED
    assert order(service, base, named(second), people[2]["id"]).json() == MERGED
    assert order(service, base, (SYSTEM, people[2]["id"]), named(fourth)).json() == MERGED
    fifth = service.create(base)
    body = merge_body(fifth["id"], people[3]["id"])
    body["parameter"][0]["valueReference"]["reference"] = f"{service.url}{base}/Patient/{fifth['id']}"
    assert service.ask("POST", f"{base}/Patient/$merge", json=body).json() == MERGED


def test_update_first_then_merge(service: Running, base: str) -> None:
    """C-274: what is put on the target before survives."""
    source, target = service.create(base, birthDate="1970-01-01"), service.create(base)
    assert (
        service.ask(
            "PUT", f"{base}/Patient/{target['id']}", json=patient(id=target["id"], birthDate="1970-01-01")
        ).status_code
        == 200
    )
    order(service, base, source["id"], target["id"])
    assert read(service, target["id"])["birthDate"] == "1970-01-01"


def test_old_identifiers_find_the_survivor(service: Running, base: str) -> None:
    """C-277, C-278, C-288, C-132: through a chain; nobody but the survivor may take them."""
    numbers = [number() for _ in range(3)]
    family = f"Chain{next(FRESH)}"
    name = [{"family": family, "given": ["A"]}]
    first, second, third = (service.create(base, identifier=[one], name=name)["id"] for one in numbers)
    assert order(service, base, first, second).json() == MERGED
    assert order(service, base, second, third).json() == MERGED
    for query in (
        *(f"identifier={MRN}|{one['value']}" for one in numbers),
        f"identifier={SYSTEM}|{first}",
        f"family={family}",
    ):
        bundle = service.ask("GET", f"{base}/Patient?{query}").json()
        assert [entry["resource"]["id"] for entry in bundle["entry"]] == [third]
    assert service.ask("GET", f"{base}/Patient?_id={first}").json()["total"] == 0
    issue(service.ask("POST", f"{base}/Patient", json=patient(identifier=[numbers[0]])), 409, "duplicate")
    other = service.create(base)
    taken = patient(id=other["id"], identifier=[numbers[0]])
    issue(service.ask("PUT", f"{base}/Patient/{other['id']}", json=taken), 409, "duplicate")
    links = read(service, third, base)["link"]
    survivor = patient(id=third, identifier=[numbers[2], {**numbers[0], "use": "old"}], name=name, link=links)
    assert service.ask("PUT", f"{base}/Patient/{third}", json=survivor).status_code == 200
    assert (
        service.ask("PUT", f"{base}/Patient/{third}", json={**survivor, "identifier": [numbers[2]]}).status_code == 200
    )
    still = service.ask("GET", f"{base}/Patient?identifier={MRN}|{numbers[0]['value']}").json()
    assert [entry["resource"]["id"] for entry in still["entry"]] == [third]
    told = issue(order(service, base, first, third), 422, "business-rule")
    assert third in told["diagnostics"]


def test_merged_patients_do_not_count(service: Running, base: str) -> None:
    """C-132: a merged-away record is no duplicate."""
    body = patient(name=[{"family": f"Ten{next(FRESH)}", "given": ["A"]}])
    ids = [service.ask("POST", f"{base}/Patient", json=body).json()["id"] for _ in range(10)]
    assert service.ask("POST", f"{base}/Patient", json=body).status_code == 409
    order(service, base, ids[0], ids[1])
    assert service.ask("POST", f"{base}/Patient", json=body).status_code == 201


def test_sides_that_are_missing_or_double(service: Running, base: str) -> None:
    """C-279, C-280: one issue for each missing side; a side named twice is refused."""
    made = service.create(identifier=[number()])
    for source, target, sides in (
        (None, made["id"], ["source"]),
        (made["id"], None, ["target"]),
        (None, None, ["source", "target"]),
    ):
        answer = order(service, base, source, target)
        issue(answer, 400, "required")
        assert [one["location"][0].rpartition(":")[2] for one in answer.json()["issue"]] == [
            f"{side}-patient" for side in sides
        ]
    for side in ("source", "target"):
        body = merge_body(made["id"], made["id"])
        identifier = {"system": MRN, "value": "1"}
        body["parameter"].append({"name": f"{side}-patient-identifier", "valueIdentifier": identifier})
        issue(service.ask("POST", f"{base}/Patient/$merge", json=body), 400, "invalid")
        body["parameter"][-1] = next(one for one in body["parameter"] if one["name"] == f"{side}-patient")
        issue(service.ask("POST", f"{base}/Patient/$merge", json=body), 400, "invalid")


def test_patients_that_cannot_be_found(service: Running, base: str) -> None:
    """C-281, C-282: an unknown reference or identifier is 422 not-found, an ambiguous one 422; locations name it."""
    made = service.create()
    assert issue(order(service, base, "nobody", made["id"]), 422, "not-found")["location"] == ["source-patient"]
    assert issue(order(service, base, made["id"], (MRN, "no")), 422, "not-found")["location"] == [
        "target-patient-identifier"
    ]
    card = {"system": "https://cards.example", "value": f"double-{next(FRESH)}"}
    service.create(identifier=[card])
    service.create(identifier=[card])
    ambiguous = "multiple-matches" if base == "/fhir/R4" else "duplicate"
    issue(order(service, base, named(card), made["id"]), 422, ambiguous)


@pytest.mark.parametrize("preview", [True, False])
def test_self_merge(service: Running, base: str, preview: bool) -> None:
    """C-283: the same patient on both sides is refused, in a preview too, and stays as it is."""
    first, second = number(), number()
    made = service.create(base, identifier=[first, second])
    for source, target in ((made["id"], made["id"]), (named(first), named(second)), (named(first), made["id"])):
        issue(order(service, base, source, target, preview=preview), 422, "business-rule")
    assert read(service, made["id"], base) == made


def test_merged_or_inactive_patients(service: Running, base: str) -> None:
    """C-284: a source that was merged names its survivor; a target that was merged or is inactive is refused."""
    gone, survivor, third = (service.create(base)["id"] for _ in range(3))
    inactive = service.create(base, active=False)["id"]
    assert order(service, base, gone, survivor).json() == MERGED
    before = read(service, survivor, base)
    assert survivor in issue(order(service, base, gone, third), 422, "business-rule")["diagnostics"]
    assert survivor in issue(order(service, base, gone, survivor), 422, "business-rule")["diagnostics"]
    assert survivor in issue(order(service, base, third, gone, preview=True), 422, "business-rule")["diagnostics"]
    issue(order(service, base, third, inactive), 422, "business-rule")
    assert read(service, survivor, base) == before


def parameters(*items: Any) -> dict[str, Any]:
    """Return a Parameters resource."""
    return {"resourceType": "Parameters", "parameter": list(items)}


REFERENCE = {"name": "source-patient", "valueReference": {"reference": "Patient/a"}}
TARGET = {"name": "target-patient", "valueReference": {"reference": "Patient/b"}}


@pytest.mark.parametrize(
    ("body", "code"),
    [
        pytest.param(
            parameters({"name": "source-patient", "valueReference": {"reference": "Observation/x"}}, TARGET),
            "invalid",
            id="C-285 type",
        ),
        pytest.param(parameters({"name": "source-patient", "valueReference": {}}, TARGET), "invalid", id="C-285 empty"),
        pytest.param(
            parameters(
                {"name": "source-patient", "valueReference": {"reference": "https://x.example/Patient/1"}}, TARGET
            ),
            "invalid",
            id="other host",
        ),
        pytest.param(
            parameters({"name": "source-patient", "valueString": "Patient/1"}, TARGET), "invalid", id="no reference"
        ),
        pytest.param(
            parameters({"name": "source-patient-identifier", "valueIdentifier": {"value": "1"}}, TARGET),
            "required",
            id="no system",
        ),
        pytest.param(parameters(REFERENCE, TARGET, {"name": "preview", "valueString": "yes"}), "invalid", id="preview"),
        pytest.param(parameters(REFERENCE, TARGET, {"name": "result-patient"}), "not-supported", id="C-285 unknown"),
        pytest.param(parameters(REFERENCE, TARGET, {"valueString": "x"}), "structure", id="no name"),
        pytest.param({"resourceType": "Parameters", "parameter": {}}, "structure", id="no list"),
        pytest.param({"resourceType": "Patient"}, "structure", id="C-285 no Parameters"),
        pytest.param([1], "structure", id="no object"),
    ],
)
def test_malformed_orders(service: Running, base: str, body: Any, code: str) -> None:
    """C-285: what the operation does not define is 400, never ignored."""
    issue(service.ask("POST", f"{base}/Patient/$merge", json=body), 400, code)


def test_references_of_live_patients_move(service: Running, base: str) -> None:
    """Section 6A: a live patient's link to the source is re-pointed in a new version; links of tombstones stay."""
    source, target, grave = (service.create(base)["id"] for _ in range(3))
    link = [{"other": {"reference": f"Patient/{source}"}, "type": "seealso"}]
    bystander = service.create(base, link=link)["id"]
    assert order(service, base, grave, source).json() == MERGED
    assert order(service, base, source, target).json() == MERGED
    moved = read(service, bystander, base)
    assert moved["link"][0]["other"]["reference"] == f"Patient/{target}"
    assert moved["meta"]["versionId"] == "2"
    assert read(service, grave, base)["link"][0]["other"]["reference"] == f"Patient/{source}"


@pytest.fixture
def shelf(tmp_path: Path) -> Any:
    """A store of patients and their Observations."""
    store = Store(tmp_path / "shelf.db", ["t"], lambda: datetime.now(UTC), INDEXERS)
    yield store
    store.close()


def _chart(transaction: Transaction) -> MergePair:
    source = transaction.create("Patient", "a", patient())
    target = transaction.create("Patient", "b", patient())
    observation = {
        "resourceType": "Observation",
        "subject": {"reference": "Patient/a"},
        "focus": [{"reference": "Patient/b"}],
    }
    transaction.create("Observation", "o", observation)
    return MergePair(source, target)


def test_clinical_resources_move(shelf: Store) -> None:
    """C-276, C-290: whatever refers to the source refers to the target, same id, next version, later moment."""
    asyncio.run(shelf.write("t", lambda transaction: merge(transaction, _chart(transaction))))
    moved = shelf.read("t", lambda transaction: transaction.get("Observation", "o"))
    assert moved is not None
    assert moved.version == 2
    assert moved.resource()["subject"]["reference"] == "Patient/b"
    assert [one.id for one in shelf.read("t", lambda transaction: list(transaction.referrers("Patient/b")))] == ["o"]


def test_what_moves_is_read_one_by_one(shelf: Store) -> None:
    """A chart may be larger than memory: a resource of it is read when its turn comes, as it is then."""

    def work(transaction: Transaction) -> list[int]:
        _chart(transaction)
        second = transaction.create(
            "Observation", "second", {"resourceType": "Observation", "subject": {"reference": "Patient/a"}}
        )
        versions = []
        for referrer in transaction.referrers("Patient/a"):
            versions.append(referrer.version)
            if referrer.id == "o":
                transaction.update(second, second.resource())
        return versions

    assert asyncio.run(shelf.write("t", work)) == [1, 2]
