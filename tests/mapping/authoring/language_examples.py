"""Mappings and messages in which each function, condition and key of the language is used, for `explain` to tell of."""

from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from engine.config.settings import shipped
from engine.hl7.message import Message, parse
from engine.mapping.authoring.case import channel_of, sending
from engine.mapping.authoring.explain import Explanation, explain
from engine.mapping.compile import read

ROOT: Final = shipped("mappings")
# No folder: what stands there is given to the mapping in place of files.
SITE: Final = ROOT / "no-such-site"
HEAD: Final = "MSH|^~\\&|REG|RVB|||20260302080000||{}|M1|P|2.5.1\rEVN||20260302080000\r"
PATIENT: Final = (
    "PID|1|77|1^5^M10^RVB^MR^^20200101^20300101~9^^^SSA^SS|0012-A0|Quintero^Marisol^Ines^^^^L^^^^^^^^Mari||"
    "19840229101500|F||2106-3|1 Way^^Keswick^OR^97301^USA^H|KINGS|^PRN^PH^^^555^1~^NET^Internet^m@x.example~5551|^WPN|"
    "es|M||A1^^^RVB^AN||||||Y|2\r"
)
VISIT: Final = (
    "PV1|1|I|3W^301^A^RVB|U|||47^Hill^Ann|||MED||||||VIP|||V1^^^RVB^VN^^20260101" + "|" * 25 + "20260302080000\r"
)
LISTED: Final = (
    "NK1|1|Q^Rafael|SPO^Spouse^HL70063\rROL|1|AD|AT|47^Hill^Ann\rIN1|1|PPO^P^L|7781^^^RVB|MUTUAL"
    + "|" * 12
    + "Q^M|SEL\r"
    "GT1|1|G1|Q^R||1 W\rAL1|1|DA|7980^Penicillin^RXNORM|SV|Rash\rDG1|1||I20.9^Angina^I10|||A"
    + "|" * 15
    + "A\rOBX|1|NM|8302-2^H^LN||168|cm|||||F\r"
)
REPORT: Final = (
    "PID|1||1^^^RVB^MR||Quintero^Marisol||19840229|F\rORC|RE|P1^CDIS|F1^C\r"
    "OBR|1|P1^CDIS|F1^C|24323-8^Panel^LN|||20260302|||||||||47^Hill^Ann||||||20260302101000||CH|F\r"
    "OBX|1|NM|2823-3^Potassium^LN||4.1|mmol/L|3.5-5.0|H|||F|||20260302\rNTE|1||x\r"
)
EVENTS: Final = """mapping: adt
extends: shipped/adt
assume: {LOCAL: loinc}
identity: {normalise: {RVB: {case: upper}}}
filters:
  - {rule: tests, when: PID-5.1 starts-with ZZ, do: filter}
  - {rule: residents, when: "PID-11.5 = 97301 and event = A31", do: refuse}
events:
  A19: {skip: query}
"""
ENCOUNTER: Final = """resource: Encounter
extends: shipped/encounter
identity: {keys: [{join: [PV1-19.1, PV1-3.4], type: VN}], type: VN}
status: {element: status, moves: [{when: event = A01, to: "'in-progress'", new: "'planned'"}, {to: "'unknown'"}]}
"""
ADDED: Final = """resource: Patient
extends: shipped/patient
add:
  extension: [{url: "urn:shown:added", valueString: PID-5.1 | upper}]
"""


class Example(NamedTuple):
    """Files of a site beside what ships, by their paths there; the mapping, a trigger, and segments."""

    files: dict[str, str]
    mapping: str
    trigger: str
    segments: str


EXAMPLES: Final = {
    "admit": Example({}, "adt", "ADT^A01", PATIENT + "PD1||||47^Hill^Ann\r" + VISIT + LISTED),
    "merge": Example({}, "adt", "ADT^A40", PATIENT + "MRG|2^^^RVB^MR\r"),
    "cancel": Example({}, "adt", "ADT^A11", PATIENT + VISIT),
    "discharge": Example({}, "adt", "ADT^A03", PATIENT + VISIT + "ZBE|1||||Y\r"),
    "withdrawn": Example({}, "adt", "ADT^A56", PATIENT),
    "unknown": Example({}, "adt", "ADT^Z77", PATIENT),
    "report": Example({}, "oru", "ORU^R01", REPORT),
    "site": Example({"adt.yaml": EVENTS, "resources/encounter.yaml": ENCOUNTER}, "adt", "ADT^A01", PATIENT + VISIT),
    "added": Example({"resources/patient.yaml": ADDED}, "adt", "ADT^A31", PATIENT),
    "skipped": Example({"adt.yaml": EVENTS}, "adt", "ADT^A19", PATIENT),
}


@cache
def explained(name: str) -> Explanation:
    """Return the explanation of an example's message."""
    return told(EXAMPLES[name])


def told(example: Example) -> Explanation:
    """Return the explanation of a message; of ADT everything is sent that can be."""
    source = read([SITE, ROOT], example.mapping, {SITE / name: text for name, text in example.files.items()})
    if example.mapping == "adt":
        source = sending(source, [name for name, one in source.documents.resources.items() if "from" not in one.value])
    return explain(source, channel_of({"authorities": {"RVB": "urn:rvb"}}), message_of(example))


def message_of(example: Example) -> Message:
    """Return an example's message."""
    return parse((HEAD.format(example.trigger) + example.segments).encode())


def authored(file: str, line: int, files: dict[str, str]) -> str:
    """Return a line of an author's file, or of a text in its place."""
    path = Path(file)
    text = files[str(path.relative_to(SITE))] if path.is_relative_to(SITE) else path.read_text("utf-8")
    return text.splitlines()[line - 1].strip()
