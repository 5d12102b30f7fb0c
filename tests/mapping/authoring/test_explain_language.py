"""`explain`, word by word of the language: what each function, condition and key read, its line, and what came of it.

The lists of words are those by which the guide, the schemas and the cases are held: a new word fails without a row.
"""

from typing import Any, Final, NamedTuple

import pytest

from engine.mapping.authoring.case import CASE_KEYS, CHANNEL_KEYS, EXPECT_KEYS
from engine.mapping.authoring.evidence import Evidence
from engine.mapping.files import alike
from engine.mapping.files.document import PATIENT_KEYS
from engine.mapping.files.overlay import ADD
from engine.mapping.language.check_table import BACK
from engine.mapping.language.functions import FUNCTIONS
from tests.mapping.authoring.language_examples import EXAMPLES, PATIENT, VISIT, Example, authored, explained, told
from tests.mapping.language.test_registry import CONDITIONS, KEYS, MAPPING_SETS

OF_FILES: Final = ("date", "rows")
# What only test cases are written in, by which no message is mapped: `mappings test` shows what they expect. Nor is one
# by what says how a table is read backwards: `mappings out explain` shows that.
# Nor by where a table is from: the row in its CSV file is shown itself.
OF_MAPPINGS: Final = ({str(key) for keys in MAPPING_SETS for key in keys} | PATIENT_KEYS | {ADD, alike.LIKE}) - {
    BACK,
    *OF_FILES,
}


class Word(NamedTuple):
    """A rule with a function, what it reads beside the engine's own, and what comes out; of which value[x]."""

    rule: str
    read: dict[str, Any]
    made: Any
    type_: str = "String"


CWE: Final = "A^Apple^LN^B^Berry^LN^^^^C^Cherry^LN"
FUNCTION_SEGMENT: Final = f"ZFN|103000|3.5-5.0|7|45|http://x.example/a|QUJD|20260301|LN|{CWE}|W^301|N^NS^1.2.3^ISO|x^TEXT^plain|ns^1.2.3^ISO|b~c|a@b.example|2034-7|2137-8\r"
LN: Final = "http://loinc.org"
RVB_ID: Final = "1^5^M10^RVB^MR^^20200101^20300101"
WORDS: Final[dict[str, Word]] = {
    "upper": Word("PID-5.1 | upper", {"PID-5.1": "Quintero"}, "QUINTERO"),
    "lower": Word("PID-5.2 | lower", {"PID-5.2": "Marisol"}, "marisol"),
    "strip": Word("PID-4.1 | strip('0-')", {"PID-4.1": "0012-A0"}, "12-A"),
    "strip-start": Word("PID-4.1 | strip-start(0)", {"PID-4.1": "0012-A0"}, "12-A0"),
    "strip-end": Word("PID-4.1 | strip-end(0)", {"PID-4.1": "0012-A0"}, "0012-A"),
    "substring": Word("PID-4.1 | substring(3 2)", {"PID-4.1": "0012-A0"}, "12"),
    "split": Word("PID-4.1 | split('-' 2)", {"PID-4.1": "0012-A0"}, "A0"),
    "pad": Word("PID-2.1 | pad(8 0)", {"PID-2.1": "77"}, "00000077"),
    "replace": Word("PID-4.1 | replace('-' '/')", {"PID-4.1": "0012-A0"}, "0012/A0"),
    "concat": Word(
        "PID-5.1 | concat(', ' PID-5.2)", {"PID-5.1": "Quintero", "PID-5.2": "Marisol"}, "Quintero, Marisol"
    ),
    "plus-days": Word("PID-7 | plus-days(30) | date", {"PID-7": "19840229101500"}, "1984-03-30", "Date"),
    "minus-days": Word("PID-7 | minus-days(1) | date", {"PID-7": "19840229101500"}, "1984-02-28", "Date"),
    "hash": Word("PID-4.1 | hash(study)", {"PID-4.1": "0012-A0"}, "dc7018ee46cbe451ca63cf28da811dd9"),
    "mask": Word("PID-4.1 | mask", {"PID-4.1": "0012-A0"}, "9999-X9"),
    "shift-days": Word(
        "PID-7 | shift-days(study) | date", {"PID-7": "19840229101500", "PID-3": "1"}, "1983-08-16", "Date"
    ),
    "utc-minute": Word("PV1-44 | utc-minute", {"PV1-44": "20260302080000"}, "2026-03-02T08:00"),
    "age": Word("PID-7 | age", {"PID-7": "19840229101500", "the day of the event": "20260302"}, 42, "Integer"),
    "date": Word("PID-7 | date", {"PID-7": "19840229101500"}, "1984-02-29", "Date"),
    "datetime": Word("PID-7 | datetime", {"PID-7": "19840229101500"}, "1984-02-29T10:15:00+00:00", "DateTime"),
    "birth-time": Word("PID-7 | birth-time", {"PID-7": "19840229101500"}, "1984-02-29T10:15:00+00:00", "DateTime"),
    "instant": Word("PV1-44 | instant", {"PV1-44": "20260302080000"}, "2026-03-02T08:00:00+00:00", "Instant"),
    "minutes-after": Word(
        "ZFN-4 | minutes-after(PV1-44)",
        {"ZFN-4": "45", "PV1-44": "20260302080000"},
        "2026-03-02T08:45:00+00:00",
        "DateTime",
    ),
    "time": Word("ZFN-1 | time", {"ZFN-1": "103000"}, "10:30:00", "Time"),
    "boolean": Word("PID-24 | boolean(yes-no)", {"PID-24": "Y"}, made=True, type_="Boolean"),
    "integer": Word("ZFN-3 | integer", {"ZFN-3": "7"}, 7, "Integer"),
    "positive-integer": Word("ZFN-3 | positive-integer", {"ZFN-3": "7"}, 7, "PositiveInt"),
    "decimal": Word("ZFN-3 | decimal", {"ZFN-3": "7"}, 7, "Decimal"),
    "range-low": Word("ZFN-2 | range-low", {"ZFN-2": "3.5-5.0"}, 3.5, "Decimal"),
    "range-high": Word("ZFN-2 | range-high", {"ZFN-2": "3.5-5.0"}, 5.0, "Decimal"),
    "if-email": Word("ZFN-15 | if-email(email)", {"ZFN-15": "a@b.example"}, "email", "Code"),
    "cdc-race": Word("ZFN-16 | cdc-race", {"ZFN-16": "2034-7"}, "2034-7"),
    "cdc-ethnicity": Word("ZFN-17 | cdc-ethnicity", {"ZFN-17": "2137-8"}, "2137-8"),
    "if-past": Word("ZFN-7 | if-past(over)", {"ZFN-7": "20260301", "the day of the event": "20260302"}, "over", "Code"),
    "code": Word("PID-8 | code(administrative-sex)", {"PID-8": "F"}, "female", "Code"),
    "coding": Word("PID-16 | coding(marital-status)", {"PID-16": "M"}, {"code": "M"}, "Coding"),
    "concept": Word("PID-16 | concept(marital-status)", {"PID-16": "M"}, {"text": "Married"}, "CodeableConcept"),
    "unmapped": Word("ZFN-3 | unmapped(yes-no)", {"ZFN-3": "7"}, {"text": "7"}, "CodeableConcept"),
    "coded": Word("ZFN-9 | coded", {"ZFN-9": CWE}, {"text": "Apple"}, "CodeableConcept"),
    "first-coding": Word("ZFN-9 | first-coding", {"ZFN-9": CWE}, {"system": LN, "code": "A"}, "Coding"),
    "other-coding": Word("ZFN-9 | other-coding", {"ZFN-9": CWE}, {"system": LN, "code": "B"}, "Coding"),
    "third-coding": Word("ZFN-9 | third-coding", {"ZFN-9": CWE}, {"system": LN, "code": "C"}, "Coding"),
    "coding-system": Word("ZFN-8 | coding-system", {"ZFN-8": "LN"}, LN, "Uri"),
    "texts": Word("ZFN-14 | texts", {"ZFN-14": "b~c"}, "b, c"),
    "phone-number": Word("PID-13 | phone-number", {"PID-13": "^PRN^PH^^^555^1"}, "555 1"),
    "lines": Word("ZFN-14 | lines", {"ZFN-14": "b~c"}, "b\nc"),
    "name-text": Word("PID-5 | name-text", {}, "Marisol Ines Quintero"),
    "person-name": Word("PV1-7 | person-name", {"PV1-7": "47^Hill^Ann"}, "Ann Hill"),
    "identifier-system": Word("PID-3 | identifier-system", {"PID-3": RVB_ID}, "urn:rvb", "Uri"),
    "identifier-type": Word(
        "PID-3 | identifier-type(identifier-type)",
        {"PID-3": RVB_ID},
        {"text": "Medical record number"},
        "CodeableConcept",
    ),
    "identifier-value": Word("PID-3.1 | identifier-value", {"PID-3.1": "1"}, "1"),
    "identifier-use": Word(
        "ZFN-18 | identifier-use", {"ZFN-18": "8^^^^^^^20200101", "the day of the event": "20260302"}, "old", "Code"
    ),
    "number-system": Word("PID-3 | number-system(VN)", {"PID-3": RVB_ID}, "urn:rvb#VN", "Uri"),
    "person-system": Word("PV1-7 | person-system(PRN)", {"PV1-7": "47^Hill^Ann"}, "#PRN", "Uri"),
    "organization-system": Word(
        "ZFN-19 | organization-system(company)", {"ZFN-19": "Mill^^^^^RVB"}, "urn:rvb#company", "Uri"
    ),
    "place-name": Word("ZFN-10 | place-name(2)", {"ZFN-10": "W^301"}, "W 301"),
    "entity-system": Word("ZFN-11 | entity-system(thing)", {"ZFN-11": "N^NS^1.2.3^ISO"}, "urn:oid:1.2.3#thing", "Uri"),
    "universal-uri": Word("ZFN-13 | universal-uri", {"ZFN-13": "ns^1.2.3^ISO"}, "urn:oid:1.2.3", "Uri"),
    "address-text": Word(
        "PID-11 | address-text", {"PID-11": "1 Way^^Keswick^OR^97301^USA^H"}, "1 Way, Keswick, OR, 97301, USA"
    ),
    "joined": Word("ZFN-14 | joined", {"ZFN-14": "b~c"}, "b\nc"),
    "media-type": Word("ZFN-12 | media-type(2)", {"ZFN-12": "x^TEXT^plain"}, "text/plain", "Code"),
    "left-out": Word("ZFN-3 | left-out", {"ZFN-3": "7"}, None),
    "url": Word("ZFN-5 | url", {"ZFN-5": "http://x.example/a"}, "http://x.example/a", "Url"),
    "binary": Word("ZFN-6 | binary", {"ZFN-6": "QUJD"}, "QUJD", "Base64Binary"),
    "sender-system": Word(
        "ZFN-3 | sender-system(thing)", {"ZFN-3": "7", "MSH-3.1|MSH-4.1": "REG|RVB"}, "thing:REG%7CRVB", "Uri"
    ),
    "own-system": Word("ZFN-3 | own-system(thing)", {"ZFN-3": "7"}, "thing:7", "Uri"),
}


class Tried(NamedTuple):
    """A condition that holds and one that does not, with what their fields hold.

    Each names a field that is in the message: an element of which none is there is not asked at all.
    """

    holds: str
    fails: str
    read: dict[str, Any]


TESTS: Final[dict[str, Tried]] = {
    "exists": Tried("PID-7 exists", "PID-7 and PID-23 exists", {"PID-7": "19840229101500", "PID-23": None}),
    "=": Tried("PID-8 = F", "PID-8 = M", {"PID-8": "F"}),
    "!=": Tried("PID-8 != M", "PID-8 != F", {"PID-8": "F"}),
    "in": Tried("PID-8 in (F, M)", "PID-8 in (M, U)", {"PID-8": "F"}),
    "not in": Tried("PID-8 not in (M, U)", "PID-8 not in (F, M)", {"PID-8": "F"}),
    "<": Tried("PID-7 < 2008-01-01", "PID-7 < 1970-01-01", {"PID-7": "19840229101500"}),
    "<=": Tried("PID-7 <= 1984-02-29", "PID-7 <= 1984-02-28", {"PID-7": "19840229101500"}),
    ">": Tried("PID-2.1 > 76", "PID-2.1 > 77", {"PID-2.1": "77"}),
    ">=": Tried("PID-2.1 >= 77", "PID-2.1 >= 78", {"PID-2.1": "77"}),
    "starts-with": Tried("PID-5.1 starts-with Quin", "PID-5.1 starts-with Tan", {"PID-5.1": "Quintero"}),
    "ends-with": Tried("PID-5.1 ends-with tero", "PID-5.1 ends-with Quin", {"PID-5.1": "Quintero"}),
    "not starts-with": Tried("not PID-5.1 starts-with Z", "not PID-5.1 starts-with Q", {"PID-5.1": "Quintero"}),
    "matches": Tried("PID-4.1 matches '[0-9]+-A0'", "PID-4.1 matches 'A'", {"PID-4.1": "0012-A0"}),
    "event": Tried("event = A01", "event = A08", {"event": "A01"}),
    "and": Tried("PID-7 and PID-8", "PID-7 and PID-23", {"PID-7": "19840229101500", "PID-8": "F", "PID-23": None}),
    "or": Tried("PID-23 or PID-8", "PID-23 or PID-8 = M", {"PID-23": None, "PID-8": "F"}),
    "not": Tried("PID-8 and not PID-23", "not PID-8", {"PID-23": None, "PID-8": "F"}),
}


def _file() -> str:
    """Return a Patient file with a line for each function, and two for each condition."""
    lines = ["resource: Patient", "extends: shipped/patient", "add:", "  extension:"]
    lines += [f'    - {{url: "urn:f:{name}", value{one.type_}: "{one.rule}"}}' for name, one in WORDS.items()]
    for word, test in TESTS.items():
        name = word.replace(" ", "-")
        lines.append(f'    - {{url: "urn:c:{name}", valueString: yes, when: "{test.holds}"}}')
        lines.append(f'    - {{url: "urn:n:{name}", valueString: yes, when: "{test.fails}"}}')
        lines.append(f'    - {{url: "urn:s:{name}", valueString: "\'yes\' | unless {test.holds}"}}')
    return "\n".join(lines) + "\n"


FILE: Final = {"resources/patient.yaml": _file()}
OWN: Final = Example(
    FILE, "adt", "ADT^A01", PATIENT + VISIT + FUNCTION_SEGMENT.rstrip("\r") + "|8^^^^^^^20200101|Mill^^^^^RVB\r"
)


@pytest.fixture(scope="module")
def by_line() -> dict[str, list[Evidence]]:
    """Return what is told of each line of that file, by the url in it."""
    found: dict[str, list[Evidence]] = {}
    for one in told(OWN).evidence:
        line = authored(one.file, one.line, FILE) if "no-such-site" in one.file else ""
        if '"urn:' in line and not one.key.endswith("url"):
            found.setdefault(line.split('"')[1], []).append(one)
    return found


def _read(one: Evidence) -> dict[str, Any]:
    asked = [read for condition in one.conditions for read in condition.read]
    own = {one.source: one.raw} if one.source else {}
    return own | {read.source: read.raw for read in (*one.read, *asked)}


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_every_function_is_explained(by_line: dict[str, list[Evidence]], name: str) -> None:
    """The rule and its line, every field that was read with what stood there, and what each function made of it."""
    word = WORDS[name]
    (one,) = by_line[f"urn:f:{name}"]
    assert one.rule == word.rule
    assert one.functions[0].function.split("(")[0] == name
    read = _read(one)
    assert {path: read.get(path) for path in word.read} == word.read
    if isinstance(word.made, dict):
        assert word.made.items() <= one.made.items() or word.made.items() <= one.made["coding"][0].items()
    elif word.type_ == "Uri":
        assert one.made.endswith(word.made)
    else:
        assert one.made == word.made
    assert one.functions[-1].made == one.made


@pytest.mark.parametrize("name", CONDITIONS)
def test_every_condition_is_explained(by_line: dict[str, list[Evidence]], name: str) -> None:
    """One that holds stands beside the value; of one that does not, it is told that it did not, and by which fields."""
    test, name = TESTS[name], name.replace(" ", "-")
    (held,) = by_line[f"urn:c:{name}"]
    (asked,) = held.conditions
    assert (held.made, asked.passed) == ("yes", True)
    (stopped,) = by_line[f"urn:n:{name}"]
    (asked,) = stopped.conditions
    assert (stopped.made, stopped.asked, asked.passed) == (None, False, False)
    assert stopped.rule == asked.text
    assert stopped.rule.startswith("when ")
    (stage,) = by_line[f"urn:s:{name}"]
    (asked,) = stage.conditions
    assert (stage.made, asked.passed, asked.text.split()[0]) == (None, False, "unless")
    assert {path: raw for one in (held, stopped) for path, raw in _read(one).items()} == test.read
    assert all("when: " in authored(one.file, one.line, FILE) for one in held.conditions + stopped.conditions)


class Said(NamedTuple):
    """Where a key stands, by its path of keys, and what is written there; what it read, and (of an element) made."""

    example: str
    key: str
    text: str
    read: dict[str, Any] = {}  # noqa: RUF012 - of a NamedTuple nobody changes it
    made: Any = None


SAID: Final[dict[str, Said]] = {
    "action": Said("admit", "segments.DG1.action", "DG1-21", {"DG1-21": "A"}),
    "add": Said("added", "add.extension.valueString", "PID-5.1 | upper", {"PID-5.1": "Quintero"}, "QUINTERO"),
    "admitted": Said("admit", "identity.admitted", "PV1-44 | utc-minute", {"PV1-44": "20260302080000"}),
    "along": Said("admit", "along", "yes"),
    "also": Said("admit", "also.given", "XPN.15", {"PID-5(1).15": "Mari"}, "Mari"),
    "arrives": Said("cancel", "status.trail.arrives", "event in (A01, A02, A04", {"event": "A11"}),
    "as": Said("admit", "elements.identifier.as", "CX"),
    "assume": Said("site", "assume.LOCAL", "loinc"),
    "authority": Said("admit", "kinds.Payor.identity.authority", "CX.4.1", {"IN1-3.4.1": "RVB"}, "RVB"),
    "beginnings": Said("admit", "placeholder_people.beginnings", "BABY"),
    "birth_dates": Said("admit", "placeholder_people.birth_dates", "1900-01-01"),
    "clears": Said("discharge", "events.A03.clears", "location(PV1-42)", {"PV1-42": None}),
    "code": Said("admit", "codes.F.code", "female"),
    "codes": Said("admit", "codes.F.display", "Female"),
    "datatype": Said("admit", "datatype", "CX"),
    "default": Said("admit", "elements.telecom.default.use", "'home' | unless XTN.2", {"PID-13(3).2": None}, "home"),
    "display": Said("admit", "kinds.Payor.identity.display", "IN1-4.1", {"IN1-4.1": "MUTUAL"}, "MUTUAL"),
    "do": Said("admit", "events.A01.do", "upsert encounter"),
    "each": Said("admit", "elements.identifier.each", "PID-3", {"PID-3": "1"}),
    "element": Said("site", "status.element", "status"),
    "elements": Said("admit", "elements.gender", "PID-8 | code(administrative-sex)", {"PID-8": "F"}, "female"),
    "else": Said("admit", "identity.else", "PV1-50", {"PV1-50": None}),
    "ended": Said("admit", "status.ended", "finished"),
    "events": Said("admit", "events.A01.rule", "admit"),
    "extends": Said("site", "extends", "shipped/adt"),
    "field": Said("discharge", "historic.field", "ZBE-5", {"ZBE-5": "Y"}),
    "fill": Said("admit", "elements.address.fill.district", "PID-12", {"PID-12": "KINGS"}, "KINGS"),
    "filters": Said("site", "filters.when", "PID-5.1 starts-with ZZ", {"PID-5.1": "Quintero"}),
    "find": Said("report", "find", "order-not-found"),
    "flag": Said("admit", "missing.flag", "no-visit-number"),
    "forgets": Said("admit", "status.forgets", "period.end"),
    "from": Said("admit", "identity.from", "PID-3", {"PID-3": "1"}),
    "grows": Said("report", "grows", "result"),
    "here": Said("admit", "status.trail.here", "PV1-3", {"PV1-3": "3W"}),
    "historic": Said("discharge", "historic.value", "Y"),
    "history": Said("admit", "status.history.status", "statusHistory"),
    "hl7": Said("admit", "hl7", "0001"),
    "identity": Said("admit", "identity.keys", "PV1-19", {"PV1-19": "V1"}),
    "if_absent": Said("cancel", "events.A11.if_absent", "ignore"),
    "join": Said("site", "identity.keys.join", "PV1-3.4", {"PV1-3.4": "RVB"}),
    "key": Said("admit", "segments.IN1.key", "IN1-16.1", {"IN1-16.1": "Q"}),
    "keys": Said("admit", "identity.keys", "PV1-19", {"PV1-19": "V1"}),
    "kinds": Said("admit", "kinds.Payor.identity.value", "CX.1", {"IN1-3.1": "7781"}, "7781"),
    "late": Said("admit", "late", "unknown-visit"),
    "leaves": Said("admit", "status.trail.leaves", "event = A03", {"event": "A01"}),
    "led_by": Said("report", "segments.OBR.led_by", "ORC"),
    "levels": Said("admit", "levels.identity.value", "PL.4", {"PV1-3.4": "RVB"}, "RVB"),
    "licence": Said("admit", "licence", "CC0-1.0"),
    "like": Said("report", "segments.OBX under OBR.like", "OBX"),
    "list": Said("admit", "status.trail.list", "location"),
    "mapping": Said("admit", "mapping", "adt"),
    "merge": Said("admit", "merge.to", "entered-in-error"),
    "merged": Said("merge", "merged.identifier.each", "MRG-1", {"MRG-1": "2"}),
    "missing": Said("admit", "missing.unless", "PV1-2 = N", {"PV1-2": "I"}),
    "moves": Said("admit", "status.moves.when", "event in (A23, A29)", {"event": "A01"}),
    "names": Said("admit", "placeholder_people.names", "UNKNOWN"),
    "needs": Said("admit", "elements.identifier.needs", "value"),
    "never": Said("admit", "status.moves.never", "entered-in-error"),
    "new": Said("site", "status.moves.new", "'planned'", {}, "planned"),
    "not_identity": Said("admit", "identity.not_identity", "SS"),
    "number": Said("admit", "identity.number.period.start", "CX.7 | date", {"PV1-19.7": "20260101"}, "2026-01-01"),
    "only": Said("admit", "status.moves.only", "planned"),
    "original": Said("admit", "codes.H.original", "Home"),
    "others": Said("unknown", "others", "unknown-event"),
    "otherwise": Said("admit", "status.moves.otherwise", "nothing-to-cancel"),
    "part": Said("admit", "merge.part", "partOf"),
    "patient": Said("admit", "patient", "subject"),
    "placeholder_people": Said("admit", "placeholder_people.names", "DOE"),
    "placeholders": Said("admit", "identity.placeholders", "UNKNOWN"),
    "prefer": Said("admit", "identity.prefer.type", "MR"),
    "prior": Said("admit", "status.trail.prior", "PV1-6", {"PV1-6": None}),
    "reactivate": Said("admit", "events.A01.reactivate", "yes"),
    "reopens": Said("admit", "status.moves.reopens", "finished"),
    "resource": Said("admit", "resource", "Encounter"),
    "resources": Said("report", "resources", "Observation"),
    "retired": Said("admit", "retired.active", "false"),
    "rule": Said("admit", "events.A01.rule", "admit"),
    "same_key": Said("admit", "segments.OBX.same_key", "each"),
    "segments": Said("admit", "segments.NK1.when", "not NK1-3 in (EMR, E, F, I, S)", {"NK1-3": "SPO"}),
    "skip": Said("skipped", "events.A19.skip", "query"),
    "slice": Said("admit", "segments.AL1.elements.reaction.slice", "AL1-5", {"AL1-5": "Rash"}),
    "normalise": Said("site", "identity.normalise.RVB.case", "upper"),
    "source": Said("admit", "source", "HL7 v2-to-FHIR"),
    "status": Said("admit", "status.ended", "finished"),
    "stays": Said("report", "stays", "basedOn"),
    "system": Said("admit", "elements.system", "CX | identifier-system", {"PID-3(2)": "9^^^SSA^SS"}, "http://hl7.org/fhir/sid/us-ssn"),
    "systems": Said("admit", "identity.systems.SS", "http://hl7.org/fhir/sid/us-ssn"),
    "table": Said("admit", "table", "administrative-sex"),
    "target": Said("admit", "target", "target"),
    "to": Said("site", "status.moves.to", "'in-progress'", {}, "in-progress"),
    "trail": Said("admit", "status.trail.here", "PV1-3", {"PV1-3": "3W"}),
    "type": Said("admit", "identity.type", "VN"),
    "types": Said("admit", "identity.types.PID-18", "AN"),
    "unhandled": Said("withdrawn", "events.A56.unhandled", "withdrawn-event"),
    "unless": Said("admit", "missing.unless", "PV1-2 = N", {"PV1-2": "I"}),
    "unmapped": Said("admit", "unmapped", "ignore"),
    "untyped": Said("admit", "identity.untyped", "MR"),
    "value": Said("admit", "elements.value", "CX.1 | identifier-value", {"PID-3(2).1": "9"}, "9"),
    "visit": Said("admit", "segments.DG1.visit.diagnosis.use", "DG1-6 | coded(diagnosis-role)", {"DG1-6": "A"}),
    "when": Said("admit", "segments.NK1.when", "not NK1-3 in (EMR, E, F, I, S)", {"NK1-3": "SPO"}),
    "with": Said("admit", "segments.IN1.with", "IN2"),
    "within": Said("admit", "within", "encounter"),
}  # fmt: skip


@pytest.mark.parametrize("key", sorted(OF_MAPPINGS))
def test_every_key_is_explained(key: str) -> None:
    """Its line in the author's file, what is written there, the fields that it names with what stood in them."""
    said = SAID[key]
    assert key in said.key.split(".")
    found = explained(said.example)
    files = EXAMPLES[said.example].files
    if said.made is None:
        told_ = [one for one in found.lines if one.key == said.key and one.text.startswith(said.text)]
        told_ = [one for one in told_ if said.read.items() <= dict(one.read).items()]
    else:
        made = [one for one in found.evidence if one.key == said.key and one.made == said.made]
        told_ = [one for one in made if one.rule == said.text and said.read.items() <= _read(one).items()]
    assert told_
    line = authored(told_[0].file, told_[0].line, files)
    assert said.text.split(" | ")[0] in line or f"{key}: " in line


def test_no_word_is_forgotten() -> None:
    """What has no row here is a word of cases alone."""
    assert (WORDS.keys(), TESTS.keys(), SAID.keys()) == (FUNCTIONS.keys(), set(CONDITIONS), OF_MAPPINGS)
    assert set(KEYS) - OF_MAPPINGS <= CASE_KEYS | CHANNEL_KEYS | EXPECT_KEYS | {BACK, *OF_FILES}
