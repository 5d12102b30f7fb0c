"""Orders of the tests: one with all that a laboratory is told, and what reads and changes it in a store."""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from engine.interchange.orders.laboratory.order import LaboratoryOrder, read_order
from engine.interchange.store.index import NOTHING, Index
from engine.interchange.store.store import Store
from engine.interchange.store.transaction import Transaction
from engine.interchange.store.transmission import enqueue
from tests.interchange.kit import SYSTEM, patient, record_number

T = TypeVar("T")
Resource = dict[str, Any]

AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
EXTENSION = f"{SYSTEM}/fhir/StructureDefinition/requestgroup-"
NPI = "http://hl7.org/fhir/sid/us-npi"
# Every text of an order that somebody typed, by where it stands; the tests put others there.
TEXTS: dict[str, str] = {
    "family": "Quintero",
    "given": "Marisol",
    "line": "12 Mill Lane",
    "city": "Riverbend",
    "phone": "+1 555 0100",
    "mrn": "MRN-7",
    "title": "Lipid panel",
    "note": "Fragile veins",
    "answer": "Since Tuesday",
    "reason": "Raised cholesterol",
    "doctor": "Osei",
    "insurer": "Keystone Mutual",
    "member": "M-1",
    "specimen": "S-1",
    "facility": "Riverbend Clinic",
}


class Everything(Mapping[str, Callable[[Resource], Index]]):
    """Indexers of a store in which nothing is searched."""

    def __getitem__(self, _type_name: str) -> Callable[[Resource], Index]:
        """Return one that makes no rows."""
        return lambda _resource: NOTHING

    def __iter__(self) -> Iterator[str]:
        """Name no type."""
        return iter(())

    def __len__(self) -> int:
        """Count none."""
        return 0


def ordered(order_id: str = "o1", *, account: str = "thirdParty", texts: Mapping[str, str] = TEXTS) -> list[Resource]:
    """Return an order of two tests with all that it names, as the service keeps it."""
    of = {**TEXTS, **texts}
    coverage = {"reference": "Coverage/c1"}
    return [
        patient(
            id="p1",
            name=[{"use": "usual", "family": "Q"}, {"use": "official", "family": of["family"], "given": [of["given"]]}],
            identifier=[
                record_number(of["mrn"]),
                {"system": "urn:other", "value": "not told"},
                {**record_number("88"), "system": "urn:oid:1.2.3"},
            ],
            address=[{"use": "home", "line": [of["line"]], "city": of["city"], "state": "OR", "postalCode": "97000"}],
            telecom=[{"system": "phone", "use": "home", "value": of["phone"]}],
        ),
        {
            "resourceType": "Practitioner",
            "id": "d1",
            "name": [{"family": of["doctor"], "given": ["Ama"]}],
            "identifier": [{"system": NPI, "value": "1659999990"}],
        },
        {"resourceType": "Organization", "id": "f1", "name": of["facility"]},
        {"resourceType": "Organization", "id": "lab-1", "name": "The laboratory"},
        {"resourceType": "Organization", "id": "i1", "name": of["insurer"], "identifier": [{"value": "K1"}]},
        {
            "resourceType": "Coverage",
            "id": "c1",
            "beneficiary": {"reference": "Patient/p1"},
            "subscriberId": of["member"],
            "payor": [{"reference": "Organization/i1"}],
            "class": [{"type": {"coding": [{"code": "group"}]}, "value": "G1"}],
        },
        {"resourceType": "RelatedPerson", "id": "r1", "name": [{"family": "Payer"}], "gender": "male"},
        {
            "resourceType": "Questionnaire",
            "id": "q1",
            "item": [{"linkId": "fasting", "text": "Fasting?", "code": [{"code": "F1", "display": "Fasting"}]}],
        },
        _test(f"{order_id}-LI", order_id, "LI", of),
        _second(f"{order_id}-GL", order_id),
        {
            "resourceType": "RequestGroup",
            "id": order_id,
            "status": "active",
            "intent": "order",
            "priority": "stat",
            "subject": {"reference": "Patient/p1"},
            "authoredOn": "2026-01-02T03:00:00+01:00",
            "author": {"reference": "Practitioner/d1"},
            "contained": [
                {
                    "resourceType": "Account",
                    "id": "acc",
                    "status": "active",
                    "type": {"coding": [{"code": account}]} if account else {},
                    "coverage": [{"coverage": coverage}],
                    "guarantor": [{"party": {"reference": "RelatedPerson/r1"}}],
                }
            ],
            "extension": [
                {"url": f"{EXTENSION}performer", "valueReference": {"reference": "Organization/lab-1"}},
                {
                    "url": f"{EXTENSION}requester",
                    "extension": [
                        {"url": "agent", "valueReference": {"reference": "Practitioner/d1"}},
                        {"url": "onBehalfOf", "valueReference": {"reference": "Organization/f1"}},
                    ],
                },
                {"url": f"{EXTENSION}account", "valueReference": {"reference": "#acc"}},
                {"url": f"{EXTENSION}orderStatus", "valueCoding": {"code": "pending"}},
            ],
            "action": [{"resource": {"reference": f"ServiceRequest/{order_id}-{code}"}} for code in ("LI", "GL")],
        },
    ]


def _test(test_id: str, order_id: str, code: str, of: Mapping[str, str]) -> Resource:
    return {
        "resourceType": "ServiceRequest",
        "id": test_id,
        "status": "active",
        "intent": "order",
        "subject": {"reference": "Patient/p1"},
        "requisition": {"system": f"{SYSTEM}/order-number", "value": order_id},
        "code": {
            "coding": [
                {"system": "http://loinc.org", "code": "57698-3"},
                {"system": "urn:uuid:f:lab-1", "code": code, "display": of["title"]},
            ]
        },
        "reasonCode": [
            {
                "coding": [{"system": "http://hl7.org/fhir/sid/icd-10-cm", "code": "E78.5", "display": of["reason"]}],
            }
        ],
        "note": [{"text": of["note"]}, {"text": "Transmission: refused, AE"}],
        "occurrenceDateTime": "2026-01-03",
        "supportingInfo": [{"reference": "#aoe"}],
        "specimen": [{"reference": "#s"}],
        "contained": [
            {
                "resourceType": "QuestionnaireResponse",
                "id": "aoe",
                "questionnaire": "Questionnaire/q1",
                "status": "completed",
                "item": [
                    {"linkId": "fasting", "answer": [{"valueBoolean": True}]},
                    {"linkId": "since", "text": "Since when?", "answer": [{"valueString": of["answer"]}]},
                    {"linkId": "dose", "answer": [{"valueQuantity": {"value": 5, "unit": "mg"}}]},
                    {"linkId": "days", "answer": [{"valueDate": "2026-01-01"}, {"valueDate": "2026-01-02"}]},
                ],
            },
            {
                "resourceType": "Specimen",
                "id": "s",
                "identifier": [{"value": of["specimen"]}],
                "type": {"coding": [{"system": "http://snomed.info/sct", "code": "119364003", "display": "Serum"}]},
                "collection": {"collectedDateTime": "2026-01-02T08:15:00.500Z"},
            },
        ],
    }


def _second(test_id: str, order_id: str) -> Resource:
    coding = {"system": "urn:uuid:f:lab-1", "code": "GL", "display": "Glucose"}
    return {
        "resourceType": "ServiceRequest",
        "id": test_id,
        "status": "active",
        "intent": "order",
        "priority": "routine",
        "subject": {"reference": "Patient/p1"},
        "requisition": {"system": f"{SYSTEM}/order-number", "value": order_id},
        "code": {"coding": [coding]},
    }


@contextmanager
def kept(folder: Path, resources: list[Resource]) -> Iterator[Store]:
    """Keep resources in a store until the block ends."""
    store = Store(folder / "orders.db", ["riverbend"], lambda: AT, Everything())
    try:
        write(store, lambda transaction: [keep(transaction, resource) for resource in resources])
        yield store
    finally:
        store.close()


def write(store: Store, work: Callable[[Transaction], T]) -> T:
    """Do a write."""
    return asyncio.run(store.write("riverbend", work))


def read(store: Store, order_id: str = "o1") -> LaboratoryOrder:
    """Return an order as a laboratory is told of it."""
    found = store.read("riverbend", lambda transaction: read_order(transaction, "riverbend", SYSTEM, order_id))
    assert found is not None
    return found


def keep(transaction: Transaction, resource: Resource) -> None:
    """Keep a resource, new or as its next version."""
    stored = transaction.get(resource["resourceType"], resource["id"])
    if stored is None:
        transaction.create(resource["resourceType"], resource["id"], deepcopy(resource))
    else:
        transaction.update(stored, deepcopy(resource))


def place(transaction: Transaction, resources: list[Resource], laboratory: str = "lab-1") -> None:
    """Keep orders with all that they name, and let them wait, as `$submit` does in its commit."""
    for resource in resources:
        keep(transaction, resource)
    for resource in resources:
        if resource["resourceType"] == "RequestGroup":
            enqueue(transaction, resource["id"], laboratory)


def few(*order_ids: str, laboratory: str = "lab-1") -> list[Resource]:
    """Return orders of one test each, for one patient with an external MRN."""
    made: list[Resource] = [patient(id="p1", identifier=[record_number("MRN-7")])]
    for order_id in order_ids:
        test = _second(f"{order_id}-GL", order_id)
        made.append(test)
        made.append(
            {
                "resourceType": "RequestGroup",
                "id": order_id,
                "status": "active",
                "intent": "order",
                "subject": {"reference": "Patient/p1"},
                "author": {"display": "Osei"},
                "extension": [
                    {"url": f"{EXTENSION}performer", "valueReference": {"reference": f"Organization/{laboratory}"}},
                    {"url": f"{EXTENSION}orderStatus", "valueCoding": {"code": "pending", "display": "Pending"}},
                ],
                "action": [{"resource": {"reference": f"ServiceRequest/{test['id']}"}}],
            }
        )
    return made
