"""Large charts for the benchmarks: stays, results with their values, orders and a directory that all of them name."""

import asyncio
import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from engine.interchange.rest.resource.catalogue import INDEXERS
from engine.interchange.store.place import Place
from engine.interchange.store.store import Store
from engine.interchange.store.transaction import Transaction

Json = Any
SIZE = 5000
DOCTORS, WARDS = 60, 20
START = datetime(2015, 1, 1, 8, tzinfo=UTC)
LOINC = "http://loinc.org"


def lay_in_charts(place: Place, charts: int) -> None:
    """Put patients `c0`, `c1`... with charts of 5,000 resources each into a store, and the directory."""
    store = Store(place, ["riverbend"], lambda: datetime.now(UTC), INDEXERS)
    asyncio.run(store.write("riverbend", _directory))
    for number in range(charts):
        asyncio.run(store.write("riverbend", _chart(f"c{number}")))
    store.close()


def _directory(transaction: Transaction) -> None:
    transaction.create("Organization", "o0", {"resourceType": "Organization", "name": "Riverbend"})
    for number in range(DOCTORS):
        body = {"resourceType": "Practitioner", "name": [{"family": f"Osei {number}", "given": ["Ama"]}]}
        transaction.create("Practitioner", f"d{number}", body)
    for number in range(WARDS):
        owner = {"reference": "Organization/o0"}
        body = {"resourceType": "Location", "name": f"Ward {number}", "managingOrganization": owner}
        transaction.create("Location", f"w{number}", body)


def _chart(patient_id: str) -> Callable[[Transaction], None]:
    def work(transaction: Transaction) -> None:
        chance = random.Random(patient_id)
        name = {"family": "Chart", "given": [patient_id]}
        person = {"resourceType": "Patient", "name": [name], "gender": "female", "birthDate": "1950-01-01"}
        transaction.create("Patient", patient_id, person)
        stay = ""
        for number in range(SIZE - 1):
            at = START + timedelta(hours=16 * number)
            if number % 20 == 0:
                stay = f"{patient_id}-{number}"
                transaction.create("Encounter", stay, _stay(patient_id, at, chance))
            else:
                transaction.create("Observation", f"{patient_id}-{number}", _result(patient_id, stay, at, chance))

    return work


def _stay(patient_id: str, at: datetime, chance: random.Random) -> Json:
    return {
        "resourceType": "Encounter",
        "status": "finished",
        "class": {"system": "http://terminology.hl7.org/CodeSystem/v3-ActCode", "code": "IMP"},
        "subject": {"reference": f"Patient/{patient_id}"},
        "participant": [{"individual": {"reference": f"Practitioner/d{chance.randrange(DOCTORS)}"}}],
        "location": [{"location": {"reference": f"Location/w{chance.randrange(WARDS)}"}}],
        "period": {"start": at.isoformat(), "end": (at + timedelta(days=3)).isoformat()},
        "serviceProvider": {"reference": "Organization/o0"},
    }


def _result(patient_id: str, stay: str, at: datetime, chance: random.Random) -> Json:
    code = chance.choice(["2093-3", "2571-8", "718-7", "4548-4", "2345-7"])
    return {
        "resourceType": "Observation",
        "status": "final",
        "category": [
            {"coding": [{"system": "http://terminology.hl7.org/CodeSystem/observation-category", "code": "laboratory"}]}
        ],
        "code": {"coding": [{"system": LOINC, "code": code, "display": "A test"}], "text": "A test"},
        "subject": {"reference": f"Patient/{patient_id}"},
        "encounter": {"reference": f"Encounter/{stay}"},
        "effectiveDateTime": at.isoformat(),
        "performer": [{"reference": f"Practitioner/d{chance.randrange(DOCTORS)}"}],
        "valueQuantity": {"value": chance.randrange(40, 300), "unit": "mg/dL", "system": "http://unitsofmeasure.org"},
        "referenceRange": [{"low": {"value": 40}, "high": {"value": 200}, "text": "usual in adults"}],
    }
