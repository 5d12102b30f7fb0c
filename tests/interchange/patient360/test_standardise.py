from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.fhir.schema import FhirVersion, defects
from engine.interchange.clinical.terms import ALIASES, FORMS, UNITS, canonical_code, canonical_system, ucum
from engine.interchange.network.patient360.standardise import codings, moment, quantity, standardised
from engine.interchange.rest.resource.catalogue import CHART
from tests.interchange.resources import resources
from tests.tiers import trials

LOINC = "http://loinc.org"
SNOMED = "http://snomed.info/sct"
ICD = "http://hl7.org/fhir/sid/icd-10-cm"


@pytest.mark.parametrize(
    ("given_as", "meant"),
    [
        ("2.16.840.1.113883.6.1", LOINC),
        ("urn:oid:2.16.840.1.113883.6.96", SNOMED),
        ("https://loinc.org/", LOINC),
        (" http://loinc.org", LOINC),
        ("LN", LOINC),
        ("http://snomed.info/sct/731000124108/version/20240301", SNOMED),
        ("http://hl7.org/fhir/sid/icd-10-us", ICD),
        ("http://hl7.org/fhir/sid/icd-10-pcs", "http://www.cms.gov/Medicare/Coding/ICD10"),
        ("http://hl7.org/fhir/v3/ActCode", "http://terminology.hl7.org/CodeSystem/v3-ActCode"),
        ("http://hl7.org/fhir/v2/0203", "http://terminology.hl7.org/CodeSystem/v2-0203"),
        (
            "http://hl7.org/fhir/condition-clinical",
            "http://terminology.hl7.org/CodeSystem/condition-clinical",
        ),
        ("urn:oid:1.2.3.4", "urn:oid:1.2.3.4"),
        ("https://codes.pineridge.example/labs", "https://codes.pineridge.example/labs"),
        ("phone", "phone"),
        ("", ""),
    ],
)
def test_systems(given_as: str, meant: str) -> None:
    """C-364: a system by its OID, an old address or a name has the address that FHIR knows; an unknown one stays."""
    assert canonical_system(given_as) == meant
    assert canonical_system(meant) == meant


@pytest.mark.parametrize(
    ("system", "given_as", "meant"),
    [
        (ICD, "e119", "E11.9"),
        (ICD, "E11.9", "E11.9"),
        (ICD, "I10", "I10"),
        ("http://www.cms.gov/Medicare/Coding/ICD10", "0DT.J4ZZ", "0DTJ4ZZ"),
        ("http://hl7.org/fhir/sid/icd-9-cm", "25000", "250.00"),
        ("http://hl7.org/fhir/sid/icd-9-cm", "E8809", "E880.9"),
        ("http://hl7.org/fhir/sid/icd-9-cm", "V5869", "V58.69"),
        ("http://terminology.hl7.org/CodeSystem/ICD-9CM-procedurecodes", "4709", "47.09"),
        (LOINC, " 2345-7 ", "2345-7"),
        (LOINC, "la6576-8", "LA6576-8"),
        (SNOMED, "22298006|Myocardial infarction|", "22298006"),
        ("http://www.nlm.nih.gov/research/umls/rxnorm", "0197361", "197361"),
        ("http://hl7.org/fhir/sid/cvx", "8", "08"),
        ("http://hl7.org/fhir/sid/cvx", "0208", "208"),
        ("https://codes.pineridge.example/labs", " Glu.1 ", "Glu.1"),
    ],
)
def test_codes(system: str, given_as: str, meant: str) -> None:
    """C-364: a code is written as its system writes it; one of an unknown system keeps all but outer blanks."""
    assert canonical_code(system, given_as) == meant
    assert canonical_code(system, meant) == meant


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("mg/dl", "mg/dL"),
        ("MG/DL", "mg/dL"),
        ("mmHg", "mm[Hg]"),
        ("mm Hg", "mm[Hg]"),
        ("\N{GREEK SMALL LETTER MU}g", "ug"),
        ("x10^3/uL", "10*3/uL"),
        ("beats/min", "/min"),
        ("mg", "mg"),
        ("tablets", ""),
    ],
)
def test_units(text: str, code: str) -> None:
    """A unit as people write it has its UCUM code, where it is known."""
    assert ucum(text) == code or (code == "mg" and ucum(text) in {"", "mg"})


def test_tables_lead_to_what_is_final() -> None:
    """What the tables lead to is led nowhere else: normalising twice is normalising once."""
    assert {system for system in ALIASES.values() if canonical_system(system) != system} == set()
    assert {system for system in FORMS if canonical_system(system) != system} == set()
    assert {code for code in UNITS.values() if ucum(code) != code} == set()
    assert [name for name in (*ALIASES, *UNITS) if name != name.lower()] == []


def test_both_codings_are_kept() -> None:
    """The normalised coding comes first, the source's own behind it, marked as what the source chose."""
    given_as = {"system": "urn:oid:2.16.840.1.113883.6.90", "code": "e119", "display": "DM2"}
    assert codings([given_as]) == [
        {"system": ICD, "code": "E11.9", "display": "DM2"},
        {**given_as, "userSelected": True},
    ]


def test_a_mark_of_the_source_stays_the_only_one() -> None:
    """Where the source says which coding was chosen, nothing else is marked."""
    chosen = {"system": SNOMED, "code": "44054006", "userSelected": True}
    made = codings([chosen, {"system": ICD, "code": "e119"}])
    assert [one for one in made if one.get("userSelected")] == [chosen]


def test_a_coding_that_is_there_already_is_not_said_twice() -> None:
    """Normalised and given as well: one of them is enough, and the original stays."""
    made = codings([{"system": "LN", "code": "2345-7"}, {"system": LOINC, "code": "2345-7"}])
    assert [(one["system"], one["code"]) for one in made] == [(LOINC, "2345-7"), ("LN", "2345-7")]


def test_quantities() -> None:
    """A known unit has UCUM's code, and what people wrote stays its unit; what has a code of elsewhere stays whole."""
    assert quantity({"value": 98, "unit": "MG/DL"}) == {
        "value": 98,
        "unit": "MG/DL",
        "system": "http://unitsofmeasure.org",
        "code": "mg/dL",
    }
    assert quantity({"value": 2, "code": "lbs"})["unit"] == "lbs"
    foreign = {"value": 1, "unit": "tab", "system": SNOMED, "code": "428673006"}
    assert quantity(foreign) == foreign
    assert quantity({"value": 1, "unit": "puffs"}) == {"value": 1, "unit": "puffs"}


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("2024-02-29T10:11:12.000+00:00", "2024-02-29T10:11:12Z"),
        ("2024-02-29T10:11:12.120-05:00", "2024-02-29T10:11:12.12-05:00"),
        ("2024-02-29", "2024-02-29"),
        ("2024-02-29T10:11:12-05:00", "2024-02-29T10:11:12-05:00"),
    ],
)
def test_moments(text: str, meant: str) -> None:
    """Moments are written one way; their zone, which says when it was for the patient, stays."""
    assert moment(text) == meant


def test_texts_stay() -> None:
    """What people wrote stays as it is, also where it looks like a moment or a unit."""
    note = "2024-02-29T10:11:12.000+00:00"
    resource = {
        "resourceType": "Observation",
        "status": "final",
        "code": {"text": note, "coding": [{"system": "LN", "code": "2345-7", "display": note}]},
        "valueString": note,
        "effectiveDateTime": note,
        "referenceRange": [{"low": {"value": Decimal("70.0"), "unit": "mg/dl"}}],
        "note": [{"text": note}],
    }
    made = standardised(resource)
    assert made["effectiveDateTime"] == "2024-02-29T10:11:12Z"
    assert made["code"]["text"] == made["valueString"] == made["note"][0]["text"] == note
    assert made["code"]["coding"][0]["display"] == note
    assert made["referenceRange"][0]["low"]["code"] == "mg/dL"
    assert str(made["referenceRange"][0]["low"]["value"]) == "70.0"


def test_what_goes_without_saying_is_said() -> None:
    """A clinical status without its system gets it: searches by system find it."""
    concept = {"coding": [{"code": "active"}]}
    made = standardised({"resourceType": "Condition", "clinicalStatus": concept})
    assert made["clinicalStatus"]["coding"][0]["system"].endswith("/condition-clinical")


@pytest.mark.property
@settings(max_examples=trials(40))
@given(st.data(), st.sampled_from([one.name for one in CHART]))
def test_any_resource(data: st.DataObject, type_name: str) -> None:
    """Any valid resource stays valid, loses no code, and is as it is after a second time."""
    resource = data.draw(resources(type_name, FhirVersion.R4))
    made = standardised(resource)
    assert standardised(made) == made
    assert len(defects(made, FhirVersion.R4)) <= len(defects(resource, FhirVersion.R4))
    assert _codes(resource) <= _codes(made)


def _codes(part: object) -> set[str]:
    if isinstance(part, dict):
        own = {str(part["code"])} if isinstance(part.get("code"), str) else set()
        return own.union(*map(_codes, part.values()))
    return set().union(*map(_codes, part)) if isinstance(part, list) else set()
