"""Entries of a C-CDA document as resources: each section, its statuses, dates, values and what is no fact."""

import pytest

from engine.interchange.clinical.ccda.reading import chart
from engine.interchange.clinical.ccda.reading.document import read_ccda, read_identity
from engine.interchange.clinical.facts import DocumentIdentity, DocumentSection
from tests.interchange.ccda.written import SYSTEMS, coded, document, section, the, told, valid, value

LOINC = "http://loinc.org"
NULL = "2.16.840.1.113883.5.1008"
SNOMED = "http://snomed.info/sct"
TEMPLATE = "2.16.840.1.113883.10.20.22.4."


def test_the_header_says_whose_it_is_and_where_it_is_from() -> None:
    """The official name, sex, birth date and identifiers of the patient; id, title, type, time and author."""
    facts = read_ccda(document(section("48765-2", text="<list><item>Eggs</item><item>Latex</item></list>")))
    assert facts.identity == DocumentIdentity(
        given=("Marisol", "Ana"),
        family="Quintero",
        birth_date="1984-02-29",
        gender="female",
        identifiers=(
            ("http://hl7.org/fhir/sid/us-ssn", "900-00-0001"),
            ("urn:ietf:rfc:3986", "urn:uuid:6d8f1d4e-27c4-4e3b-9c55-0c1a1e1b2f30"),
        ),
    )
    assert read_identity(document()) == facts.identity
    assert "Quintero" not in repr(facts) + repr(facts.identity) + repr(facts.narrative)
    assert facts.document_id == "urn:oid:1.2.3.4|doc-1"
    assert (facts.title, facts.author, facts.at) == (
        "Summary of care",
        "Pine Ridge Hospital",
        "2025-07-01T10:15:00-05:00",
    )
    assert facts.type["coding"][0]["code"] == "34133-9"
    assert facts.narrative == (DocumentSection("48765-2", "", "Eggs\nLatex"),)


def test_what_would_not_be_valid_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a document brings about: a resource with a defect is left out, and counts as unread."""
    monkeypatch.setattr(chart, "defects", lambda resource, _: ("defect",) * ("bodySite" in resource))
    facts = read_ccda(document(section("47519-4", PROCEDURE, PROCEDURE.replace("targetSiteCode", "methodCode"))))
    assert ["bodySite" in one for one in facts.resources] == [False, False]
    assert facts.unread == 1


def test_a_statement_without_information_is_none() -> None:
    """An entry with a null flavor says nothing, whatever stands in it; a null flavor as a code says nothing either."""
    assert told(section("10160-0", medication(attributes='nullFlavor="NI"'))) == []
    masked = medication().replace(f'code="573621" codeSystem="{SYSTEMS["rxnorm"]}"', f'code="MSK" codeSystem="{NULL}"')
    assert told(section("10160-0", masked)) == []


def test_a_name_that_a_program_writes_for_none_is_none() -> None:
    """A given name `null` is left out; a family may be called Null."""
    people = (
        "<recordTarget><patientRole><patient><name><given>Ana</given><given>null</given><family>Null</family></name>"
    )
    facts = read_ccda(document(people=f"{people}</patient></patientRole></recordTarget>"))
    assert (facts.identity.given, facts.identity.family) == (("Ana",), "Null")


def test_the_same_document_gives_the_same_facts() -> None:
    """Ids are made from the document's bytes: reading it again says the same, another document has others."""
    body = document(section("47519-4", PROCEDURE))
    assert read_ccda(body) == read_ccda(body)
    assert read_ccda(body).resources[0]["id"] != read_ccda(body + b"\n").resources[0]["id"]


def allergy(observation: str = "", status: str = "active", attributes: str = "") -> str:
    """Return a concern of one allergy to penicillin; `observation` stands in it."""
    return (
        f'<act classCode="ACT" moodCode="EVN"><templateId root="{TEMPLATE}30" extension="2015-08-01"/>'
        f'<statusCode code="{status}"/><entryRelationship typeCode="SUBJ">'
        f'<observation classCode="OBS" moodCode="EVN" {attributes}><id root="1.2.3" extension="a1"/>'
        '<effectiveTime><low value="20100501"/></effectiveTime>'
        + value("416098002")
        + '<participant typeCode="CSM"><participantRole classCode="MANU"><playingEntity classCode="MMAT">'
        + coded("code", "70618", "rxnorm", '<translation code="373270004" codeSystem="2.16.840.1.113883.6.96"/>')
        + f"</playingEntity></participantRole></participant>{observation}</observation></entryRelationship></act>"
    )


def related(kind: str, code: str, inner: str, more: str = "") -> str:
    """Return a related observation with a code and a value."""
    return (
        f'<entryRelationship typeCode="{kind}"><observation classCode="OBS" moodCode="EVN"><code code="{code}"/>'
        f"{inner}{more}</observation></entryRelationship>"
    )


def test_an_allergy_has_its_substance_reaction_severity_and_criticality() -> None:
    """A concern's observation becomes an AllergyIntolerance with all codings of the substance."""
    reaction = related("MFST", "ASSERTION", value("247472004"), related("SUBJ", "SEV", value("6736007")))
    found = the(
        told(section("48765-2", allergy(reaction + related("SUBJ", "82606-5", value("CRITH", "act"))))),
        "AllergyIntolerance",
    )
    assert found["code"]["coding"] == [
        {"system": "http://www.nlm.nih.gov/research/umls/rxnorm", "code": "70618"},
        {"system": SNOMED, "code": "373270004"},
    ]
    assert (found["type"], found["category"], found["criticality"]) == ("allergy", ["medication"], "high")
    assert found["onsetDateTime"] == "2010-05-01"
    assert found["identifier"] == [{"system": "urn:oid:1.2.3", "value": "a1"}]
    assert found["clinicalStatus"]["coding"][0]["code"] == "active"
    assert found["reaction"] == [
        {"manifestation": [{"coding": [{"system": SNOMED, "code": "247472004"}]}], "severity": "moderate"}
    ]


def test_a_reaction_is_known_by_its_template() -> None:
    """A document that relates the severity as a manifestation, and the reaction not, is understood all the same."""
    template = f'<templateId root="{TEMPLATE}9"/>'
    reaction = related("SUBJ", "ASSERTION", value("126485001")).replace("<code", f"{template}<code", 1)
    severity = related("MFST", "SEV", value("255604002"))
    found = the(told(section("48765-2", allergy(reaction + severity))), "AllergyIntolerance")
    assert [one["manifestation"][0]["coding"][0]["code"] for one in found["reaction"]] == ["126485001"]
    assert found["reaction"][0]["severity"] == "mild"


@pytest.mark.parametrize(
    "nothing",
    [
        pytest.param("Unknown", id="unknown"),
        pytest.param("UNK", id="null-flavor"),
        pytest.param("NI", id="no-information"),
    ],
)
def test_a_code_of_nothing_is_no_code(nothing: str) -> None:
    """Two allergies with the code Unknown are not the same: what they are to is their text."""
    names = ("Ragweed", "Latex")
    entries = [
        allergy().replace('code="70618"', f'code="{nothing}" displayName="{name}"').replace('code="373270004"', "")
        for name in names
    ]
    found = told(section("48765-2", *entries))
    assert [one["code"] for one in found] == [{"text": name} for name in names]


@pytest.mark.parametrize(
    ("told_of_it", "concern", "expected"),
    [
        pytest.param("", "active", "active", id="concern-active"),
        pytest.param("", "completed", "inactive", id="concern-completed"),
        pytest.param("413322009", "active", "resolved", id="observed-resolved"),
        pytest.param("55561003", "completed", "active", id="observed-active"),
        pytest.param("246455001", "active", "active", id="recurrence-is-no-status-of-an-allergy"),
    ],
)
def test_the_status_of_an_allergy(told_of_it: str, concern: str, expected: str) -> None:
    """The status observation counts, else the concern's."""
    status = related("REFR", "33999-4", value(told_of_it)) if told_of_it else ""
    found = the(told(section("48765-2", allergy(status, concern))), "AllergyIntolerance")
    assert found["clinicalStatus"]["coding"][0]["code"] == expected


@pytest.mark.parametrize(
    ("kind", "code"),
    [("419199007", "716186003"), ("416098002", "409137002"), ("414285001", "429625007"), ("X", "716186003")],
)
def test_that_no_allergy_is_known_is_a_code(kind: str, code: str) -> None:
    """A negated observation without a substance says so of all allergies, of those to drugs, or to food."""
    entry = allergy(attributes='negationInd="true"').replace('code="70618"', 'nullFlavor="NA"')
    entry = entry.replace('<translation code="373270004" codeSystem="2.16.840.1.113883.6.96"/>', "")
    found = the(told(section("48765-2", entry.replace("416098002", kind))), "AllergyIntolerance")
    assert found["code"]["coding"][0]["code"] == code
    assert found["verificationStatus"]["coding"][0]["code"] == "confirmed"


def test_a_negated_allergy_is_refuted() -> None:
    """What names a substance that the patient is not allergic to is no allergy to it."""
    found = the(told(section("48765-2", allergy(attributes='negationInd="true"'))), "AllergyIntolerance")
    assert found["verificationStatus"]["coding"][0]["code"] == "refuted"


def test_an_allergy_to_nothing_is_none() -> None:
    """A concern that names no substance and denies nothing becomes nothing, and is counted as unread."""
    entry = '<act><entryRelationship typeCode="SUBJ"><observation><code/></observation></entryRelationship></act>'
    facts = read_ccda(document(section("48765-2", entry)))
    assert (facts.resources, facts.unread) == ((), 1)


PROBLEM = (
    f'<act classCode="ACT" moodCode="EVN"><templateId root="{TEMPLATE}3"/><statusCode code="active"/>'
    '<entryRelationship typeCode="SUBJ"><observation classCode="OBS" moodCode="EVN">'
    '<effectiveTime><low value="201203"/><high value="20120419"/></effectiveTime>'
    + value("233604007", more='<originalText><reference value="#p1"/></originalText>')
    + "</observation></entryRelationship></act>"
)


def test_a_problem_has_its_dates_and_the_words_of_the_narrative() -> None:
    """Precision is kept, an end resolves it, and originalText is what the narrative says."""
    found = the(told(section("11450-4", PROBLEM, text='<content ID="p1">Pneumonia,<br/>left</content>')), "Condition")
    assert found["code"] == {"coding": [{"system": SNOMED, "code": "233604007"}], "text": "Pneumonia, left"}
    assert (found["onsetDateTime"], found["abatementDateTime"]) == ("2012-03", "2012-04-19")
    assert found["clinicalStatus"]["coding"][0]["code"] == "resolved"
    assert found["category"][0]["coding"][0]["code"] == "problem-list-item"


@pytest.mark.parametrize(
    ("observation", "expected"),
    [
        pytest.param('negationInd="true">' + value("55607006"), [("160245001", "confirmed")], id="no-known-problems"),
        pytest.param(">" + value("160245001"), [("160245001", "confirmed")], id="no-problems-as-a-code"),
        pytest.param('negationInd="true">' + value("233604007"), [("233604007", "refuted")], id="not-this-one"),
        pytest.param('nullFlavor="NI">' + value("233604007"), [], id="nothing-to-say"),
        pytest.param('><value xsi:type="CD" nullFlavor="UNK"/>', [], id="unknown"),
    ],
)
def test_a_negated_problem(observation: str, expected: list[tuple[str, str]]) -> None:
    """That no problem is known is a code of its own; that a certain one is not there is a refuted one."""
    entry = (
        '<act><entryRelationship typeCode="SUBJ"><observation classCode="OBS" moodCode="EVN" '
        f"{observation}</observation></entryRelationship></act>"
    )
    found = told(section("11450-4", entry))
    codes = [(one["code"], one["verificationStatus"]) for one in found]
    assert [(code["coding"][0]["code"], status["coding"][0]["code"]) for code, status in codes] == expected


@pytest.mark.parametrize(
    ("words", "kept"),
    [
        ("No problem data is applicable", False),
        ("No known problems", False),
        ("None recorded.", False),
        ("none", False),
        ("Unknown", False),
        ("Nocturia, not known since when", True),
        ("Not sleeping well", True),
        ("Unknown bite mark", True),
    ],
)
def test_words_that_say_that_there_is_nothing_are_no_problem(words: str, kept: bool) -> None:
    """Where nothing is coded, words for nothing are nothing; other words are the problem."""
    observed = (
        f'<observation><value xsi:type="CD" nullFlavor="UNK"><originalText>{words}</originalText></value></observation>'
    )
    entry = f'<act><entryRelationship typeCode="SUBJ">{observed}</entryRelationship></act>'
    assert [one["code"] for one in told(section("11450-4", entry))] == ([{"text": words}] if kept else [])


def medication(mood: str = "EVN", status: str = "active", more: str = "", attributes: str = "") -> str:
    """Return a medication activity: one tablet every eight hours since a day."""
    return (
        f'<substanceAdministration classCode="SBADM" moodCode="{mood}" {attributes}>'
        f'<templateId root="{TEMPLATE}16" extension="2014-06-09"/><statusCode code="{status}"/>'
        '<effectiveTime xsi:type="IVL_TS"><low value="20240105"/><high nullFlavor="UNK"/></effectiveTime>'
        '<effectiveTime xsi:type="PIVL_TS" operator="A"><period value="8" unit="h"/></effectiveTime>'
        '<doseQuantity value="1.0" unit="{tbl}"/>'
        "<consumable><manufacturedProduct><manufacturedMaterial>"
        + coded("code", "573621", "rxnorm")
        + f"</manufacturedMaterial></manufacturedProduct></consumable>{more}</substanceAdministration>"
    )


def around(number: str, *entries: str, attributes: str = "") -> str:
    """Return an act around medication activities, as those of a discharge and an admission are."""
    inner = "".join(f'<entryRelationship typeCode="SUBJ">{entry}</entryRelationship>' for entry in entries)
    named = f'<templateId root="{TEMPLATE}{number}"/>' if number else ""
    return f'<act classCode="ACT" moodCode="EVN" {attributes}>{named}<code code="10183-2"/>{inner}</act>'


@pytest.mark.parametrize(
    ("code", "number"),
    [(code, number) for code in ("10183-2", "75311-1", "42346-7") for number in ("35", "36", "")]
    # By the template alone, in a section that is read for nothing.
    + [("8648-8", "35"), ("8648-8", "36")],
)
def test_medications_of_a_discharge_and_an_admission_are_read_in_their_act(code: str, number: str) -> None:
    """Discharge Medication and Admission Medication are acts around what is taken or ordered: each is a fact."""
    found = told(section(code, around(number, medication(), medication("INT"))))
    assert [one["resourceType"] for one in found] == ["MedicationStatement", "MedicationRequest"]
    assert {one["medicationCodeableConcept"]["coding"][0]["code"] for one in found} == {"573621"}


def test_an_act_around_no_medication_is_counted_as_unread() -> None:
    """Nothing, what has a null flavor, and what the act negates is no medication."""
    empty = around("35"), around("35", medication(attributes='nullFlavor="NI"'))
    negated = around("36", medication(), attributes='negationInd="true"')
    facts = read_ccda(document(section("10183-2", *empty, negated)))
    assert (facts.resources, facts.unread) == ((), 3)


@pytest.mark.parametrize("arc", ["11", "11.1", "38", "44"])
def test_a_section_of_medications_is_known_by_its_template(arc: str) -> None:
    """A section at discharge, at admission or of what was given, without a code, is read by its template."""
    entry = medication().replace(f'<templateId root="{TEMPLATE}16" extension="2014-06-09"/>', "")
    root = f'<templateId root="2.16.840.1.113883.10.20.22.2.{arc}"/>'
    found = told(section("", entry).replace("<text>", f"{root}<text>").replace('<code code=""', "<code"))
    assert [one["resourceType"] for one in found] == ["MedicationStatement"]


def test_a_medication_that_is_taken_is_a_statement() -> None:
    """Mood EVN: status, period, how often and how much; an unknown end is none."""
    found = the(told(section("10160-0", medication())), "MedicationStatement")
    assert found["status"] == "active"
    assert found["effectivePeriod"] == {"start": "2024-01-05"}
    dosage = found["dosage"][0]
    assert dosage["timing"] == {"repeat": {"frequency": 1, "period": 8, "periodUnit": "h"}}
    assert str(dosage["doseAndRate"][0]["doseQuantity"]["value"]) == "1.0"
    assert dosage["doseAndRate"][0]["doseQuantity"]["code"] == "{tbl}"


@pytest.mark.parametrize(
    ("period", "expected"),
    [
        pytest.param('<period value="12" unit="h"/>', {"frequency": 1, "period": 12, "periodUnit": "h"}, id="hours"),
        pytest.param(
            '<period value="0.3333" unit="d"/>', {"frequency": 3, "period": 1, "periodUnit": "d"}, id="a-third"
        ),
        pytest.param(
            '<period><low value="4" unit="h"/><high value="6" unit="h"/></period>',
            {"frequency": 1, "period": 4, "periodMax": 6, "periodUnit": "h"},
            id="four-to-six",
        ),
        pytest.param('<period value="0" unit="h"/>', None, id="never"),
        pytest.param(
            '<period value="1e-300" unit="h"/>', {"frequency": 1, "period": "1E-300", "periodUnit": "h"}, id="always"
        ),
        pytest.param('<period value="6" unit="moon"/>', None, id="no-unit"),
    ],
)
def test_how_often_a_medication_is_taken(period: str, expected: object) -> None:
    """A period is one time in it; a part of a unit is several times in a unit."""
    entry = medication().replace('<period value="8" unit="h"/>', period)
    dosage = the(told(section("10160-0", entry)), "MedicationStatement")["dosage"][0]
    assert _as_text(dosage.get("timing", {}).get("repeat")) == _as_text(expected)


def test_a_medication_that_is_ordered_is_a_request() -> None:
    """Mood INT: an order, with what is to be handed out; the first of two fills is no repeat."""
    supply = (
        '<entryRelationship typeCode="REFR"><supply classCode="SPLY" moodCode="INT"><repeatNumber value="2"/>'
        '<quantity value="30" unit="{tbl}"/></supply></entryRelationship>'
    )
    author = '<author><time value="20240104"/><assignedAuthor/></author>'
    found = the(told(section("10160-0", medication("INT", more=author + supply))), "MedicationRequest")
    assert (found["status"], found["intent"], found["authoredOn"]) == ("active", "order", "2024-01-04")
    assert found["dosageInstruction"][0]["timing"]["repeat"]["boundsPeriod"] == {"start": "2024-01-05"}
    assert found["dispenseRequest"]["numberOfRepeatsAllowed"] == 1
    assert found["dispenseRequest"]["quantity"]["value"] == 30


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("active", "active"),
        ("completed", "completed"),
        ("suspended", "on-hold"),
        ("aborted", "stopped"),
        ("x", "unknown"),
    ],
)
def test_the_status_of_a_medication(code: str, expected: str) -> None:
    """ActStatus as the status of a statement; what is not in the table is unknown."""
    assert the(told(section("10160-0", medication(status=code))), "MedicationStatement")["status"] == expected


def test_a_medication_that_is_not_taken_says_so() -> None:
    """A negated activity is not-taken; where it names no medicine, none is known, and it is no fact."""
    negated = medication(attributes='negationInd="true"')
    assert the(told(section("10160-0", negated)), "MedicationStatement")["status"] == "not-taken"
    for code in ('nullFlavor="NA"', 'code="410942007"'):
        assert told(section("10160-0", negated.replace('code="573621"', code))) == []


def result(code: str, inner: str, more: str = "") -> str:
    """Return a result observation with a value."""
    return (
        f'<observation classCode="OBS" moodCode="EVN"><templateId root="{TEMPLATE}2"/>'
        + coded("code", code, "loinc")
        + f'<statusCode code="completed"/><effectiveTime value="20250601083000-0500"/>{inner}{more}</observation>'
    )


def organizer(arc: str, *observations: str, code: str = coded("code", "58410-2", "loinc")) -> str:
    """Return an organizer of observations."""
    parts = "".join(f"<component>{observation}</component>" for observation in observations)
    return (
        f'<organizer classCode="BATTERY" moodCode="EVN"><templateId root="{TEMPLATE}{arc}"/>{code}'
        f'<statusCode code="completed"/>{parts}</organizer>'
    )


UCUM = {"system": "http://unitsofmeasure.org"}


@pytest.mark.parametrize(
    ("inner", "expected"),
    [
        pytest.param(
            '<value xsi:type="PQ" value="12.30" unit="g/dL"/>',
            {"valueQuantity": {"value": "12.30", "unit": "g/dL", **UCUM, "code": "g/dL"}},
            id="PQ",
        ),
        pytest.param(
            '<value xsi:type="PQ" value="7" unit="1"/>', {"valueQuantity": {"value": "7"}}, id="PQ-without-unit"
        ),
        pytest.param(
            '<value value="5" unit="mg"/>',
            {"valueQuantity": {"value": "5", "unit": "mg", **UCUM, "code": "mg"}},
            id="untyped",
        ),
        pytest.param(
            '<value xsi:type="cda:ST" xmlns:cda="urn:hl7-org:v3">clear</value>', {"valueString": "clear"}, id="ST"
        ),
        pytest.param('<value xsi:type="ED">see <reference value="#nowhere"/></value>', {"valueString": "see"}, id="ED"),
        pytest.param('<value xsi:type="INT" value="3"/>', {"valueInteger": "3"}, id="INT"),
        pytest.param('<value xsi:type="BL" value="true"/>', {"valueBoolean": "True"}, id="BL"),
        pytest.param('<value xsi:type="TS" value="2025"/>', {"valueDateTime": "2025"}, id="TS"),
        pytest.param(
            '<value xsi:type="IVL_PQ"><low value="1" unit="g"/><high value="2" unit="g"/></value>',
            {
                "valueRange": {
                    "low": {"value": "1", "unit": "g", **UCUM, "code": "g"},
                    "high": {"value": "2", "unit": "g", **UCUM, "code": "g"},
                }
            },
            id="IVL_PQ",
        ),
        pytest.param(
            '<value xsi:type="IVL_PQ"><high value="2" unit="g" inclusive="false"/></value>',
            {"valueQuantity": {"value": "2", "unit": "g", **UCUM, "code": "g", "comparator": "<"}},
            id="IVL_PQ-less-than",
        ),
        pytest.param(
            '<value xsi:type="RTO_PQ_PQ"><numerator value="1"/><denominator value="128"/></value>',
            {"valueRatio": {"numerator": {"value": "1"}, "denominator": {"value": "128"}}},
            id="RTO",
        ),
        pytest.param(
            value("260373001"),
            {"valueCodeableConcept": {"coding": [{"system": SNOMED, "code": "260373001"}]}},
            id="CD",
        ),
        pytest.param(
            '<value xsi:type="PQ" nullFlavor="ASKU"/>',
            {
                "dataAbsentReason": {
                    "coding": [
                        {
                            "system": "http://terminology.hl7.org/CodeSystem/data-absent-reason",
                            "code": "asked-unknown",
                        }
                    ]
                }
            },
            id="absent",
        ),
        pytest.param(
            '<value xsi:type="PQ" nullFlavor="OTH"><translation value="3"><originalText>puffs</originalText>'
            "</translation></value>",
            {"valueQuantity": {"value": "3", "unit": "puffs"}},
            id="unit-in-words",
        ),
        pytest.param('<value xsi:type="PQ" value="1e999" unit="g"/>', {}, id="beyond-a-double"),
        pytest.param('<value xsi:type="PQ" value="12,3" unit="g"/>', {}, id="no-number"),
    ],
)
def test_each_type_of_value(inner: str, expected: object) -> None:
    """CDA's data types as FHIR's choices; digits are kept as they are written."""
    found = the(told(section("30954-2", result("718-7", inner))), "Observation")
    assert _as_text({name: part for name, part in found.items() if name.startswith(("value", "data"))}) == expected


def _as_text(part: object) -> object:
    return (
        {name: _as_text(one) for name, one in part.items()}
        if isinstance(part, dict)
        else ([_as_text(one) for one in part] if isinstance(part, list) else str(part))
    )


def test_results_are_observations_and_a_report_of_them() -> None:
    """An organizer is a DiagnosticReport that refers to its Observations, with interpretation and range."""
    more = (
        '<interpretationCode code="H"/><referenceRange><observationRange>'
        '<value xsi:type="IVL_PQ"><low value="4"/><high value="10"/></value></observationRange></referenceRange>'
    )
    found = told(section("30954-2", organizer("1", result("6690-2", '<value xsi:type="PQ" value="12"/>', more))))
    observation, report = the(found, "Observation"), the(found, "DiagnosticReport")
    assert report["result"] == [{"reference": f"urn:uuid:{found[0]['id']}"}]
    assert report["code"]["coding"][0]["code"] == "58410-2"
    assert report["effectiveDateTime"] == observation["effectiveDateTime"] == "2025-06-01T08:30:00-05:00"
    assert observation["category"][0]["coding"][0]["code"] == "laboratory"
    vocabulary = "http://terminology.hl7.org/CodeSystem/v3-ObservationInterpretation"
    assert observation["interpretation"] == [{"coding": [{"system": vocabulary, "code": "H"}]}]
    assert observation["referenceRange"] == [{"low": {"value": 4}, "high": {"value": 10}}]


def test_an_organizer_of_one_observation_is_no_report() -> None:
    """What says no more than its only observation is not kept beside it; one that names who reports it is."""
    single = result("6690-2", '<value xsi:type="PQ" value="12"/>')
    alone = organizer("1", single, code=coded("code", "6690-2", "loinc"))
    assert [one["resourceType"] for one in told(section("30954-2", alone))] == ["Observation"]
    comment = '<act><code code="48767-8"/><text>Within limits</text></act>'
    found = told(section("30954-2", organizer("1", single, comment, code=coded("code", "6690-2", "loinc"))))
    assert the(found, "DiagnosticReport")["conclusion"] == "Within limits"


def test_vital_signs_have_one_blood_pressure() -> None:
    """Systolic and diastolic of one time become components of 85354-9; those of two times stay apart."""
    signs = [
        result(code, f'<value xsi:type="PQ" value="{number}" unit="{unit}"/>')
        for code, number, unit in (("8480-6", 120, "mm[Hg]"), ("8462-4", 80, "mm[Hg]"), ("8867-4", 64, "/min"))
    ]
    found = told(section("8716-3", organizer("26", *signs)))
    by_code = {one["code"]["coding"][0]["code"]: one for one in found}
    assert set(by_code) == {"85354-9", "8867-4"}
    assert [one["valueQuantity"]["value"] for one in by_code["85354-9"]["component"]] == [120, 80]
    assert "valueQuantity" not in by_code["85354-9"]
    assert all(one["category"][0]["coding"][0]["code"] == "vital-signs" for one in found)
    assert len(told(section("8716-3", organizer("26", *signs[1:])))) == 2
    third = [*signs, signs[0].replace('"120"', '"130"')]
    assert [len(one.get("component", ())) for one in told(section("8716-3", organizer("26", *third)))] == [0, 0, 2]
    apart = [signs[0].replace("20250601083000", "20250601073000"), *signs[1:]]
    assert len(told(section("8716-3", organizer("26", *apart)))) == 3


PROCEDURE = (
    f'<procedure classCode="PROC" moodCode="EVN"><templateId root="{TEMPLATE}14"/>'
    + coded("code", "80146002", "snomed")
    + '<statusCode code="completed"/><effectiveTime value="20191103"/>'
    + coded("targetSiteCode", "66754008", "snomed")
    + '<performer><assignedEntity><id root="2.16.840.1.113883.4.6" extension="1659999990"/>'
    "<assignedPerson><name><given>Ama</given><family>Osei</family></name></assignedPerson></assignedEntity></performer>"
    "</procedure>"
)


def test_a_procedure_names_who_did_it() -> None:
    """A procedure with its date, site, and its performer as a Practitioner with an NPI."""
    found = told(section("47519-4", PROCEDURE, PROCEDURE))
    practitioner = the(found, "Practitioner")
    procedure = next(one for one in found if one["resourceType"] == "Procedure")
    assert practitioner["identifier"] == [{"system": "http://hl7.org/fhir/sid/us-npi", "value": "1659999990"}]
    assert procedure["performer"][0]["actor"]["display"] == "Ama Osei"
    assert (procedure["status"], procedure["performedDateTime"]) == ("completed", "2019-11-03")
    assert procedure["bodySite"][0]["coding"][0]["code"] == "66754008"


def immunization(attributes: str = "", more: str = "") -> str:
    """Return an immunization against influenza."""
    return (
        f'<substanceAdministration classCode="SBADM" moodCode="EVN" {attributes}><statusCode code="completed"/>'
        '<effectiveTime value="20231005"/><consumable><manufacturedProduct><manufacturedMaterial>'
        + coded("code", "140", "cvx")
        + "<lotNumberText>L-7</lotNumberText></manufacturedMaterial><manufacturerOrganization><name>Vaxco</name>"
        f"</manufacturerOrganization></manufacturedProduct></consumable>{more}</substanceAdministration>"
    )


def test_an_immunization_without_template_is_known_by_its_section() -> None:
    """The section's LOINC code tells that a substance administration is a vaccination."""
    found = told(section("11369-6", immunization()))
    given = the(found, "Immunization")
    assert (given["status"], given["occurrenceDateTime"], given["lotNumber"]) == ("completed", "2023-10-05", "L-7")
    assert given["manufacturer"]["display"] == the(found, "Organization")["name"] == "Vaxco"


def test_a_refused_immunization_was_not_done() -> None:
    """A negated one has the status not-done, and the reason of the refusal."""
    refusal = related("RSON", "PATOBJ", "").replace('code="PATOBJ"', 'code="PATOBJ" codeSystem="2.16.840.1.113883.5.8"')
    given = the(told(section("11369-6", immunization('negationInd="true"', refusal))), "Immunization")
    assert given["status"] == "not-done"
    assert given["statusReason"]["coding"][0]["code"] == "PATOBJ"


def test_an_encounter_has_its_class_type_place_and_diagnosis() -> None:
    """A class stands as a translation of the type; the diagnosis is a Condition of its own."""
    diagnosis = (
        f'<entryRelationship><act><templateId root="{TEMPLATE}80"/><entryRelationship typeCode="SUBJ">'
        f"<observation>{value('233604007')}</observation></entryRelationship></act></entryRelationship>"
    )
    place = (
        '<participant typeCode="LOC"><participantRole classCode="SDLOC"><playingEntity><name>Ward 3</name>'
        "</playingEntity></participantRole></participant>"
    )
    kind = coded("code", "183807002", "snomed", '<translation code="IMP" codeSystem="2.16.840.1.113883.5.4"/>')
    entry = (
        f'<encounter classCode="ENC" moodCode="EVN">{kind}<effectiveTime><low value="20250610"/>'
        f'<high value="20250612"/></effectiveTime>{place}{diagnosis}</encounter>'
    )
    found = told(section("46240-8", entry))
    encounter = the(found, "Encounter")
    assert encounter["class"]["code"] == "IMP"
    assert [one["code"] for one in encounter["type"][0]["coding"]] == ["183807002"]
    assert encounter["period"] == {"start": "2025-06-10", "end": "2025-06-12"}
    assert encounter["location"][0]["location"]["display"] == the(found, "Location")["name"] == "Ward 3"
    condition = the(found, "Condition")
    assert condition["category"][0]["coding"][0]["code"] == "encounter-diagnosis"
    assert encounter["diagnosis"][0]["condition"]["reference"] == f"urn:uuid:{found[0]['id']}"


def test_smoking_status_and_family_history() -> None:
    """An asserted smoking status has the code 72166-2; a relative has what they had, and at which age."""
    smoking = (
        f'<observation classCode="OBS" moodCode="EVN"><templateId root="{TEMPLATE}78"/><code code="ASSERTION"/>'
        f'<effectiveTime value="20250601"/>{value("8517006")}</observation>'
    )
    age = related("SUBJ", "445518008", '<value xsi:type="PQ" value="57" unit="a"/>')
    relative = (
        '<organizer classCode="CLUSTER" moodCode="EVN"><subject><relatedSubject classCode="PRS">'
        '<code code="FTH" codeSystem="2.16.840.1.113883.5.111"/><subject><administrativeGenderCode code="M"/>'
        "</subject></relatedSubject></subject><component><observation>"
        f"{value('22298006')}{age}</observation></component></organizer>"
    )
    found = told(section("29762-2", smoking), section("10157-6", relative))
    observation, history = the(found, "Observation"), the(found, "FamilyMemberHistory")
    assert observation["code"]["coding"][0]["code"] == "72166-2"
    assert observation["category"][0]["coding"][0]["code"] == "social-history"
    assert history["relationship"]["coding"][0]["code"] == "FTH"
    assert history["condition"][0]["onsetAge"]["value"] == 57


def test_a_plan_of_care_and_an_encounter_to_come() -> None:
    """A planned act with instructions is a CarePlan, a planned encounter an Encounter that is planned."""
    told_act = (
        '<entryRelationship typeCode="COMP"><act><code nullFlavor="OTH"><originalText>Walk</originalText></code></act>'
    )
    plan = (
        f'<act classCode="ACT" moodCode="INT"><templateId root="{TEMPLATE}39"/>'
        + coded("code", "734163000", "snomed")
        + f'<statusCode code="active"/>{told_act}</entryRelationship></act>'
    )
    visit = (
        f'<encounter classCode="ENC" moodCode="RQO"><templateId root="{TEMPLATE}40"/>'
        + coded("code", "185349003", "snomed")
        + '<effectiveTime value="20260110"/></encounter>'
    )
    found = told(section("18776-5", plan, visit))
    care = the(found, "CarePlan")
    assert (care["intent"], care["activity"]) == ("plan", [{"detail": {"status": "unknown", "description": "Walk"}}])
    assert the(found, "Encounter")["status"] == "planned"


def test_birth_sex_is_of_the_patient() -> None:
    """The observation of the birth sex is no fact of a chart."""
    entry = (
        f'<observation><templateId root="{TEMPLATE}200"/>{coded("code", "76689-9", "loinc")}{value("F")}</observation>'
    )
    assert told(section("29762-2", entry)) == []


def test_goals_plans_and_payers() -> None:
    """A goal with its target, a planned procedure as a ServiceRequest, a policy as Coverage with its payer."""
    goal = (
        f'<observation classCode="OBS" moodCode="GOL"><templateId root="{TEMPLATE}121"/>'
        + coded("code", "29463-7", "loinc")
        + '<statusCode code="active"/><effectiveTime><low value="20250101"/><high value="20251231"/></effectiveTime>'
        '<value xsi:type="PQ" value="70" unit="kg"/></observation>'
    )
    plan = PROCEDURE.replace("EVN", "RQO").replace(f"{TEMPLATE}14", f"{TEMPLATE}41")
    payer = (
        f'<act><templateId root="{TEMPLATE}60"/><entryRelationship typeCode="COMP"><act>'
        f'<templateId root="{TEMPLATE}61"/><id root="1.2.9" extension="G-1"/><performer>'
        f'<templateId root="{TEMPLATE}87"/><assignedEntity><representedOrganization><name>Acme Health</name>'
        "</representedOrganization></assignedEntity></performer>"
        '<participant typeCode="COV"><participantRole><id root="1.2.9" extension="M-1"/><code code="SELF"/>'
        "</participantRole></participant></act></entryRelationship></act>"
    )
    found = told(section("61146-7", goal), section("18776-5", plan), section("48768-6", payer))
    aim = the(found, "Goal")
    assert (aim["startDate"], aim["target"][0]["dueDate"]) == ("2025-01-01", "2025-12-31")
    assert aim["target"][0]["detailQuantity"]["value"] == 70
    assert the(found, "ServiceRequest")["intent"] == "order"
    coverage = the(found, "Coverage")
    assert coverage["subscriberId"] == "M-1"
    assert coverage["payor"][0]["display"] == "Acme Health"


def test_ids_that_several_facts_share_name_none_of_them() -> None:
    """An id left over from an example names two different allergies: it is left out; a fact told twice is one."""
    two = section("48765-2", allergy(), allergy().replace("70618", "2670"))
    assert [one.get("identifier") for one in told(two)] == [None, None]
    assert len(told(section("48765-2", allergy()), section("48765-2", allergy()))) == 1


def test_times_without_an_offset_have_that_of_the_document() -> None:
    """Where the document's own time has none either, the day is left; midnight alone is a day."""
    entry = PROCEDURE.replace("20191103", "201911031530")
    padded = PROCEDURE.replace("20191103", "20191103000000")
    offsets = document(section("47519-4", entry, padded))
    found = [one["performedDateTime"] for one in valid(read_ccda(offsets)) if "performedDateTime" in one]
    assert found == ["2019-11-03T15:30:00-05:00", "2019-11-03"]
    bare = valid(read_ccda(document(section("47519-4", entry), at="20250701")))
    assert bare[-1]["performedDateTime"] == "2019-11-03"
