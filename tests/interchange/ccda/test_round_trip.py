"""Charts written as documents and read again: the same facts, and what of them no document carries."""

from pathlib import Path

import httpx
import pytest

from engine.interchange.clinical.ccda.reading.document import read_ccda
from engine.interchange.clinical.synthetic.chart import synthetic_chart, transaction
from engine.interchange.network.patient360.connectors.connector import CCDA, RetrievedDocument
from engine.interchange.network.patient360.reading_bundle import read_document
from engine.interchange.network.patient360.retrieve import KIND, retrieval
from tests.interchange.ccda.charts import hostile, the_least, written
from tests.interchange.ccda.round_trip import charted, facts_of
from tests.interchange.ccda.written import valid
from tests.interchange.jobs import ended
from tests.interchange.kit import Running, running_inside
from tests.interchange.patient360.papers import ADDRESS, Shelf


@pytest.mark.parametrize("seed", ["a", "b", "c"])
def test_what_was_written_is_read_as_the_same_facts(seed: str) -> None:
    """Each fact of a chart comes back once, with its codes, dates, values and status; nothing comes beside them."""
    chart = synthetic_chart(seed, facts=150)
    facts = read_ccda(written(chart))
    valid(facts)
    before, after = facts_of(chart[1:]), facts_of(charted(facts, chart[0])[1:])
    assert (before - after, after - before) == ({}, {})


@pytest.mark.parametrize(
    "chart", [synthetic_chart("again", facts=150), the_least(), hostile()], ids=["invented", "least", "hostile"]
)
def test_what_was_read_is_written_and_read_again_as_it_is(chart: list[object]) -> None:
    """From the second document on nothing changes any more, whatever the first chart was."""
    first = charted(read_ccda(written(chart)), chart[0])
    again = charted(read_ccda(written(first)), chart[0])
    one, other = facts_of(first[1:]), facts_of(again[1:])
    assert (one - other, other - one) == ({}, {})


def test_a_document_is_imported_into_an_empty_tenant_and_exported_again(tmp_path: Path) -> None:
    """Over HTTP: what one tenant exported and another retrieved is, exported there, the same facts; again adds none."""
    shelf = Shelf("riverbend")
    work = retrieval(lambda _service, _tenant: [shelf], read_document)
    with running_inside(tmp_path, {KIND: work}) as service:
        chart = synthetic_chart("http", facts=60)
        chart[0] |= {"address": ADDRESS}
        here = created(service.ask("POST", "/fhir/R4", json=transaction(chart)))
        there = service.ask("POST", "/fhir/R4", json=transaction(chart[:1]), client="other")
        first = exported(service, here, "physician")
        shelf.documents.append(RetrievedDocument("riverbend", "1", "2026-03-02T12:30:15Z", CCDA, first))
        counted = [retrieve(service, created(there)) for _ in range(2)]
        second = exported(service, created(there), "other")
    one, other = (facts_of(charted(read_ccda(body), chart[0])[1:]) for body in (first, second))
    assert counted == [(1, one.total()), (0, 0)]
    assert (one - other, other - one) == ({}, {})


def created(answer: httpx.Response) -> str:
    """Return the id of the patient that a transaction has created."""
    assert answer.status_code == 200, answer.text
    return str(answer.json()["entry"][0]["response"]["location"].split("Patient/")[1].split("/")[0])


def exported(service: Running, patient_id: str, client: str) -> bytes:
    """Return a patient's document, made at once."""
    answer = service.ask("POST", f"/fhir/R4/Patient/{patient_id}/$export-ccda", client=client)
    assert answer.status_code == 200, answer.text
    return answer.content


def retrieve(service: Running, patient_id: str) -> tuple[int, int]:
    """Retrieve what others know of a patient of the other tenant; return documents imported and facts added."""
    path = f"/fhir/DocumentReference/$p360-retrieve?patient={patient_id}"
    answer = service.ask("POST", path, client="other", headers={"prefer": "respond-async"})
    assert answer.status_code == 202, answer.text
    done = ended(service, answer.headers["location"].removeprefix(service.url), client="other")
    assert done.status_code == 200, done.text
    told = {one["name"]: one.get("valueInteger") for one in done.json()["parameter"]}
    return told["documentsImported"], told["factsAdded"]
