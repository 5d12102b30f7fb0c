"""A chart as a CCD: its header, its sections and their entries, as C-CDA R2.1 asks for them."""

from typing import Any
from zoneinfo import ZoneInfo

import pytest
from lxml import etree

from engine.interchange.clinical.ccda.record import Custodian
from engine.interchange.clinical.synthetic.chart import synthetic_chart
from tests.interchange.ccda.charts import AT, CHARTS, HOSTILE, PATIENT, hostile, pruned, the_least, written
from tests.interchange.least import CONCEPT, LEAST, least

Json = Any
Element = etree._Element
NS = {"c": "urn:hl7-org:v3", "sdtc": "urn:hl7-org:sdtc", "xsi": "http://www.w3.org/2001/XMLSchema-instance"}
US = "2.16.840.1.113883.10.20.22."
# Written by hand from C-CDA R2.1: LOINC code of the section, its template, the template of its entries.
SECTIONS = {
    "48765-2": ("2.6.1:2015-08-01", "4.30:2015-08-01"),
    "10160-0": ("2.1.1:2014-06-09", "4.16:2014-06-09"),
    "11450-4": ("2.5.1:2015-08-01", "4.3:2015-08-01"),
    "47519-4": ("2.7.1:2014-06-09", "4.14:2014-06-09"),
    "30954-2": ("2.3.1:2015-08-01", "4.1:2015-08-01"),
    "8716-3": ("2.4.1:2015-08-01", "4.26:2015-08-01"),
    "11369-6": ("2.2.1:2015-08-01", "4.52:2015-08-01"),
    "46240-8": ("2.22.1:2015-08-01", "4.49:2015-08-01"),
    "18776-5": ("2.10:2014-06-09", "4.44:2014-06-09"),
    "29762-2": ("2.17:2015-08-01", "4.78:2014-06-09"),
    "10157-6": ("2.15:2015-08-01", "4.45:2015-08-01"),
    "61146-7": ("2.60", "4.121"),
    "48768-6": ("2.18:2015-08-01", "4.60:2015-08-01"),
}
# Entries of which templates stand within those above.
WITHIN = {
    "48765-2": ("4.7:2014-06-09", "4.9:2014-06-09", "4.8:2014-06-09", "4.145", "4.28:2019-06-20", "4.119"),
    "10160-0": ("4.23:2014-06-09", "4.147", "4.17:2014-06-09"),
    "11450-4": ("4.4:2015-08-01", "4.6:2019-06-20"),
    "30954-2": ("4.2:2015-08-01",),
    "8716-3": ("4.27:2014-06-09",),
    "11369-6": ("4.54:2014-06-09",),
    "46240-8": ("4.80:2015-08-01", "4.32"),
    "10157-6": ("4.46:2015-08-01", "4.31"),
    "48768-6": ("4.61:2015-08-01", "4.87", "4.89"),
}


def read(body: bytes) -> Element:
    """Return the root of a document."""
    return etree.fromstring(body, etree.XMLParser(huge_tree=True, resolve_entities=False))


def find(element: Element, path: str) -> list[Any]:
    """Return what a path leads to."""
    found = element.xpath(path, namespaces=NS)
    assert isinstance(found, list)
    return found


def section(document: Element, code: str) -> Element:
    """Return the section of a LOINC code."""
    (found,) = find(document, f"//c:section[c:code/@code='{code}']")
    return found


def told(element: Element) -> set[tuple[str, str]]:
    """Return the templates that an element and all below it follow."""
    return {(one.get("root"), one.get("extension", "")) for one in find(element, ".//c:templateId")}


def forms(number: str) -> set[tuple[str, str]]:
    """Return both forms of a template."""
    root, _, extension = (US + number).partition(":")
    return {(root, ""), (root, extension)}


@pytest.fixture(scope="module")
def full() -> Element:
    """A document of an invented chart with everything."""
    return read(written(synthetic_chart("full", facts=400)))


def test_the_sections_stand_with_their_codes_and_templates(full: Element) -> None:
    """Each section once, in LOINC, its template dated and undated, a title, a table, entries of its template."""
    codes = [one.get("code") for one in find(full, "/c:ClinicalDocument/c:component/c:structuredBody/*/*/c:code")]
    assert codes == list(SECTIONS)
    for code, (own, entries) in SECTIONS.items():
        found = section(full, code)
        assert found[0].tag == "{urn:hl7-org:v3}templateId"
        assert {(one.get("root"), one.get("extension", "")) for one in find(found, "c:templateId")} == forms(own)
        assert find(found, "c:code/@codeSystem") == ["2.16.840.1.113883.6.1"]
        assert len(find(found, "c:title")) == 1
        assert find(found, "c:text/c:table/c:tbody/c:tr")
        assert find(found, "@nullFlavor") == []
        assert forms(entries) <= told(found), code
        for within in WITHIN.get(code, ()):
            assert forms(within) <= told(found), (code, within)


def test_the_header_is_that_of_a_ccd_of_the_us_realm(full: Element) -> None:
    """Templates, type, language, confidentiality, times with the offset of the zone, a device as author."""
    head = {(one.get("root"), one.get("extension", "")) for one in find(full, "/c:ClinicalDocument/c:templateId")}
    assert head == forms("1.1:2015-08-01") | forms("1.2:2015-08-01")
    assert find(full, "c:realmCode/@code") == ["US"]
    assert find(full, "c:typeId/@extension") == ["POCD_HD000040"]
    assert find(full, "c:code/@code") == ["34133-9"]
    assert find(full, "c:effectiveTime/@value") == ["20260302043015-0800"]
    assert find(full, "c:confidentialityCode/@code") == ["N"]
    assert find(full, "c:languageCode/@code") == ["en-US"]
    assert len(find(full, "c:setId | c:versionNumber")) == 2
    assert len(find(full, "c:author/c:assignedAuthor/c:assignedAuthoringDevice/c:softwareName")) == 1
    assert find(full, "c:author/c:assignedAuthor/c:representedOrganization/c:name/text()") == ["Riverbend"]
    assert find(full, "c:custodian//c:name/text()") == ["Riverbend"]
    assert len(find(full, "c:custodian//c:id/@root")) == 1
    assert find(full, "c:documentationOf/c:serviceEvent/@classCode") == ["PCPR"]
    assert len(find(full, "c:documentationOf//c:performer[@typeCode='PRF']/c:assignedEntity/c:id")) > 0
    assert len(find(full, "c:documentationOf//c:effectiveTime/*")) == 2


def test_the_patient_is_told_whole() -> None:
    """Names, address, telephone, sex, birth, race, ethnicity, languages, death, contacts."""
    us_core = "http://hl7.org/fhir/us/core/StructureDefinition/us-core-"
    race = {"system": "urn:oid:2.16.840.1.113883.6.238", "code": "2106-3", "display": "White"}
    detailed = {"system": "urn:oid:2.16.840.1.113883.6.238", "code": "2108-9", "display": "European"}
    patient = {
        **PATIENT,
        "identifier": [
            {"system": "https://mrn.riverbend.example", "value": "RB-1"},
            {"system": "http://hl7.org/fhir/sid/us-ssn", "value": "999-00-1111"},
            {"value": "of nobody"},
        ],
        "name": [{"use": "official", "family": "Quintero", "given": ["Marisol", "Ana"], "suffix": ["Jr."]}],
        "telecom": [{"system": "phone", "use": "mobile", "value": "+1 503 555 0100"}],
        "address": [{"line": ["1 Elm"], "city": "Bend", "state": "OR", "postalCode": "97701", "country": "US"}],
        "communication": [{"language": {"coding": [{"code": "es"}]}, "preferred": True}],
        "deceasedDateTime": "2026-01-05T08:00:00Z",
        "extension": [
            {
                "url": f"{us_core}race",
                "extension": [
                    {"url": "detailed", "valueCoding": detailed},
                    {"url": "ombCategory", "valueCoding": race},
                    {"url": "text", "valueString": "White"},
                ],
            },
            {"url": f"{us_core}ethnicity", "extension": [{"url": "ombCategory", "valueCoding": {"code": "UNK"}}]},
            {"url": f"{us_core}birthsex", "valueCode": "F"},
        ],
        "contact": [{"relationship": [{"coding": [{"code": "C"}]}], "name": {"family": "Q", "given": ["Ana"]}}],
    }
    document = read(written([patient]))
    (role,) = find(document, "c:recordTarget/c:patientRole")
    assert "999-00-1111" in find(role, "c:id[@root='2.16.840.1.113883.4.1']/@extension")
    assert find(role, "c:id[@assigningAuthorityName='https://mrn.riverbend.example']/@extension") == ["RB-1"]
    assert len(find(role, "c:id")) == 3
    assert find(role, "c:telecom/@value") == ["tel:+15035550100"]
    assert find(role, "c:telecom/@use") == ["MC"]
    assert find(role, "c:addr/*/text()") == ["1 Elm", "Bend", "OR", "97701", "US"]
    (person,) = find(role, "c:patient")
    assert find(person, "c:name/*/text()") == ["Marisol", "Ana", "Quintero", "Jr."]
    assert find(person, "c:administrativeGenderCode/@code") == ["F"]
    assert find(person, "c:birthTime/@value") == ["19840229"]
    assert find(person, "c:raceCode/@code") == ["2106-3"]
    assert find(person, "sdtc:raceCode/@code") == ["2108-9"]
    assert find(person, "c:ethnicGroupCode/@nullFlavor") == ["UNK"]
    assert find(person, "c:languageCommunication/*/@*") == ["es", "true"]
    assert find(person, "sdtc:deceasedTime/@value") == ["20260105000000-0800"]
    assert find(document, "c:participant/c:associatedEntity/@classCode") == ["ECON"]
    (sex,) = find(document, "//c:observation[c:code/@code='76689-9']")
    assert find(sex, "c:value/@code") == ["F"]


def test_an_empty_chart_has_every_section_and_says_that_there_is_nothing() -> None:
    """The null flavor NI and the words, no entries; the patient of whom nothing is known is unknown."""
    document = read(written([{"resourceType": "Patient", "id": "p"}]))
    sections = find(document, "//c:section")
    assert [one.get("nullFlavor") for one in sections] == ["NI"] * len(SECTIONS)
    assert {"".join(find(one, "c:text//text()")) for one in sections} == {"No information"}
    assert find(document, "//c:entry") == []
    assert find(document, "c:recordTarget//c:name/*/@nullFlavor") == ["UNK", "UNK"]
    assert find(document, "c:recordTarget//c:raceCode/@nullFlavor") == ["UNK"]


@pytest.mark.parametrize(
    ("type_name", "error"),
    [
        *((name, {"status": "entered-in-error"}) for name in LEAST if "status" in LEAST[name]),
        ("Goal", {"lifecycleStatus": "entered-in-error"}),
        ("Condition", {"verificationStatus": {"coding": [{"code": "entered-in-error"}]}}),
        ("AllergyIntolerance", {"verificationStatus": {"coding": [{"code": "entered-in-error"}]}}),
    ],
)
def test_what_was_entered_in_error_is_not_in_it(type_name: str, error: Json) -> None:
    """No resource of any type, whatever refers to it: the document is that of the chart without it."""
    wrong = {**least(type_name, "p1"), "id": "x", **error}
    report = {**least("DiagnosticReport", "p1"), "id": "r", "result": [{"reference": f"{type_name}/x"}]}
    visit = {**least("Encounter", "p1"), "id": "e", "diagnosis": [{"condition": {"reference": f"{type_name}/x"}}]}
    assert written([PATIENT, report, visit, wrong]) == written([PATIENT, report, visit])


def test_the_same_chart_and_moment_give_the_same_bytes() -> None:
    """Ids are derived; another document, another service and another patient have others."""
    chart = synthetic_chart("same", facts=60)
    assert written(chart) == written(chart)
    other = read(written(chart, document_id="job-2"))
    first = read(written(chart))
    assert find(first, "c:id/@root") != find(other, "c:id/@root")
    assert find(first, "c:setId/@root") == find(other, "c:setId/@root")
    elsewhere = read(written(chart, custodian=Custodian("Lakeside", "https://cdis.lakeside.example")))
    assert not set(find(first, "//c:entry/*/c:id[1]/@root")) & set(find(elsewhere, "//c:entry/*/c:id[1]/@root"))
    later = read(written(chart, at=AT.replace(year=2027)))
    assert int(find(later, "c:versionNumber/@value")[0]) > int(find(first, "c:versionNumber/@value")[0])


@pytest.mark.parametrize("name", ["full", "hostile", "least"])
def test_each_reference_leads_to_a_place_in_the_narrative(name: str) -> None:
    """Anchors are unique, each entry has one, none leads nowhere."""
    chart = {"full": lambda: synthetic_chart("full", facts=200), "hostile": hostile, "least": the_least}[name]()
    document = read(written(chart))
    anchors = find(document, "//@ID")
    assert len(anchors) == len(set(anchors))
    references = {str(one) for one in find(document, "//c:reference/@value")}
    assert references
    assert references <= {f"#{anchor}" for anchor in anchors}
    for entry in find(document, "//c:entry"):
        assert find(entry, ".//c:reference"), etree.tostring(entry)[:300]


def test_hostile_text_is_text() -> None:
    """Markup, ]]>, right-to-left, emoji and line ends come back as they were; what XML forbids is U+FFFD."""
    problem = {**least("Condition", "p1"), "id": "c", "code": {"text": HOSTILE}}
    patient = {**PATIENT, "name": [{"family": HOSTILE, "given": ["M"]}]}
    document = read(written([patient, problem]))
    expected = HOSTILE.replace("\x01", "\ufffd").replace("\x0b", "\ufffd").replace("\ufffe", "\ufffd")
    assert find(document, "c:recordTarget//c:family/text()") == [expected]
    assert find(section(document, "11450-4"), ".//c:value/c:originalText/text()") == [expected]
    assert find(section(document, "11450-4"), ".//c:td[1]/text()") == [expected]
    assert find(document, "//c:script") == []


def test_times_are_in_the_zone_of_the_reader() -> None:
    """The same moment, another offset; a date stays a date (C-339 on the document itself)."""
    chart = [PATIENT, {**least("Procedure", "p1"), "id": "x", "performedDateTime": "2025-07-01T10:05:00+02:00"}]
    for zone, value, shown in (
        ("America/Los_Angeles", "20250701010500-0700", "2025-07-01 01:05 PDT"),
        ("Asia/Kathmandu", "20250701135000+0545", "2025-07-01 13:50 +0545"),
        ("UTC", "20250701080500+0000", "2025-07-01 08:05 UTC"),
    ):
        found = section(read(written(chart, zone=ZoneInfo(zone))), "47519-4")
        assert find(found, ".//c:procedure/c:effectiveTime/@value") == [value]
        assert find(found, ".//c:td[2]/text()") == [shown]
        assert find(read(written(chart, zone=ZoneInfo(zone))), "//c:birthTime/@value") == ["19840229"]


def test_an_allergy_keeps_what_is_known_of_it() -> None:
    """Substance in RxNorm, kind, reaction with severity, criticality, status, onset, who told it and when."""
    allergy = {
        **least("AllergyIntolerance", "p1"),
        "id": "a",
        "clinicalStatus": {"coding": [{"code": "active"}]},
        "type": "allergy",
        "category": ["medication"],
        "criticality": "high",
        "code": {
            "coding": [
                {"system": "http://snomed.info/sct", "code": "91936005", "display": "Allergy to penicillin"},
                {"system": "http://www.nlm.nih.gov/research/umls/rxnorm", "code": "7980", "display": "Penicillin G"},
            ]
        },
        "onsetDateTime": "2019-05",
        "recordedDate": "2020-02-03T10:00:00Z",
        "recorder": {"display": "Ama Osei"},
        "reaction": [{"manifestation": [{"text": "Hives"}], "severity": "severe"}],
    }
    found = section(read(written([PATIENT, allergy])), "48765-2")
    (act,) = find(found, "c:entry/c:act")
    assert find(act, "c:statusCode/@code") == ["active"]
    assert find(act, "c:effectiveTime/c:low/@value") == ["20200203020000-0800"]
    assert find(act, "c:author/c:assignedAuthor/c:assignedPerson/c:name/text()") == ["Ama Osei"]
    (made,) = find(act, "c:entryRelationship[@typeCode='SUBJ']/c:observation")
    assert find(made, "c:effectiveTime/c:low/@value") == ["201905"]
    assert find(made, "c:value/@code") == ["416098002"]
    (substance,) = find(made, "c:participant[@typeCode='CSM']//c:playingEntity/c:code")
    assert (substance.get("code"), substance.get("codeSystem")) == ("7980", "2.16.840.1.113883.6.88")
    assert find(substance, "c:translation/@code") == ["91936005"]
    (reaction,) = find(made, "c:entryRelationship[@typeCode='MFST']/c:observation")
    assert find(reaction, "c:value/c:originalText/text()") == ["Hives"]
    assert find(reaction, "c:entryRelationship/c:observation[c:code/@code='SEV']/c:value/@code") == ["24484000"]
    assert find(made, "c:entryRelationship/c:observation[c:code/@code='82606-5']/c:value/@code") == ["CRITH"]
    assert find(made, "c:entryRelationship/c:observation[c:code/@code='33999-4']/c:value/@code") == ["55561003"]


@pytest.mark.parametrize(
    ("type_name", "more", "path"),
    [
        ("AllergyIntolerance", {"code": {"coding": [{"code": "716186003"}]}}, "48765-2"),
        ("AllergyIntolerance", {"verificationStatus": {"coding": [{"code": "refuted"}]}}, "48765-2"),
        ("Condition", {"verificationStatus": {"coding": [{"code": "refuted"}]}}, "11450-4"),
        ("Condition", {"code": {"coding": [{"code": "160245001"}]}}, "11450-4"),
        ("Procedure", {"status": "not-done"}, "47519-4"),
        ("Immunization", {"status": "not-done"}, "11369-6"),
        ("MedicationRequest", {"doNotPerform": True}, "10160-0"),
        ("MedicationStatement", {"status": "not-taken"}, "10160-0"),
        ("ServiceRequest", {"doNotPerform": True}, "18776-5"),
    ],
)
def test_what_is_not_so_is_negated(type_name: str, more: Json, path: str) -> None:
    """What was refuted, not done or not given is never told as if it were."""
    chart = [PATIENT, {**least(type_name, "p1"), "id": "x", **more}]
    assert find(section(read(written(chart)), path), ".//*[@negationInd='true']")
    plain = [PATIENT, {**least(type_name, "p1"), "id": "x", "code": CONCEPT}]
    assert not find(section(read(written(plain)), path), ".//*[@negationInd='true']")


def test_a_medication_keeps_its_dose_route_frequency_and_directions() -> None:
    """Two tablets, twice a day, by mouth, as it was written; a proposal is in the plan."""
    request = {
        **least("MedicationRequest", "p1"),
        "id": "m",
        "authoredOn": "2025-07-01",
        "dosageInstruction": [
            {
                "text": "Two tablets twice a day",
                "route": {"text": "by mouth"},
                "timing": {"repeat": {"frequency": 2, "period": 1, "periodUnit": "d"}},
                "doseAndRate": [{"doseQuantity": {"value": 2, "unit": "mg"}}],
            }
        ],
    }
    document = read(written([PATIENT, request]))
    (made,) = find(section(document, "10160-0"), "c:entry/c:substanceAdministration")
    assert made.get("moodCode") == "INT"
    assert find(made, "c:effectiveTime[@xsi:type='IVL_TS']/c:low/@value") == ["20250701"]
    assert find(made, "c:effectiveTime[@xsi:type='PIVL_TS']/c:period/@*") == ["0.5", "d"]
    assert find(made, "c:doseQuantity/@*") == ["2", "mg"]
    (sig,) = find(made, ".//c:substanceAdministration/c:text/c:reference/@value")
    assert find(document, f"//c:td[@ID='{sig[1:]}']/text()") == ["Two tablets twice a day"]
    planned = read(written([PATIENT, {**request, "intent": "proposal"}]))
    assert find(section(planned, "10160-0"), "@nullFlavor") == ["NI"]
    assert find(section(planned, "18776-5"), "c:entry/c:substanceAdministration/@moodCode") == ["PRP"]


@pytest.mark.parametrize(
    ("dosage", "told"),
    [
        ({"asNeededBoolean": True}, "as directed, as needed"),
        ({"text": "One tablet", "asNeededCodeableConcept": {"text": "headache"}}, "One tablet, as needed for headache"),
        ({"text": "One tablet PRN", "asNeededBoolean": True}, "One tablet PRN"),
        ({"text": "One tablet", "asNeededBoolean": False}, "One tablet"),
    ],
)
def test_as_needed_is_never_left_out(dosage: Json, told: str) -> None:
    """What is taken when needed only is not read as what is taken always."""
    document = read(written([PATIENT, {**least("MedicationRequest", "p1"), "id": "m", "dosageInstruction": [dosage]}]))
    assert told in [one.text for one in find(section(document, "10160-0"), ".//c:td")]


def test_observations_stand_where_they_belong() -> None:
    """Vital signs as organizers by time, a panel by itself; results under their report; each once."""
    vital = {"category": [{"coding": [{"code": "vital-signs"}]}], "effectiveDateTime": "2025-07-01T10:00:00Z"}
    unit = {"system": "http://unitsofmeasure.org"}
    pulse = {**least("Observation", "p1"), **vital, "id": "v1", "valueQuantity": {"value": 61, "code": "/min", **unit}}
    weight = {**least("Observation", "p1"), **vital, "id": "v2", "valueQuantity": {"value": 70.50, "unit": "lbs"}}
    pressure = {
        **least("Observation", "p1"),
        **vital,
        "id": "v3",
        "component": [
            {"code": CONCEPT, "valueQuantity": {"value": 120, "code": "mm[Hg]", **unit}},
            {"code": CONCEPT, "valueQuantity": {"value": 80, "code": "mm[Hg]", **unit}},
        ],
    }
    result = {**least("Observation", "p1"), "id": "r1", "valueString": "blue", "effectiveDateTime": "2025"}
    loose = {
        **least("Observation", "p1"),
        "id": "r2",
        "valueQuantity": {"comparator": "<", "value": 5, "unit": "mg/dL"},
    }
    report = {**least("DiagnosticReport", "p1"), "id": "d", "result": [{"reference": "Observation/r1"}]}
    document = read(written([PATIENT, pulse, weight, pressure, result, loose, report]))
    signs = section(document, "8716-3")
    assert [len(find(one, "c:component")) for one in find(signs, "c:entry/c:organizer")] == [2, 2]
    assert find(signs, ".//c:value/@unit") == ["/min", "[lb_av]", "mm[Hg]", "mm[Hg]"]
    results = section(document, "30954-2")
    assert [len(find(one, "c:component")) for one in find(results, "c:entry/c:organizer")] == [1, 1]
    assert find(results, ".//c:value[@xsi:type='ST']/text()") == ["blue"]
    assert find(results, ".//c:value[@xsi:type='IVL_PQ']/c:high/@*") == ["5", "mg/dL", "false"]


def test_the_diagnosis_of_an_encounter_stands_with_it_and_only_there() -> None:
    """Unless it is on the list of problems too, or the encounter is not shown."""
    kind = {"category": [{"coding": [{"code": "encounter-diagnosis"}]}]}
    condition = {**least("Condition", "p1"), **kind, "id": "c", "code": {"text": "Sprain"}}
    visit = {**least("Encounter", "p1"), "id": "e", "diagnosis": [{"condition": {"reference": "Condition/c"}}]}
    document = read(written([PATIENT, condition, visit]))
    assert find(section(document, "11450-4"), "@nullFlavor") == ["NI"]
    assert find(section(document, "46240-8"), ".//c:act//c:value/c:originalText/text()") == ["Sprain"]
    told = {**condition, "encounter": {"reference": "Encounter/e"}}
    for held in ({**visit, "diagnosis": []}, visit):
        document = read(written([PATIENT, told, held]))
        assert find(section(document, "11450-4"), "@nullFlavor") == ["NI"]
        assert find(section(document, "46240-8"), ".//c:act//c:value/c:originalText/text()") == ["Sprain"]
    alone = read(written([PATIENT, condition, {**visit, "status": "planned"}]))
    assert find(section(alone, "11450-4"), ".//c:value/c:originalText/text()") == ["Sprain"]


def test_a_panel_of_vital_signs_is_no_result() -> None:
    """Its members stand with the vital signs; the panel itself says nothing else."""
    vital = {"category": [{"coding": [{"code": "vital-signs"}]}], "effectiveDateTime": "2025-07-01T10:00:00Z"}
    pulse = {**least("Observation", "p1"), **vital, "id": "v", "valueQuantity": {"value": 61, "unit": "/min"}}
    panel = {**least("Observation", "p1"), **vital, "id": "w", "hasMember": [{"reference": "Observation/v"}]}
    cancelled = {**pulse, "id": "x", "status": "cancelled"}
    document = read(written([PATIENT, pulse, panel, cancelled]))
    assert len(find(section(document, "8716-3"), "c:entry")) == 1
    assert find(section(document, "30954-2"), "c:entry/c:organizer/c:statusCode/@code") == ["cancelled"]


def test_how_a_value_is_judged_is_told_by_code_and_name() -> None:
    """Codes of the vocabulary, those of STU3's table too, under the OID of today."""
    url = "http://terminology.hl7.org/CodeSystem/v3-ObservationInterpretation"
    judged = [
        {"coding": [{"system": "http://lab.example", "code": "HH"}, {"system": url, "code": "H", "display": "High"}]},
        {"coding": [{"system": "http://hl7.org/fhir/v2/0078", "code": "A"}]},
        {"text": "odd"},
    ]
    result = {**least("Observation", "p1"), "id": "r", "valueInteger": 5, "interpretation": judged}
    found = find(section(read(written([PATIENT, result])), "30954-2"), ".//c:interpretationCode")
    assert [(one.get("code"), one.get("displayName")) for one in found] == [("H", "High"), ("A", None)]
    assert {one.get("codeSystem") for one in found} == {"2.16.840.1.113883.5.83"}


def test_where_a_patient_went_is_told_with_the_encounter() -> None:
    """In the extension, with its code although the system has no OID."""
    home = {"system": "http://terminology.hl7.org/CodeSystem/discharge-disposition", "code": "home", "display": "Home"}
    visit = {**least("Encounter", "p1"), "id": "e", "hospitalization": {"dischargeDisposition": {"coding": [home]}}}
    (told,) = find(section(read(written([PATIENT, visit])), "46240-8"), ".//sdtc:dischargeDispositionCode")
    assert find(told, "c:originalText/text()") == ["Home"]
    assert find(told, "c:translation/@code") == ["home"]


@pytest.mark.parametrize(
    ("system", "value", "kind"),
    [
        (
            "http://loinc.org",
            {"coding": [{"system": "http://snomed.info/sct", "code": "266919005"}]},
            "4.78:2014-06-09",
        ),
        ("http://loinc.org", {"text": "never"}, "4.38:2015-08-01"),
        ("http://lab.example", {"coding": [{"system": "http://snomed.info/sct", "code": "1"}]}, "4.38:2015-08-01"),
    ],
)
def test_smoking_status_has_its_template_where_it_is_coded(system: str, value: Json, kind: str) -> None:
    """A status in words only, and one of another system, is any observation of the social history."""
    code = {"coding": [{"system": system, "code": "72166-2"}]}
    smoking = {**least("Observation", "p1"), "id": "s", "code": code, "valueCodeableConcept": value}
    found = section(read(written([PATIENT, smoking])), "29762-2")
    assert forms(kind) <= told(found)
    assert len(find(found, "c:entry")) == 1


def test_a_goal_keeps_what_it_bounds() -> None:
    """Below 80 kg by a day."""
    target = {"detailQuantity": {"comparator": "<", "value": 80, "unit": "kg"}, "dueDate": "2025-12-31"}
    goal = {**least("Goal", "p1"), "id": "g", "target": [target]}
    (made,) = find(section(read(written([PATIENT, goal])), "61146-7"), "c:entry/c:observation")
    assert find(made, "c:value/c:high/@*") == ["80", "kg", "false"]
    assert find(made, "c:effectiveTime/c:high/@value") == ["20251231"]


@pytest.mark.parametrize("seed", range(8))
def test_whatever_is_missing_a_document_is_made(seed: int) -> None:
    """No attribute is empty, every code has its system, every section is there."""
    document = read(written(pruned(seed)))
    assert find(document, "//@*[.='']") == []
    assert (
        find(
            document, "//*[@code and not(@codeSystem)][not(self::c:statusCode|self::c:languageCode|self::c:realmCode)]"
        )
        == []
    )
    assert len(find(document, "//c:section")) == len(SECTIONS)


def test_a_diagnosis_keeps_its_severity_and_who_recorded_it() -> None:
    """With the concern where it is a problem; with the observation where it stands in an encounter."""
    condition = {
        **least("Condition", "p1"),
        "id": "c",
        "code": {"text": "Sprain"},
        "severity": {"coding": [{"system": "http://snomed.info/sct", "code": "6736007"}]},
        "recorder": {"display": "Ama Osei"},
        "recordedDate": "2025-07-01",
        "encounter": {"reference": "Encounter/e"},
    }
    diagnosis = {**condition, "category": [{"coding": [{"code": "encounter-diagnosis"}]}]}
    visit = {**least("Encounter", "p1"), "id": "e"}
    for one, code in ((condition, "11450-4"), (diagnosis, "46240-8")):
        found = section(read(written([PATIENT, one, visit])), code)
        assert find(found, ".//c:author/c:time/@value") == ["20250701"]
        assert find(found, ".//c:author//c:name/text()") == ["Ama Osei"]
        assert find(found, ".//c:observation[c:code/@code='SEV']/c:value/@code") == ["6736007"]


@pytest.mark.parametrize(
    "type_name",
    [
        "AllergyIntolerance",
        "Condition",
        "Goal",
        "Immunization",
        "MedicationRequest",
        "MedicationStatement",
        "Observation",
        "Procedure",
        "ServiceRequest",
    ],
)
def test_notes_are_comments_on_their_entry(type_name: str) -> None:
    """Each by itself, below the table, with a word on what it is; the comment leads to the note alone."""
    notes = [{"text": HOSTILE.replace("\x01", "").replace("\x0b", "").replace("\ufffe", "")}, {"text": "Second"}]
    noted = {**least(type_name, "p1"), "id": "x", "note": notes, "referenceRange": [{"text": "usual"}]}
    document = read(written([PATIENT, noted]))
    comments = find(document, "//c:entry//c:act[c:code/@code='48767-8']/c:text/c:reference/@value")
    texts = [find(document, f"//c:content[@ID='{comment[1:]}']/text()") for comment in comments]
    assert texts == [[note["text"]] for note in notes]


@pytest.mark.parametrize("name", [name for name in CHARTS if name != "large"][:14])
def test_no_attribute_is_empty(name: str) -> None:
    """Whatever a chart lacks, its document has no attribute without a text: HL7's schema refuses those."""
    for element in read(written(CHARTS[name]())).iter():
        assert [key for key, text in element.attrib.items() if not text] == [], element.tag


def test_a_code_of_an_unnamed_system_has_no_name_beside_it() -> None:
    """An OID that no table has is written without `codeSystemName`; a code of blanks is none."""
    codings = [
        {"system": "urn:oid:1.2.3.4.5", "code": "L1", "display": "Local"},
        {"system": "urn:oid:1.2.3.4.6", "code": " "},
    ]
    condition = {**least("Condition", "p1"), "id": "c1", "code": {"coding": codings}}
    document = read(written([PATIENT, condition]))
    (named,) = find(section(document, "11450-4"), ".//c:*[@code='L1']")
    assert {name: text for name, text in named.attrib.items() if "}" not in name} == {
        "code": "L1",
        "codeSystem": "1.2.3.4.5",
        "displayName": "Local",
    }
    assert find(section(document, "11450-4"), ".//*[@codeSystem='1.2.3.4.6']") == []
