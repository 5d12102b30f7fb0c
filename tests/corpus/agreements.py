"""Where this engine and the converters of other projects agree on a message, and why where they do not.

`TABLE`: how many facts of a file both sides have; then by kind how many only the origin has, how many only we have, and
the reasons. A count that changes is looked at by a person, who then writes it here.
"""

from typing import Final, NamedTuple

REASONS: Final = {
    "account": "without PV1-19 and PV1-50 PID-18 is the number of the visit; the origin leaves it without one",
    "another-message": "the origin expects what its message does not hold (a segment or a field that is not there)",
    "cause-of-death": "PDA-1 is the cause of death: a condition on both sides, of which the origin leaves out the text",
    "disability": "DB1-3 numbers the disabled person's file at an insurer, and DB1 is not mapped",
    "district": "the county (XAD.9, else PID-12) belongs to the address; the origin drops it or makes an address of it",
    "guessed": "AL1-2 has a code of no table: the origin makes it `environment`, we keep it as it came",
    "insured": "numbers, names, addresses of IN1, IN2 and GT1 are the insured's and the guarantor's, not the patient's",
    "kept": "a code that no table has is kept as it came; the origin drops it",
    "licence": "PID-20 is a licence number of the patient; the origin drops it",
    "linkage": "the origin makes a Linkage of numbers alone; the survivor's facts serve where it has to be made",
    "mobile": "XTN.3 CP is a mobile phone, whatever list it stands in (PID-13 home, PID-14 work)",
    "moment": "the origin writes one and the same moment for every timestamp that has a time of day",
    "nickname": "XPN.15 is what the person is called by: a name of use `nickname`, no third given name",
    "person": "A28 and A31 speak of the person, not of a visit: their PV1 makes no Encounter",
    "placeholder": "a number of zeros alone identifies nobody and is no identifier",
    "pre-admission": "PV1-5 stays as a second number of the visit, by which its pre-admission is found",
    "pre-admission-class": "a patient of class P (pre-admit) is not in progress: planned",
    "reference": "the payor is shown by name and number; the origin refers to an Organization of its own",
    "reversed": "PV1-45 lies before PV1-44: no period that ends before it begins is written",
    "severity": "AL1-4 tells both of the reaction's severity and of criticality; the origin takes one of them",
    "stand-in": "the origin writes `Place Holder` where AL1-5 says how it shows",
    "summary": "the origin shows the resource in summary mode: what is there is a part",
}


class Row(NamedTuple):
    """One line: what only they have and only we have of a kind, and why."""

    kind: str
    theirs: int
    ours: int
    reasons: tuple[str, ...]


TABLE: Final = """
adt_a01                        agreed 29
adt_a01                        AllergyIntolerance.category         4 0 guessed
adt_a01                        AllergyIntolerance.criticality      0 2 severity
adt_a01                        AllergyIntolerance.manifestation    4 4 stand-in
adt_a01                        Condition.code                      2 0 another-message
adt_a01                        Condition.onset                     2 0 another-message
adt_a01                        Condition.text                      2 0 another-message
adt_a01                        Condition.verificationStatus        2 0 another-message
adt_a01                        Encounter.identifier                0 1 pre-admission
adt_a01                        Encounter.period.end                1 0 reversed
adt_a01                        Encounter.period.start              1 0 reversed
adt_a01                        Patient.address                     1 1 district
adt_a01                        Patient.deceased                    1 1 moment
adt_a01                        Patient.name                        0 2 nickname
adt_a04_ex1                    agreed 9
adt_a04_ex1                    Encounter.identifier                0 1 account
IG_test_conversions_ADT_A01    agreed 15
IG_test_conversions_ADT_A01    AllergyIntolerance.category         1 1 summary
IG_test_conversions_ADT_A01    AllergyIntolerance.clinicalStatus   1 1 summary
IG_test_conversions_ADT_A01    AllergyIntolerance.manifestation    0 1 summary
IG_test_conversions_ADT_A01    AllergyIntolerance.severity         0 1 summary
IG_test_conversions_ADT_A01    Coverage.period                     1 1 summary
IG_test_conversions_ADT_A01    Coverage.relationship               0 1 summary
IG_test_conversions_ADT_A01    Coverage.status                     0 1 summary
IG_test_conversions_ADT_A01    Coverage.subscriberId               0 1 summary
IG_test_conversions_ADT_A01    Coverage.type                       0 1 summary
IG_test_conversions_ADT_A01    Encounter.period.start              1 1 summary
IG_test_conversions_ADT_A01    Patient.address                     1 1 district
IG_test_conversions_ADT_A01    Patient.identifier                  2 1 insured placeholder licence
IG_test_conversions_ADT_A01    Patient.telecom                     0 2 summary
ADT-A01-01                     agreed 35
ADT-A01-01                     AllergyIntolerance.severity         0 1 severity
ADT-A01-01                     Condition.text                      1 1 cause-of-death
ADT-A01-01                     Coverage.payor                      0 1 reference
ADT-A01-01                     Encounter.identifier                0 1 pre-admission
ADT-A01-01                     Encounter.status                    1 1 pre-admission-class
ADT-A01-01                     Patient.address                     1 0 insured
ADT-A01-01                     Patient.identifier                  8 0 insured disability
ADT-A01-01                     Patient.name                        3 2 nickname insured
ADT-A01-01                     Patient.telecom                     6 3 mobile insured
ADT-A02-01                     agreed 21
ADT-A02-01                     Condition.text                      1 1 cause-of-death
ADT-A02-01                     Encounter.identifier                0 1 pre-admission
ADT-A02-01                     Patient.identifier                  1 0 insured disability
ADT-A02-01                     Patient.name                        1 2 nickname insured
ADT-A02-01                     Patient.telecom                     3 3 mobile
ADT-A03-01                     agreed 37
ADT-A03-01                     AllergyIntolerance.severity         0 1 severity
ADT-A03-01                     Condition.text                      1 1 cause-of-death
ADT-A03-01                     Coverage.payor                      0 1 reference
ADT-A03-01                     Encounter.identifier                0 1 pre-admission
ADT-A03-01                     Patient.identifier                  5 0 insured disability
ADT-A03-01                     Patient.name                        2 2 nickname insured
ADT-A03-01                     Patient.telecom                     3 3 mobile
ADT-A04-01                     agreed 35
ADT-A04-01                     AllergyIntolerance.severity         0 1 severity
ADT-A04-01                     Condition.text                      1 1 cause-of-death
ADT-A04-01                     Coverage.payor                      0 1 reference
ADT-A04-01                     Encounter.identifier                0 1 pre-admission
ADT-A04-01                     Encounter.period.end                1 0 another-message
ADT-A04-01                     Encounter.status                    1 1 pre-admission-class
ADT-A04-01                     Patient.identifier                  5 0 insured disability
ADT-A04-01                     Patient.name                        2 2 nickname insured
ADT-A04-01                     Patient.telecom                     3 3 mobile
ADT-A05-01                     agreed 34
ADT-A05-01                     AllergyIntolerance.severity         0 1 severity
ADT-A05-01                     Coverage.payor                      0 1 reference
ADT-A05-01                     Encounter.identifier                0 1 pre-admission
ADT-A05-01                     Encounter.period.end                1 0 another-message
ADT-A05-01                     Encounter.period.start              1 0 another-message
ADT-A05-01                     Patient.identifier                  5 0 insured disability
ADT-A05-01                     Patient.name                        2 2 nickname insured
ADT-A05-01                     Patient.telecom                     3 3 mobile
ADT-A08-01                     agreed 37
ADT-A08-01                     AllergyIntolerance.severity         0 1 severity
ADT-A08-01                     Condition.text                      1 1 cause-of-death
ADT-A08-01                     Coverage.payor                      0 1 reference
ADT-A08-01                     Encounter.identifier                0 1 pre-admission
ADT-A08-01                     Patient.identifier                  5 0 insured disability
ADT-A08-01                     Patient.name                        2 2 nickname insured
ADT-A08-01                     Patient.telecom                     3 3 mobile
ADT-A11-01                     agreed 20
ADT-A11-01                     Encounter.identifier                0 1 pre-admission
ADT-A11-01                     Encounter.period.end                1 0 another-message
ADT-A11-01                     Patient.identifier                  1 0 insured disability
ADT-A11-01                     Patient.name                        1 2 nickname insured
ADT-A11-01                     Patient.telecom                     3 3 mobile
ADT-A13-01                     agreed 36
ADT-A13-01                     AllergyIntolerance.severity         0 1 severity
ADT-A13-01                     Condition.text                      1 1 cause-of-death
ADT-A13-01                     Coverage.payor                      0 1 reference
ADT-A13-01                     Encounter.identifier                0 1 pre-admission
ADT-A13-01                     Patient.identifier                  5 0 insured disability
ADT-A13-01                     Patient.name                        2 2 nickname insured
ADT-A13-01                     Patient.telecom                     3 3 mobile
ADT-A28-01                     agreed 30
ADT-A28-01                     AllergyIntolerance.severity         0 1 severity
ADT-A28-01                     Coverage.payor                      0 1 reference
ADT-A28-01                     Encounter.class                     1 0 person
ADT-A28-01                     Encounter.identifier                2 0 person
ADT-A28-01                     Encounter.period.end                1 0 person
ADT-A28-01                     Encounter.period.start              1 0 person
ADT-A28-01                     Encounter.status                    1 0 person
ADT-A28-01                     Patient.identifier                  5 0 insured disability
ADT-A28-01                     Patient.name                        2 2 nickname insured
ADT-A28-01                     Patient.telecom                     3 3 mobile
ADT-A31-01                     agreed 30
ADT-A31-01                     AllergyIntolerance.severity         0 1 severity
ADT-A31-01                     Coverage.payor                      0 1 reference
ADT-A31-01                     Encounter.class                     1 0 person
ADT-A31-01                     Encounter.identifier                2 0 person
ADT-A31-01                     Encounter.period.end                1 0 person
ADT-A31-01                     Encounter.period.start              1 0 person
ADT-A31-01                     Encounter.status                    1 0 person
ADT-A31-01                     Patient.identifier                  5 0 insured disability
ADT-A31-01                     Patient.name                        2 2 nickname insured
ADT-A31-01                     Patient.telecom                     3 3 mobile
ADT-A40-01                     agreed 0
ADT-A40-01                     Patient.address                     0 1 linkage
ADT-A40-01                     Patient.birthDate                   0 1 linkage
ADT-A40-01                     Patient.gender                      0 1 linkage
ADT-A40-01                     Patient.identifier                  0 1 linkage
ADT-A40-01                     Patient.name                        0 1 linkage
ADT-A40-01                     Patient.telecom                     0 1 linkage
ADT01-23                       agreed 28
ADT01-23                       Coverage.payor                      0 3 reference
ADT01-23                       Coverage.relationship               0 3 kept
ADT01-23                       Patient.address                     2 1 district insured
ADT01-23                       Patient.name                        1 0 insured
"""
REFUSED: Final = {
    "orm_o01_ex1": "unsupported-message",
    "ORU-R01-01": "unsupported-message",
    "SIU-S12-01": "unsupported-message",
}


def agreed() -> dict[str, int]:
    """Return how many facts both sides have, by file."""
    cells = (line.split() for line in TABLE.strip().splitlines())
    return {name: int(count) for name, word, count, *_ in cells if word == "agreed"}


def rows() -> dict[str, tuple[Row, ...]]:
    """Return the lines of the table by file."""
    found: dict[str, tuple[Row, ...]] = {}
    for line in TABLE.strip().splitlines():
        name, kind, *rest = line.split()
        own = () if kind == "agreed" else (Row(kind, int(rest[0]), int(rest[1]), tuple(rest[2:])),)
        found[name] = (*found.get(name, ()), *own)
    return found
