"""The whole chart of one invented person, and the Bundle that writes it into a service."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Final

from engine.fhir.json import Json, JsonObject
from engine.interchange.clinical.synthetic.background import background
from engine.interchange.clinical.synthetic.draw import Draw
from engine.interchange.clinical.synthetic.person import birth_of, make_directory, make_patient
from engine.interchange.clinical.synthetic.record import SyntheticRecord
from engine.interchange.clinical.synthetic.visit import visits

END: Final = datetime(2026, 3, 2, 6, tzinfo=UTC)
"""The latest moment in a chart, except in plans. It is fixed, so that the seed alone determines every byte."""

LONGEST: Final = timedelta(days=3650)
SHORTEST: Final = timedelta(days=30)
# Approximate number of facts of a visit.
FACTS_A_VISIT: Final = 17


def synthetic_chart(seed: str, *, facts: int = 60, patient: JsonObject | None = None) -> list[JsonObject]:
    """Return R4 resources: the patient, those who care for it, and as many facts as asked for, each valid.

    Everything that a chart may hold is there from 60 facts on. A resource refers only to ones before it, as `Type/id`;
    ids are UUIDs. `patient` takes the place of an invented one, with its id, or one it gets if it has none. The same
    arguments return the same bytes, in every version of Python. A chart spans ten years, of a younger patient its
    life; it ends with 2026-03-02, or 30 days after a birth that is later.
    """
    draw = Draw(seed)
    directory = make_directory(draw)
    invented = make_patient(draw, END.date())
    patient = invented if patient is None else {"id": invented["id"], **patient}
    born = birth_of(patient)
    end = max(END, born + SHORTEST)
    record = SyntheticRecord(draw, patient, directory, born, end)
    first = max(born, end - LONGEST)
    return [patient, *directory.resources, *islice(_facts(record, first, facts), facts)]


def transaction(chart: list[JsonObject]) -> JsonObject:
    """Return a chart as a transaction that creates all of it, by new ids: references lead to entries of the Bundle."""
    places = {f"{one['resourceType']}/{one['id']}": f"urn:uuid:{one['id']}" for one in chart}
    entries = [
        {
            "fullUrl": f"urn:uuid:{one['id']}",
            "resource": _moved({name: value for name, value in one.items() if name != "id"}, places),
            "request": {"method": "POST", "url": one["resourceType"]},
        }
        for one in chart
    ]
    return {"resourceType": "Bundle", "type": "transaction", "entry": entries}


def _facts(record: SyntheticRecord, first: datetime, facts: int) -> Iterator[JsonObject]:
    yield from background(record)
    yield from visits(record, first, max(2, facts // FACTS_A_VISIT))


def _moved(part: Json, places: dict[str, str]) -> Json:
    if isinstance(part, dict):
        return {
            name: places.get(value, value) if name == "reference" else _moved(value, places)
            for name, value in part.items()
        }
    return [_moved(item, places) for item in part] if isinstance(part, list) else part
