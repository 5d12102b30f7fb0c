"""Charts that documents are written from: an empty one, a hostile one, a very large one, invented ones, the least."""

import random
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Any
from zoneinfo import ZoneInfo

from engine.fhir.schema import FhirVersion
from engine.fhir.versions.conversion import convert
from engine.fhir.versions.direction import Direction
from engine.interchange.clinical.ccda.document import DocumentChart, write_ccd
from engine.interchange.clinical.ccda.record import Custodian
from engine.interchange.clinical.synthetic.chart import synthetic_chart
from tests.interchange.least import LEAST, least

Json = Any

AT = datetime(2026, 3, 2, 12, 30, 15, tzinfo=UTC)
ZONE = ZoneInfo("America/Los_Angeles")
CUSTODIAN = Custodian("Riverbend", "http://127.0.0.1:8080")
PATIENT: Json = {
    "resourceType": "Patient",
    "id": "p1",
    "name": [{"family": "Quintero", "given": ["Marisol"]}],
    "gender": "female",
    "birthDate": "1984-02-29",
}
HOSTILE = (
    "]]> <script>&amp;\u202e\u05d0\u05d1\u05d2 \U0001f9ec\x01\x0b\ufffe \r\n\t'\"" + "\N{COMBINING ACUTE ACCENT}" * 3
)


# Types whose resources have notes.
NOTED = {"AllergyIntolerance", "Condition", "Goal", "Immunization", "MedicationRequest", "Observation", "Procedure"}


def written(chart: list[Json], **changes: Any) -> bytes:
    """Return the document of a chart whose first resource is the patient."""
    given: dict[str, Any] = {"document_id": "job-1", "at": AT, "zone": ZONE, "custodian": CUSTODIAN}
    return write_ccd(DocumentChart(chart[0], chart[1:]), **{**given, **changes})


def the_least() -> list[Json]:
    """Return a patient with the smallest resource of each type, as R4 and as STU3 know it."""
    chart = [PATIENT]
    for version in FhirVersion:
        for name in LEAST:
            made = least(name, "p1", version)
            made = made if version is FhirVersion.R4 else convert(made, Direction.TO_R4)
            chart.append({**made, "id": f"{version.name.lower()}-{name.lower()}"})
    return chart


def hostile() -> list[Json]:
    """Return an invented chart whose every free text is hostile."""
    chart = synthetic_chart("hostile", facts=120)
    noted = [
        one | {"note": [{"text": "Noted"}, {"text": "Again"}]} if one["resourceType"] in NOTED else one for one in chart
    ]
    return _with_texts(noted)


def foreign() -> list[Json]:
    """Return an invented chart whose codes are of systems without a name, some without a system or of blank text."""
    return _foreign(synthetic_chart("foreign", facts=120))


def pruned(seed: int) -> list[Json]:
    """Return an invented chart of which many an element is missing, whatever asks for it."""
    chance = random.Random(seed)
    share = chance.choice((0.02, 0.1, 0.3))
    return [_pruned(one, chance, share) for one in synthetic_chart(f"pruned-{seed}", facts=80)]


CHARTS: dict[str, Callable[[], list[Json]]] = {
    "empty": lambda: [PATIENT],
    "bare": lambda: [{"resourceType": "Patient", "id": "p2"}],
    "least": the_least,
    "hostile": hostile,
    "foreign": foreign,
    "large": lambda: synthetic_chart("large", facts=5000),
    **{f"pruned-{seed}": partial(pruned, seed) for seed in range(4)},
    **{f"invented-{at}": partial(synthetic_chart, str(at), facts=60 + at) for at in range(200)},
}


def _with_texts(value: Json, name: str = "") -> Json:
    """Return a value with hostile text in each place for free text."""
    if isinstance(value, dict):
        return {key: _with_texts(part, key) for key, part in value.items()}
    if isinstance(value, list):
        return [_with_texts(part, name) for part in value]
    free = name in {"text", "display", "family", "given", "line", "city", "conclusion", "description", "valueString"}
    return f"{value} {HOSTILE}" if free and isinstance(value, str) else value


def _foreign(value: Json) -> Json:
    """Return a value whose codings come first of an OID that no table has, then of none, then of blank texts."""
    if isinstance(value, list):
        return [_foreign(part) for part in value]
    if not isinstance(value, dict):
        return value
    found = {key: _foreign(part) for key, part in value.items()}
    if "coding" in found:
        local = [{**one, "system": "urn:oid:1.2.3.4.5"} for one in found["coding"]]
        bare = [{"code": "local", "display": " "}, {"system": "urn:oid:1.2.3.4.6", "code": "x", "display": "\n"}]
        found["coding"] = [*local, *found["coding"], *bare]
    if "telecom" in found:
        found["telecom"] = [{"value": " "}, *found["telecom"]]
    return found


def _pruned(value: Json, chance: random.Random, share: float) -> Json:
    """Return a value without some of its elements, and without what is empty then."""
    if isinstance(value, dict):
        left = {key: part for key, part in value.items() if key in {"resourceType", "id"} or chance.random() >= share}
        parts = {key: _pruned(part, chance, share) for key, part in left.items()}
        return {key: part for key, part in parts.items() if part not in ({}, [])}
    if isinstance(value, list):
        return [part for part in (_pruned(one, chance, share) for one in value) if part not in ({}, [])]
    return value
