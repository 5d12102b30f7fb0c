import asyncio
from collections.abc import Iterator
from itertools import permutations
from pathlib import Path
from time import sleep
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.fhir.schema import FhirVersion, defects
from engine.interchange.clinical.facts import DocumentFacts, DocumentIdentity
from engine.interchange.jobs.job import CancelledJobError, JobFailedError
from engine.interchange.kernel.exact import write_json
from engine.interchange.kernel.outcome import Issue
from engine.interchange.network.patient360.connectors.connector import FHIR, RetrievedDocument
from engine.interchange.network.patient360.importing import DocumentOutcome, Importer
from engine.interchange.network.patient360.reading_bundle import read_document
from engine.interchange.network.patient360.record import Words
from engine.interchange.store import job as rows
from tests.interchange.kit import SYSTEM, patient
from tests.interchange.patient360.papers import MARISOL, Chart, numbered, paper, read_paper, reference, urn
from tests.interchange.patient360.test_deduplicate import LOINC, SNOMED, coded, drug, problem, result
from tests.tiers import trials

pytestmark = pytest.mark.asyncio
Json = Any
PINE, LAKE = "Pine Ridge Hospital", "Lake HIE"
PENICILLIN = {
    "resourceType": "AllergyIntolerance",
    "code": coded("http://www.nlm.nih.gov/research/umls/rxnorm", "7980"),
    "clinicalStatus": coded("http://terminology.hl7.org/CodeSystem/allergyintolerance-clinical", "active"),
}


ERROR = coded("http://terminology.hl7.org/CodeSystem/condition-ver-status", "entered-in-error")


@pytest.fixture
def chart(tmp_path: Path) -> Iterator[Chart]:
    """A patient's empty chart."""
    made = Chart(tmp_path / "own")
    yield made
    made.close()


async def test_a_document_and_its_facts(chart: Chart) -> None:
    """C-364: facts have our ids, our patient and tags that say they are from outside; the document stands beside."""
    document = paper(PINE, result(), problem(code=coded("urn:oid:2.16.840.1.113883.6.90", "e119")))
    (outcome,) = await chart.take(document)
    assert (outcome.ended, outcome.counts["added"]) == (DocumentOutcome.IMPORTED, 2)
    for resource in chart.resources():
        assert defects(resource, FhirVersion.R4) == ()
        assert len(resource["id"]) == 24
    observation, condition = chart.facts()
    assert observation["subject"] == {"reference": f"Patient/{chart.id}"}
    assert condition["code"]["coding"][0] == {"system": "http://hl7.org/fhir/sid/icd-10-cm", "code": "E11.9"}
    assert condition["code"]["coding"][1]["code"] == "e119"
    assert observation["meta"]["tag"] == [{"system": f"{SYSTEM}/fhir/CodeSystem/record-source", "code": "external"}]
    assert observation["meta"]["source"] == f"{SYSTEM}/source/Pine%20Ridge%20Hospital"


async def test_the_document_itself(chart: Chart) -> None:
    """The document is kept as it came, with who it is from, its hash and what people read in it."""
    document = paper(PINE, result())
    await chart.take(document)
    (kept,) = chart.resources("DocumentReference")
    attachment = kept["content"][0]["attachment"]
    (binary,) = chart.resources("Binary")
    assert attachment["url"] == reference(binary)
    assert attachment["size"] == len(document.body)
    assert kept["masterIdentifier"]["value"].startswith("urn:uuid:")
    assert kept["author"] == [{"type": "Organization", "display": PINE}]
    assert "None known" in kept["text"]["div"]
    (provenance,) = chart.resources("Provenance")
    assert provenance["entity"][0]["what"]["reference"] == reference(kept)
    assert "tag" in provenance["meta"]
    assert len(provenance["meta"]["tag"]) == 1  # not importing any more
    assert {one["reference"] for one in provenance["target"]} == {
        f"{reference(kept)}/_history/1",
        f"{reference(chart.facts()[0])}/_history/1",
    }


async def test_one_fact_of_two_sources(chart: Chart) -> None:
    """Two sources that state the same make one resource, behind which both stand."""
    await chart.take(paper(PINE, result()), paper(LAKE, result(effectiveDateTime="2024-03-05T15:15:00Z")))
    (one,) = chart.facts()
    assert chart.standing_behind(reference(one)) == {PINE, LAKE}


async def test_the_same_again(chart: Chart) -> None:
    """C-356: a second retrieval adds nothing and changes nothing."""
    documents = [paper(PINE, result(), problem()), paper(LAKE, problem(), drug())]
    await chart.take(*documents)
    before = chart.resources()
    outcomes = await chart.take(*documents)
    assert [outcome.reason for outcome in outcomes] == ["known-document", "known-document"]
    again = [paper(PINE, problem(), result(), name="2"), paper(LAKE, drug(), name="2")]
    outcomes = await chart.take(*again)
    assert [outcome.counts["added"] + outcome.counts["updated"] for outcome in outcomes] == [0, 0]
    facts = {reference(one): one for one in before}
    assert all(fact == facts[reference(fact)] for fact in chart.facts())


async def test_a_document_twice_in_one_retrieval(chart: Chart) -> None:
    """The same bytes from two sources, and the same document by another, are one document."""
    document = paper(PINE, result())
    copy = RetrievedDocument(LAKE, "copy", document.at, document.media_type, document.body)
    assert [one.reason for one in await chart.take(document, copy)] == ["", "duplicate-document"]
    altered = RetrievedDocument(LAKE, "copy", document.at, document.media_type, document.body + b" ")
    assert [one.reason for one in await chart.take(altered)] == ["duplicate-document"]
    assert len(chart.resources("DocumentReference")) == 1


async def test_a_later_version_updates(chart: Chart) -> None:
    """What the same source says later of the same number takes its place; an older one does not."""
    first, second, third = (result(valueQuantity={"value": value, "unit": "mg/dL"}) for value in (98, 99, 100))
    system = "urn:oid:1.2.3"
    old, new, late = (
        paper(PINE, *numbered([fact], system), at=at, name=at)
        for fact, at in ((first, "2024-03-06"), (second, "2024-03-08"), (third, "2024-03-07"))
    )
    for document in (old, new, late):
        await chart.take(document)
    (one,) = chart.facts()
    assert one["valueQuantity"]["value"] == 99
    assert one["meta"]["versionId"] == "2"


async def test_a_new_version_of_a_document(chart: Chart) -> None:
    """A document that comes again, newer, is the same one; what it wrote before is still its own to update."""
    number = [{"system": "urn:oid:1.2.3", "value": "1"}]
    for at, changed in (("2024-03-06", {}), ("2024-03-07", {}), ("2024-03-08", {"note": [{"text": "n"}]})):
        (outcome,) = await chart.take(paper(PINE, problem(identifier=number, **changed), drug(), at=at))
    assert (outcome.counts["kept"], outcome.counts["updated"], outcome.counts["known"]) == (0, 1, 1)
    assert len(chart.resources("DocumentReference")) == len(chart.resources("Provenance")) == 1
    (old,) = await chart.take(paper(PINE, problem(), at="2024-03-06"))
    assert old.reason == "older-document"


async def test_what_a_document_tells_of_another_one(chart: Chart) -> None:
    """A Bundle that holds a reference to a document that was imported says nothing new, and takes nothing of it."""
    await chart.take(paper(PINE, problem()))
    document = chart.resources("DocumentReference")[0]
    assert document["type"]["coding"][0]["code"] == "11503-0"
    told = {name: document[name] for name in ("resourceType", "masterIdentifier", "status")}
    for status in ("current", "entered-in-error"):
        content = [{"attachment": {"url": "https://elsewhere.example/1"}}]
        again = {**told, "status": status, "content": content}
        (outcome,) = await chart.take(paper(LAKE, again, at="2025-01-01", name=status))
        assert (outcome.counts["known"], outcome.counts["added"]) == (1, 0)
    assert chart.resources("DocumentReference")[0] == document
    at_once = chart.another()
    content = [{"attachment": {"url": "https://elsewhere.example/1"}}]
    outcomes = await at_once.take(paper(PINE, problem()), paper(LAKE, {**told, "content": content}, name="at once"))
    assert [one.counts["added"] for one in outcomes] == [1, 0]


async def test_each_fact_has_its_own_moment(chart: Chart) -> None:
    """In a Bundle of today a fact that was stated long ago is no newer than that, and keeps who may see it."""
    label = {"system": "http://terminology.hl7.org/CodeSystem/v3-Confidentiality", "code": "R"}
    old, new = (
        {"resourceType": "Bundle", "type": "collection", "entry": entries(at, status)}
        for at, status in (("2019-01-01T00:00:00Z", "active"), ("2023-01-01T00:00:00Z", "stopped"))
    )
    old["entry"][1]["resource"]["meta"]["security"] = [label]
    importer = Importer(chart.service, await chart.job(), read_document, Words(SYSTEM))
    for organization, at, bundle in ((LAKE, "2023-02-01T00:00:00Z", new), (PINE, "2026-01-01T00:00:00Z", old)):
        document = RetrievedDocument(organization, organization, at, FHIR, write_json({**bundle, "timestamp": at}))
        assert (await importer.take(document)).ended is DocumentOutcome.IMPORTED
    (one,) = chart.facts()
    assert (one["status"], one["meta"]["security"]) == ("stopped", [label])


def entries(at: str, status: str) -> list[Json]:
    """Return the patient and a prescription that was stated at a moment, as entries of a Bundle."""
    who = {**patient(), "id": "p"}
    stated = drug(status=status, id="d", meta={"lastUpdated": at}, subject={"reference": "Patient/p"})
    return [
        {"fullUrl": f"https://a.example/{one['resourceType']}/{one['id']}", "resource": one} for one in (who, stated)
    ]


async def test_a_large_document(chart: Chart) -> None:
    """A document of many facts has several Provenance, each fact is in one of them, and none says it is unfinished."""
    facts = [result(valueQuantity={"value": value, "unit": "mg/dL"}) for value in range(250)]
    for _ in range(2):
        await chart.take(paper(PINE, *facts))
        told = [one["reference"] for source in chart.resources("Provenance") for one in source["target"]]
        assert len(told) == len(set(told)) == 251
        assert [len(resource["meta"]["tag"]) for resource in chart.resources("Provenance")] == [1] * 6
    await chart.take(paper(PINE, *facts, name="2"))
    assert len(chart.facts()) == 250


async def test_what_another_source_says_stays(chart: Chart) -> None:
    """A source that corrects itself does not change what another one states."""
    first, second = (result(valueQuantity={"value": value, "unit": "mg/dL"}) for value in (98, 99))
    await chart.take(paper(PINE, *numbered([first], "urn:oid:1.2.3")), paper(LAKE, first))
    await chart.take(paper(PINE, *numbered([second], "urn:oid:1.2.3"), at="2024-04-01", name="2"))
    assert [fact["valueQuantity"]["value"] for fact in chart.facts()] == [98, 99]


@pytest.mark.parametrize(("also", "left"), [(False, [99]), (True, [98, 99])])
async def test_a_correction_to_what_is_known(chart: Chart, *, also: bool, left: list[int]) -> None:
    """What a source corrects to what another states is entered in error, unless somebody else says it still."""
    first, second = (result(valueQuantity={"value": value, "unit": "mg/dL"}) for value in (98, 99))
    await chart.take(paper(PINE, *numbered([first], "urn:oid:1.2.3")), paper(LAKE, second))
    if also:
        await chart.take(paper(HILL, first))
    (outcome,) = await chart.take(paper(PINE, *numbered([second], "urn:oid:1.2.3"), at="2024-04-01", name="2"))
    assert outcome.counts["withdrawn"] == (not also)
    assert sorted(fact["valueQuantity"]["value"] for fact in chart.facts()) == left


async def test_a_corrected_fact_beside_what_it_was(chart: Chart) -> None:
    """A document that corrects a numbered fact, and states its former value as another one, has said two things."""
    first, second = (result(valueQuantity={"value": value, "unit": "mg/dL"}) for value in (98, 99))
    await chart.take(paper(PINE, *numbered([first], "urn:oid:1.2.3")))
    await chart.take(paper(PINE, *numbered([second], "urn:oid:1.2.3"), first, at="2024-04-01", name="2"))
    assert sorted(fact["valueQuantity"]["value"] for fact in chart.facts()) == [98, 99]


async def test_details_are_kept_of_the_others(tmp_path: Path) -> None:
    """The newest statement leads; the reaction that only an older one knows stays, whichever comes first."""
    old = paper(PINE, {**PENICILLIN, "reaction": [{"manifestation": [{"text": "Anaphylaxis"}]}]}, at="2020-01-01")
    inactive = coded("http://terminology.hl7.org/CodeSystem/allergyintolerance-clinical", "inactive")
    new = paper(LAKE, {**PENICILLIN, "clinicalStatus": inactive}, at="2024-01-01")
    for documents in ((old, new), (new, old)):
        other = Chart(tmp_path / documents[0].organization)
        await other.take(*documents)
        (one,) = other.facts()
        assert one["clinicalStatus"]["coding"][0]["code"] == "inactive"
        assert one["reaction"][0]["manifestation"][0]["text"] == "Anaphylaxis"
        other.close()


async def test_what_was_changed_here_stays(chart: Chart) -> None:
    """What a clinician has changed is not overwritten, and the import says so."""
    number = [{"system": "urn:oid:1.2.3", "value": "1"}]
    await chart.take(paper(PINE, problem(identifier=number)))
    (one,) = chart.facts()
    await _edit(chart, one, note=[{"text": "Seen by me"}])
    resolved = coded("http://terminology.hl7.org/CodeSystem/condition-clinical", "resolved")
    later = paper(PINE, problem(identifier=number, clinicalStatus=resolved), at="2024-04-01", name="2")
    (outcome,) = await chart.take(later)
    assert outcome.counts["kept"] == 1
    (kept,) = chart.facts()
    assert kept["note"] == [{"text": "Seen by me"}]
    assert kept["clinicalStatus"]["coding"][0]["code"] == "active"
    told = chart.resources("Provenance")[-1]["target"]
    (target,) = [target for target in told if target["reference"] == reference(one)]
    assert target["extension"][0]["valueCode"] == "changed-here"
    corrected = paper(PINE, problem(identifier=number, onsetDateTime="2020"), at="2024-05-01", name="3")
    (outcome,) = await chart.take(corrected)
    assert (outcome.counts["kept"], outcome.counts["added"]) == (1, 0)


async def test_what_is_changed_here_meanwhile(chart: Chart) -> None:
    """Who changes a resource between the reading of the chart and the writing is not overwritten either."""
    number = [{"system": "urn:oid:1.2.3", "value": "1"}]
    await chart.take(paper(PINE, problem(identifier=number)))
    (one,) = chart.facts()
    loop = asyncio.get_running_loop()
    read = 0

    def reading(document: RetrievedDocument) -> DocumentFacts:
        nonlocal read
        read += 1
        if read == 1:
            asyncio.run_coroutine_threadsafe(_edit(chart, one, note=[{"text": "Seen by me"}]), loop).result(10)
        return read_paper(document)

    importer = Importer(chart.service, await chart.job(), reading, Words(SYSTEM))
    later = paper(PINE, problem(identifier=number, severity={"text": "mild"}), at="2024-04-01", name="2")
    outcome = await importer.take(later)
    assert (read, outcome.counts["kept"], outcome.counts["updated"]) == (2, 1, 0)
    assert chart.facts()[0]["note"] == [{"text": "Seen by me"}]


async def test_a_fault_of_ours_ends_one_document(chart: Chart) -> None:
    """What no reader foresaw fails the document that brings it to light; the next one is imported."""

    def read(document: RetrievedDocument) -> DocumentFacts:
        if document.id == "bad":
            raise KeyError("Quintero")
        return read_paper(document)

    importer = Importer(chart.service, await chart.job(), read, Words(SYSTEM))
    outcomes = [await importer.take(paper(PINE, problem(), name=name)) for name in ("bad", "good")]
    assert [(outcome.ended, outcome.reason) for outcome in outcomes] == [
        (DocumentOutcome.FAILED, "service-fault"),
        (DocumentOutcome.IMPORTED, ""),
    ]
    assert len(chart.facts()) == 1


async def test_one_document_is_read_at_a_time(chart: Chart) -> None:
    """Retrievals beside each other read and compare in turn: a thread for each would slow every request."""
    reading, most = 0, 0

    def read(document: RetrievedDocument) -> DocumentFacts:
        nonlocal reading, most
        reading += 1
        most = max(most, reading)
        sleep(0.05)
        reading -= 1
        return read_paper(document)

    importers = [Importer(chart.service, await chart.job(), read, Words(SYSTEM)) for _ in range(3)]
    papers = [paper(PINE, problem(), name=str(number)) for number in range(3)]
    await asyncio.gather(*(one.take(said) for one, said in zip(importers, papers, strict=True)))
    assert most == 1


async def test_what_was_entered_in_error_here_stays_so(chart: Chart) -> None:
    """Who has entered an imported fact in error does not see it again from the same source."""
    await chart.take(paper(PINE, result()))
    await _edit(chart, chart.facts()[0], status="entered-in-error")
    (outcome,) = await chart.take(paper(PINE, result(), name="2", at="2024-04-01"))
    assert outcome.counts["kept"] == 1
    assert chart.facts() == []


async def test_what_was_entered_here_is_known(chart: Chart) -> None:
    """A fact that was entered here is not stored again, nor changed; the document stands behind it."""
    await chart.job()
    own = {**result(), "subject": {"reference": f"Patient/{chart.id}"}}
    store = chart.service.store
    await store.write("riverbend", lambda one: one.create("Observation", "own", own))
    await chart.take(paper(PINE, result(note=[{"text": "there"}])))
    (one,) = chart.facts()
    assert (one["id"], one["meta"]["versionId"]) == ("own", "1")
    assert "note" not in one
    assert chart.standing_behind("Observation/own") == {PINE}


async def test_a_source_takes_back(chart: Chart) -> None:
    """What its only source enters in error is so here; what another one still says stays."""
    number = [{"system": "urn:oid:1.2.3", "value": "1"}]
    error = coded("http://terminology.hl7.org/CodeSystem/condition-ver-status", "entered-in-error")
    gone = problem(identifier=number, verificationStatus=error)
    del gone["clinicalStatus"]
    await chart.take(paper(PINE, problem(identifier=number)))
    await chart.take(paper(PINE, gone, at="2024-04-01", name="2"))
    assert chart.facts() == []
    await chart.take(paper(LAKE, problem()))
    assert len(chart.facts()) == 1
    await chart.take(paper(PINE, gone, at="2024-05-01", name="3"))
    assert len(chart.facts()) == 1


async def test_references_follow(chart: Chart) -> None:
    """A report names the result that stands for its own, and what it names that is not kept, it names by its words."""
    await chart.take(paper(LAKE, result()))
    (known,) = chart.facts()
    report = {
        "resourceType": "DiagnosticReport",
        "status": "final",
        "code": coded(LOINC, "24331-1"),
        "effectiveDateTime": "2024-03-05",
    }
    plain = paper(PINE, report, result())
    named = {**report, "result": [{"reference": urn(plain, 1)}], "specimen": [{"reference": "urn:uuid:x"}]}
    await chart.take(paper(PINE, named, result()))
    (made,) = chart.resources("DiagnosticReport")
    assert made["result"] == [{"reference": reference(known)}]
    assert made["specimen"] == [{"display": "not imported"}]


async def test_the_directory(chart: Chart) -> None:
    """Practitioners that documents name are one entry however many name them, and ours where ours has the number."""
    npi = {"system": "urn:oid:2.16.840.1.113883.4.6", "value": "1659999990"}
    doctor = {"resourceType": "Practitioner", "identifier": [npi], "name": [{"family": "Osei"}]}
    for organization in (PINE, LAKE):
        fact = result(code=coded(LOINC, organization), performer=[{"reference": urn(paper(organization, doctor), 0)}])
        await chart.take(paper(organization, doctor, fact))
    (kept,) = chart.resources("Practitioner")
    assert kept["identifier"][0]["system"] == "http://hl7.org/fhir/sid/us-npi"
    assert {one["performer"][0]["reference"] for one in chart.facts()} == {reference(kept)}


@pytest.mark.parametrize(
    ("identity", "reason"),
    [
        (DocumentIdentity(("Ana",), "Quintero", "1984-02-29", "female"), "patient-mismatch"),
        (DocumentIdentity(("Marisol",), "Quintero", "1984-02-28", "female"), "patient-mismatch"),
        (MARISOL, ""),
    ],
)
async def test_whose_document(chart: Chart, identity: DocumentIdentity, reason: str) -> None:
    """A document of somebody else is not imported, and is told."""
    (outcome,) = await chart.take(paper(PINE, result(), identity=identity))
    assert (outcome.reason, len(chart.facts())) == (reason, 0 if reason else 1)


async def test_an_invalid_fact_fails_alone(chart: Chart) -> None:
    """A fact that is not valid is counted, and what stands beside it is imported."""
    (outcome,) = await chart.take(paper(PINE, {**result(), "status": "perhaps"}, problem()))
    assert (outcome.invalid, outcome.counts["added"]) == (1, 1)


async def test_two_facts_that_are_the_same_within_a_document(chart: Chart) -> None:
    """A document that says something twice has said it once; numbers that it repeats tell nothing."""
    repeated = [{"system": "urn:oid:1.2.3", "value": "template"}]
    twice = [result(identifier=repeated), result(identifier=repeated)]
    other = result(identifier=repeated, valueQuantity={"value": 5, "unit": "mg/dL"})
    await chart.take(paper(PINE, *twice, other))
    await chart.take(paper(PINE, result(identifier=repeated, valueQuantity={"value": 6}), name="2", at="2024-05-01"))
    assert len(chart.facts()) == 3


async def test_a_patient_who_is_gone(chart: Chart) -> None:
    """Where the patient was merged away meanwhile, the import ends and says so."""
    await chart.take(paper(PINE, result()))
    store = chart.service.store
    other = await store.write("riverbend", lambda one: one.create("Patient", "other", chart.patient))
    await store.write(
        "riverbend",
        lambda one: one.retire(found, found.resource(), other) if (found := one.get("Patient", chart.id)) else None,
    )
    with pytest.raises(JobFailedError) as failed:
        await chart.take(paper(LAKE, problem()))
    assert isinstance(failed.value.issues[0], Issue)
    assert "Patient/other" in failed.value.issues[0].diagnostics


async def test_an_attempt_that_is_over_writes_nothing(chart: Chart) -> None:
    """What a cancelled retrieval still has in hand is not written: the next one may be writing it already."""
    store, job = chart.service.store, await chart.job()
    await store.write("riverbend", lambda one: rows.add_job(one, job))
    taken = await store.write("riverbend", lambda one: rows.take_up(one.connection, 1, one.at))
    assert taken is not None
    importer = Importer(chart.service, taken.job, read_paper, Words(SYSTEM))
    await importer.take(paper(PINE, problem()))
    await store.write("riverbend", lambda one: rows.cancel(one.connection, taken, one.at))
    with pytest.raises(CancelledJobError):
        await importer.take(paper(LAKE, drug()))
    assert len(chart.facts()) == 1


async def test_a_merge_is_no_change_of_a_clinician(chart: Chart) -> None:
    """Resources that another patient's merge has moved are still what was imported."""
    number = [{"system": "urn:oid:1.2.3", "value": "1"}]
    await chart.take(paper(PINE, problem(identifier=number)))
    (one,) = chart.facts()
    store = chart.service.store
    await store.write("riverbend", lambda inner: inner.rewrite(inner.get("Condition", one["id"]), one))
    (outcome,) = await chart.take(paper(PINE, problem(identifier=number, note=[{"text": "n"}]), name="2", at="2025"))
    assert (outcome.counts["kept"], outcome.counts["updated"]) == (0, 1)


# What sources say of a few facts, each in several versions over time.
SLOTS = (
    (result(), result(valueQuantity={"value": 99, "unit": "mg/dL"}), result(status="entered-in-error")),
    (problem(), problem(onsetDateTime="2020", note=[{"text": "x"}]), problem(verificationStatus=ERROR)),
    (problem(code=coded(SNOMED, "38341003")),),
    (PENICILLIN, {**PENICILLIN, "criticality": "high"}),
    (drug(), drug(status="stopped")),
)
HILL = "Hill Lab"


@st.composite
def documents(draw: st.DrawFn) -> list[RetrievedDocument]:
    """Draw some documents of three sources, which overlap, repeat and contradict each other.

    The first numbers its facts, the second gives them no numbers, the third one number to all.
    """
    drawn = []
    for place in range(draw(st.integers(2, 4))):
        organization = draw(st.sampled_from([PINE, LAKE, HILL]))
        said = draw(st.dictionaries(st.integers(0, len(SLOTS) - 1), st.integers(0, 2), max_size=4))
        facts = []
        for slot, version in said.items():
            number = {PINE: str(slot), HILL: "template"}.get(organization)
            fact = SLOTS[slot][version % len(SLOTS[slot])]
            facts.append({**fact, **({"identifier": [{"system": "urn:oid:1.2", "value": number}]} if number else {})})
        drawn.append(paper(organization, *facts, at=f"2024-0{draw(st.integers(1, 3))}-01", name=str(place)))
    return drawn


@pytest.mark.property
@settings(max_examples=trials(25), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(drawn=documents(), data=st.data())
async def test_any_order_any_number_of_times(chart: Chart, drawn: list[RetrievedDocument], data: st.DataObject) -> None:
    """In any order, and any number of times, documents make the same set of facts; no two have one key."""
    orders = list(permutations(drawn))
    made = []
    for order in (drawn, data.draw(st.sampled_from(orders)), data.draw(st.sampled_from(orders))):
        own = chart.another()
        for document in order:
            await own.take(document)
        keys = own.keys()
        assert len(keys) == len(set(keys))
        await own.take(*drawn)
        assert own.keys() == keys
        made.append(keys)
    assert made[0] == made[1] == made[2]


async def _edit(chart: Chart, resource: Json, **elements: Any) -> None:
    changed = {**resource, **elements}
    store = chart.service.store

    def work(transaction: Any) -> None:
        transaction.update(transaction.get(resource["resourceType"], resource["id"]), changed)

    await store.write("riverbend", work)
