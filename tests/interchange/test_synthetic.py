import hashlib
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import orjson
import pytest
from typer.testing import CliRunner

from engine.__main__ import app
from engine.errors import UsageError
from engine.fhir.schema import FhirVersion, defects
from engine.interchange.clinical.synthetic.chart import END, synthetic_chart, transaction
from engine.interchange.clinical.synthetic.person import birth_of
from engine.interchange.rest.resource.catalogue import CHART
from tests.interchange.chart import everything, references
from tests.interchange.kit import Running

Json = Any

CARE = {"Patient", "Organization", "Location", "Practitioner"}
# Of a seed's chart, as it is written: a change of the generator changes what a seed means, and is told in CHANGELOG.
DIGEST = "0d45ec103b41a2151384fbf67dcc3e86a180a4179ea32134a64955be90142233"
# When something is due, and when the patient was born.
PLANNED = {"dueDate", "birthDate", "occurrenceDateTime"}


def digest(chart: list[Json]) -> str:
    """Return what the bytes of a chart come to."""
    return hashlib.sha256(orjson.dumps(chart)).hexdigest()


def times(part: Json) -> Iterator[str]:
    """Yield each date and moment of what happened, however deep in a resource."""
    if isinstance(part, dict):
        for name, value in part.items():
            if isinstance(value, dict | list):
                yield from times(value)
            elif name.endswith(("Date", "DateTime")) or name in {"start", "end", "date", "issued", "authoredOn"}:
                yield from () if name in PLANNED else (value,)
    elif isinstance(part, list):
        for item in part:
            yield from times(item)


def moment(text: str) -> datetime:
    """Return a date, at its midnight, or a moment."""
    return datetime.fromisoformat(text if "T" in text else f"{text}T00:00:00+00:00")


@pytest.mark.parametrize("decade", range(20))
def test_charts_are_valid(decade: int) -> None:
    """Every resource of 200 charts is valid R4, its ids are its own, and it refers only to what stands before it."""
    for seed in range(10 * decade, 10 * decade + 10):
        known: set[str] = set()
        for one in synthetic_chart(str(seed)):
            assert defects(one, FhirVersion.R4) == (), seed
            name = f"{one['resourceType']}/{one['id']}"
            assert name not in known
            assert set(references(one)) <= known, (seed, name)
            known.add(name)


@pytest.mark.parametrize("facts", [0, 1, 60, 900, 5_000])
def test_a_chart_has_as_many_facts_as_asked_for(facts: int) -> None:
    """A chart holds the facts asked for, beside the people and places; from 60 on, of every type of a chart."""
    for seed in "abc":
        kinds = Counter(one["resourceType"] for one in synthetic_chart(seed, facts=facts))
        assert sum(number for kind, number in kinds.items() if kind not in CARE) == facts
        assert facts < 60 or set(kinds) == {*CARE, *(one.name for one in CHART)}


def test_times_make_sense() -> None:
    """Nothing happened before birth or after the chart's end; a problem began before it was recorded; visits end."""
    for seed in range(40):
        chart = synthetic_chart(f"times {seed}", facts=150)
        born = birth_of(chart[0])
        for one in chart:
            found = [moment(text) for text in times(one)]
            assert all(born <= at <= END for at in found), one
            if one["resourceType"] == "Condition":
                assert moment(one["onsetDateTime"]) <= moment(one["recordedDate"])
                assert one.get("abatementDateTime", "9") >= one["recordedDate"][:10]
            if one["resourceType"] == "Encounter":
                assert one["period"]["start"] <= one["period"]["end"]
        starts = [one["period"]["start"] for one in chart if one["resourceType"] == "Encounter"]
        assert starts == sorted(starts)


def test_no_allergy_stands_alone() -> None:
    """Some charts say that no allergy is known; these name none."""
    said: Counter[bool] = Counter()
    for seed in range(60):
        codes = {
            one["code"]["coding"][0]["code"]
            for one in synthetic_chart(f"allergies {seed}", facts=20)
            if one["resourceType"] == "AllergyIntolerance"
        }
        assert codes
        assert "716186003" not in codes or len(codes) == 1
        said["716186003" in codes] += 1
    assert set(said) == {True, False}


def test_the_same_seed_is_the_same_bytes() -> None:
    """A seed says every byte, also in a new process with other hashes, and for ever; another seed says others."""
    code = (
        "import hashlib, orjson; from engine.interchange.clinical.synthetic.chart import synthetic_chart;"
        "print(hashlib.sha256(orjson.dumps(synthetic_chart('7', facts=200))).hexdigest())"
    )
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
    assert printed == digest(synthetic_chart("7", facts=200)) == DIGEST
    assert digest(synthetic_chart("8", facts=200)) != DIGEST


@pytest.mark.parametrize("birth", ["2026-11-02", "2026-02-28", "1931", "2020-05"])
def test_a_chart_of_a_known_patient(birth: str) -> None:
    """The chart of a given patient is its own: its resource, its id, its age; one without an id gets one."""
    given = {"resourceType": "Patient", "id": "abc", "birthDate": birth, "gender": "male"}
    patient, *chart = synthetic_chart("1", facts=80, patient=given)
    assert patient == given
    subjects = {one.get("subject", one.get("patient", {})).get("reference") for one in chart}
    assert subjects <= {"Patient/abc", None}
    born = birth_of(given)
    assert all(born <= moment(text) for one in chart for text in times(one))
    assert all(defects(one, FhirVersion.R4) == () for one in chart)
    unnamed = synthetic_chart("1", patient={"resourceType": "Patient"})
    assert references(unnamed[-1]) is not None
    assert unnamed[0]["id"]


def test_a_transaction_holds_its_references() -> None:
    """In a Bundle every reference leads to an entry of it, and no resource has an id."""
    bundle = transaction(synthetic_chart("1"))
    assert defects(bundle, FhirVersion.R4) == ()
    addresses = {entry["fullUrl"] for entry in bundle["entry"]}
    assert set(references(bundle["entry"])) <= addresses
    assert not any("id" in entry["resource"] for entry in bundle["entry"])


def test_simulated_charts_are_accepted(service: Running, tmp_path: Path) -> None:
    """What `interchange simulate` writes, the service takes as it is, and shows whole; nothing is written over."""
    folder = tmp_path / "charts"
    command = ["interchange", "simulate", "--patients", "3", "--facts", "100", "--seed", "5", "--folder", str(folder)]
    assert CliRunner().invoke(app, command).stdout == f"3 charts of 100 facts in {folder}\n"
    files = sorted(folder.iterdir())
    assert [file.name for file in files] == ["000001.json", "000002.json", "000003.json"]
    for file in files:
        answer = service.ask("POST", "/fhir/R4", json=orjson.loads(file.read_bytes()))
        assert answer.status_code == 200, answer.text
        statuses = {entry["response"]["status"] for entry in answer.json()["entry"]}
        assert statuses == {"201 Created"}
        patient_id = answer.json()["entry"][0]["response"]["location"].split("/Patient/")[1].split("/")[0]
        assert len(everything(service, "/fhir/R4", patient_id, "_count=200")) == 107
        assert len(everything(service, "/fhir", patient_id, "_count=200")) == 107
    assert isinstance(CliRunner().invoke(app, command).exception, UsageError)


def test_children_are_not_married() -> None:
    """Who is not eighteen at the end of the chart has never married; of those who are, some have."""
    people = [synthetic_chart(str(seed), facts=0)[0] for seed in range(60)]
    married = {person["birthDate"] for person in people if person["maritalStatus"]["coding"][0]["code"] == "M"}
    latest = max(person["birthDate"] for person in people)
    assert married
    assert int(max(married)[:4]) <= int(latest[:4]) - 17
