"""Bundles of other servers as facts: their references, what they may not be, and what of them is left out."""

import gzip
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.fhir.schema import FhirVersion
from engine.interchange.clinical.facts import PATIENT, UnreadableDocumentError, UnreadableReason
from engine.interchange.clinical.synthetic.chart import synthetic_chart, transaction
from engine.interchange.kernel.exact import read_json, write_json
from engine.interchange.kernel.view import to_version
from engine.interchange.network.patient360.own import repointed, resolved
from engine.interchange.network.patient360.reading_bundle import READ, read_bundle
from tests.interchange.ccda.written import the, valid
from tests.interchange.resources import resources
from tests.tiers import trials

Json = Any

MARISOL = {
    "resourceType": "Patient",
    "id": "p1",
    "identifier": [{"system": "https://mrn.example", "value": "7"}],
    "name": [{"family": "Quintero", "given": ["Marisol"]}],
    "gender": "female",
    "birthDate": "1984-02-29",
}
CONDITION = {
    "resourceType": "Condition",
    "id": "c1",
    "meta": {"versionId": "4"},
    "subject": {"reference": "Patient/p1"},
    "code": {"text": "Asthma"},
}


def bundle(*resources: Json, kind: str = "collection", base: str = "https://there.example/fhir/") -> bytes:
    """Return a Bundle of resources, each at its address."""
    entries = [{"fullUrl": f"{base}{one['resourceType']}/{one['id']}", "resource": one} for one in resources]
    return orjson.dumps({"resourceType": "Bundle", "type": kind, "entry": entries})


def read(*resources: Json) -> list[Json]:
    """Return the facts of a Bundle of R4 resources about the patient, each of which must be valid."""
    return valid(read_bundle(bundle(MARISOL, *resources), FhirVersion.R4))


def test_a_bundle_says_whose_it_is_and_what_is_so() -> None:
    """The Patient is the identity and no fact; a fact has neither the patient nor what its server kept of it."""
    facts = read_bundle(bundle(CONDITION, MARISOL, kind="searchset"), FhirVersion.R4)
    assert (facts.identity.family, facts.identity.birth_date, facts.identity.gender) == (
        "Quintero",
        "1984-02-29",
        "female",
    )
    assert facts.identity.identifiers == (("https://mrn.example", "7"),)
    (condition,) = valid(facts)
    assert condition == {"resourceType": "Condition", "id": condition["id"], "code": {"text": "Asthma"}}
    assert facts.unread == 0


@pytest.mark.parametrize("version", list(FhirVersion))
def test_a_whole_chart_is_read_in_both_versions(version: FhirVersion) -> None:
    """Of a chart of every type each resource becomes a fact, and the references among them lead to each other."""
    chart = synthetic_chart("reading", facts=120)
    if version is FhirVersion.STU3:
        chart = [read_json(to_version(write_json(one), one["resourceType"], version)) for one in chart]
    facts = read_bundle(write_json(transaction(chart)), version)
    found = valid(facts)
    assert (len(found), facts.unread) == (len(chart) - 1, 0)
    texts = write_json(found)
    assert texts.count(b'"reference":"urn:uuid:') == texts.count(b'"reference":')
    assert b'"type":"Practitioner","identifier"' not in texts


def test_references_are_found_by_address_and_by_type_and_id() -> None:
    """An absolute one, a relative one and one with a version lead to the entry; one that leads out is told."""
    encounter = {
        "resourceType": "Encounter",
        "id": "e1",
        "status": "finished",
        "class": {"code": "AMB"},
        "subject": {"reference": "https://there.example/fhir/Patient/p1/_history/3"},
        "serviceProvider": {"reference": "Organization/gone", "display": "Pine Ridge"},
        "partOf": {"reference": "https://elsewhere.example/fhir/Encounter/9"},
    }
    condition = {
        **CONDITION,
        "encounter": {"reference": "Encounter/e1/_history/2"},
        "asserter": {"reference": "https://there.example/fhir/Patient/p1"},
    }
    found = read(encounter, condition)
    visit = the(found, "Encounter")
    assert the(found, "Condition")["encounter"] == {"reference": f"urn:uuid:{found[0]['id']}"}
    assert the(found, "Condition")["asserter"] == {"reference": PATIENT}
    assert visit["serviceProvider"] == {
        "type": "Organization",
        "identifier": {"value": "Organization/gone"},
        "display": "Pine Ridge",
    }
    assert visit["partOf"]["identifier"] == {
        "system": "urn:ietf:rfc:3986",
        "value": "https://elsewhere.example/fhir/Encounter/9",
    }


def test_the_same_id_at_two_servers_is_two_resources() -> None:
    """A relative reference leads to the entry of the same server."""
    ours = {"resourceType": "Encounter", "id": "1", "status": "finished", "class": {"code": "AMB"}}
    ours["subject"] = {"reference": "https://a.example/Patient/p1"}
    theirs = {**ours, "class": {"code": "EMER"}}
    condition = {**CONDITION, "subject": ours["subject"], "encounter": {"reference": "Encounter/1"}}
    entries = [
        {"fullUrl": "https://a.example/Patient/p1", "resource": MARISOL},
        {"fullUrl": "https://a.example/Encounter/1", "resource": ours},
        {"fullUrl": "https://b.example/Encounter/1", "resource": theirs},
        {"fullUrl": "https://b.example/Condition/c1", "resource": condition},
    ]
    body = orjson.dumps({"resourceType": "Bundle", "type": "collection", "entry": entries})
    found = valid(read_bundle(body, FhirVersion.R4))
    emergency = next(one for one in found if one.get("class", {}).get("code") == "EMER")
    assert the(found, "Condition")["encounter"] == {"reference": f"urn:uuid:{emergency['id']}"}


def test_a_medication_becomes_the_code_of_what_names_it() -> None:
    """Whether the Medication is an entry or contained, the statement says which medicine it is."""
    medicine = {"resourceType": "Medication", "id": "m1", "code": {"text": "Metformin"}}
    statement = {"resourceType": "MedicationStatement", "status": "active", "subject": {"reference": "Patient/p1"}}
    entry = {**statement, "id": "s1", "medicationReference": {"reference": "Medication/m1"}}
    inner = {**statement, "id": "s2", "medicationReference": {"reference": "#m1"}, "contained": [medicine]}
    found = read(medicine, entry, inner)
    assert [one["medicationCodeableConcept"] for one in found] == [{"text": "Metformin"}] * 2
    assert not any("contained" in one for one in found)


@pytest.mark.parametrize(
    "left_out",
    [
        pytest.param({**CONDITION, "code": "Asthma"}, id="not-valid"),
        pytest.param({**CONDITION, "resourceType": "Spaceship"}, id="no-type"),
        pytest.param(
            {"resourceType": "Appointment", "id": "a", "status": "booked", "participant": [{"status": "accepted"}]},
            id="not-kept",
        ),
        pytest.param({**CONDITION, "subject": {"reference": "Group/g1"}}, id="of-a-group"),
        pytest.param({**CONDITION, "subject": {"display": "Marisol"}}, id="of-nobody"),
        pytest.param(
            {
                "resourceType": "DocumentReference",
                "id": "d",
                "status": "current",
                "subject": {"reference": "Patient/p1"},
                "content": [{"attachment": {"url": "Binary/b1"}}],
            },
            id="content-at-its-server",
        ),
    ],
)
def test_what_is_not_read_is_counted(left_out: Json) -> None:
    """The rest of the Bundle is read all the same."""
    facts = read_bundle(bundle(MARISOL, left_out, {**CONDITION, "id": "c2"}), FhirVersion.R4)
    assert len(valid(facts)) == 1
    assert facts.unread == 1


def test_a_bundle_of_a_document_says_what_it_is() -> None:
    """Title, type and custodian of the Composition, identifier and timestamp of the Bundle."""
    composition = {
        "resourceType": "Composition",
        "id": "co",
        "status": "final",
        "type": {"text": "Summary"},
        "date": "2025-07-01",
        "author": [{"display": "A"}],
        "title": "Summary of care",
        "custodian": {"reference": "Organization/o"},
    }
    organization = {"resourceType": "Organization", "id": "o", "name": "Pine Ridge"}
    body = read_json(bundle(composition, MARISOL, organization, kind="document"))
    body |= {"identifier": {"system": "urn:oid:1.2", "value": "9"}, "timestamp": "2025-07-01T10:00:00Z"}
    facts = read_bundle(write_json(body), FhirVersion.R4)
    assert (facts.title, facts.type, facts.author) == ("Summary of care", {"text": "Summary"}, "Pine Ridge")
    assert (facts.document_id, facts.at, facts.unread) == ("urn:oid:1.2|9", "2025-07-01T10:00:00Z", 0)


def test_the_address_of_an_expression_is_no_reference() -> None:
    """An Expression has a `reference` too: it stays as it came, in what is read and in what is kept."""
    condition = {"language": "text/cql", "reference": "http://pine.example/a"}
    trigger = {"type": "data-added", "condition": condition}
    made = {**CONDITION, "extension": [{"url": "http://pine.example/b", "valueTriggerDefinition": trigger}]}
    [read] = valid(read_bundle(bundle(MARISOL, made), FhirVersion.R4))
    assert read["extension"] == made["extension"]
    assert resolved(read, {})["extension"] == made["extension"]
    assert repointed(read, {}, lambda _one: False)["extension"] == made["extension"]


def nested(levels: int) -> bytes:
    """Return a Bundle with an extension within an extension, and so on."""
    inner = b'{"url":"x","extension":[' * levels + b'{"url":"x","valueCode":"x"}' + b"]}" * levels
    return b'{"resourceType":"Bundle","type":"collection","extension":[' + inner + b"]}"


OTHER = {**MARISOL, "id": "p2", "name": [{"family": "Zanzibar"}]}


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        pytest.param(b"", UnreadableReason.NOT_JSON, id="empty"),
        pytest.param(b"<Bundle/>", UnreadableReason.NOT_JSON, id="xml"),
        pytest.param(b"\xff\xfe{\x00}\x00", UnreadableReason.NOT_JSON, id="utf-16"),
        pytest.param(gzip.compress(bundle(MARISOL)), UnreadableReason.NOT_JSON, id="gzip"),
        pytest.param(bundle(MARISOL)[:-1], UnreadableReason.NOT_JSON, id="truncated"),
        pytest.param(b'{"resourceType":"Bundle","resourceType":"Bundle"}', UnreadableReason.NOT_JSON, id="a-key-twice"),
        pytest.param(b'{"resourceType":"Bundle","type":"\\u0000"}', UnreadableReason.NOT_JSON, id="nul"),
        pytest.param(b'{"resourceType":"Bundle","type":NaN}', UnreadableReason.NOT_JSON, id="nan"),
        pytest.param(nested(60), UnreadableReason.TOO_DEEP, id="deep"),
        pytest.param(b"[" * 5_000 + b"]" * 5_000, UnreadableReason.TOO_DEEP, id="deeper-than-a-parser-goes"),
        pytest.param(b"[" + b" " * 20_000_000, UnreadableReason.TOO_LARGE, id="large"),
        pytest.param(
            b'{"resourceType":"Bundle","type":"collection","entry":[' + b"{}," * 50_000 + b"{}]}",
            UnreadableReason.TOO_LARGE,
            id="many-entries",
        ),
        pytest.param(b"[]", UnreadableReason.NOT_A_DOCUMENT, id="list"),
        pytest.param(orjson.dumps(MARISOL), UnreadableReason.NOT_A_DOCUMENT, id="no-bundle"),
        pytest.param(bundle(MARISOL, kind="history"), UnreadableReason.NOT_A_DOCUMENT, id="history"),
        pytest.param(bundle(MARISOL, kind="Zanzibar"), UnreadableReason.NOT_A_DOCUMENT, id="no-type"),
        pytest.param(
            b'{"resourceType":"Bundle","type":"collection","entry":{}}', UnreadableReason.NOT_A_DOCUMENT, id="entries"
        ),
        pytest.param(b'{"resourceType":"Bundle","type":"collection"}', UnreadableReason.NO_PATIENT, id="nobody"),
        pytest.param(bundle({**MARISOL, "gender": "Zanzibar"}), UnreadableReason.NO_PATIENT, id="no-valid-patient"),
        pytest.param(bundle(MARISOL, OTHER), UnreadableReason.TWO_PATIENTS, id="two-patients"),
        pytest.param(
            bundle(MARISOL, {**CONDITION, "subject": {"reference": "Patient/Zanzibar"}}),
            UnreadableReason.TWO_PATIENTS,
            id="a-fact-of-another",
        ),
        pytest.param(
            bundle(MARISOL, {**CONDITION, "subject": {"reference": "https://b.example/Patient/p1"}}),
            UnreadableReason.TWO_PATIENTS,
            id="the-same-id-elsewhere",
        ),
    ],
)
def test_a_hostile_bundle_is_refused_with_its_reason(body: bytes, reason: UnreadableReason) -> None:
    """Each has its reason; the text of the error is always the same, and holds nothing of the Bundle."""
    with pytest.raises(UnreadableDocumentError) as refused:
        read_bundle(body, FhirVersion.R4)
    assert refused.value.reason is reason
    assert str(refused.value) == str(UnreadableDocumentError(reason))
    assert refused.value.__suppress_context__ or refused.value.__context__ is None


@pytest.mark.property
@pytest.mark.parametrize("version", list(FhirVersion))
@given(st.data())
@settings(max_examples=trials(60))
def test_any_valid_resource_becomes_a_valid_fact(version: FhirVersion, data: st.DataObject) -> None:
    """Resources made of HL7's definitions alone: what is read is valid, whatever else they have."""
    name = data.draw(st.sampled_from([*READ, "Composition", "Medication", "Observation"]))
    if version is FhirVersion.STU3:
        name = {"ServiceRequest": "ProcedureRequest"}.get(name, name)
    made = data.draw(resources(name, version))
    for holder in ("subject", "patient", "beneficiary"):
        made |= {holder: {"reference": "Patient/p1"}} if holder in made else {}
    made["id"] = "x"
    patient = read_json(to_version(write_json(MARISOL), "Patient", version))
    valid(read_bundle(bundle(patient, made), version))


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=5)
    | st.sampled_from(["Patient", "Bundle", "Patient/p1"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["resourceType", "subject", "reference", "id", "name", "code"]), inner, max_size=4
        )
    ),
    max_leaves=12,
)


@given(st.lists(JSON, max_size=4), JSON)
def test_any_json_is_read_or_refused(entries: list[Json], inner: Json) -> None:
    """Nothing but UnreadableDocumentError comes out of entries that nobody chose."""
    body = {
        "resourceType": "Bundle",
        "type": "collection",
        "entry": [{"resource": MARISOL}, *entries, {"resource": inner, "fullUrl": inner}],
    }
    try:
        facts = read_bundle(orjson.dumps(body), FhirVersion.R4)
    except (UnreadableDocumentError, orjson.JSONEncodeError):
        return
    valid(facts)
