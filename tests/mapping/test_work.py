"""What a message may cost: twice the segments, repetitions or characters are about twice the work, never four times.

Work is counted in calls, so that no clock decides; how long messages take `tests/benchmarks/bench_limits.py` measures.
"""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from engine.config.settings import shipped
from engine.errors import MappingError
from engine.hl7.message import Message, parse
from engine.mapping.authoring.case import channel_of, sending
from engine.mapping.compile import Mapping, compile_mapping, load, read

ALL = (
    "Encounter", "RelatedPerson", "Coverage", "AllergyIntolerance", "Condition", "Procedure", "Observation", "Account",
    "PractitionerRole", "CareTeam", "EpisodeOfCare", "Flag", "Provenance",
)  # fmt: skip
FEW, MANY = 40, 80
# Of what grows with the message there is a fixed part, too, so that twice of it is less than twice the work.
MOST_GROWTH = 2.2
PV1 = "PV1|1|I|3W||||||||||||||||V1^^^RVB"
OBR = "OBR|1|P1|F1|T^t^L"


def _numbers(count: int) -> range:
    """Return so many numbers that no other count has, so that nothing is remembered of another message."""
    return range(count * 1000, count * 1001)


def _each(segment: str) -> Callable[[int], list[str]]:
    return lambda count: [segment.replace("#", str(number)) for number in _numbers(count)]


def _pid(field: int, repetition: str) -> Callable[[int], list[str]]:
    def made(count: int) -> list[str]:
        fields = ["PID", "1", "", "1^^^RVB^MR", "", "Q^S", "", "19630930", "F", *[""] * 30]
        fields[field] = "~".join(repetition.replace("#", str(number)) for number in _numbers(count))
        return ["|".join(fields)]

    return made


SHAPES = {
    "results of one code": ("A01", _each("OBX|#|NM|8302-2^H^LN||168|cm|||||F")),
    "results": ("A01", _each("OBX|#|NM|#^H^LN||#|cm|||||F")),
    "relatives": ("A01", _each("NK1|#|S#^B|BRO^Brother^HL70063")),
    "diagnoses": ("A01", _each("DG1|#||I#^A^I10")),
    "allergies": ("A01", _each("AL1|#|DA|#^P^RX|SV|Rash")),
    "insurances": ("A01", _each("IN1|#|P#|7#|Mutual||||||||||||||S^C|MTH")),
    "guarantors": ("A01", _each("GT1|#|G#|S#^C||||||||MTH")),
    "roles": ("A01", _each("ROL|#|AD|AT|#^Osei^Ama")),
    "participants": ("A01", _each("PRT|#|AD||AT|#^Osei^Ama")),
    "procedures": ("A01", _each("PR1|#||#^C^C4||20250301")),
    "visits": ("A01", _each(PV1 + "|" * 20 + "#")),
    "unknown segments": ("A01", _each("ZZZ|#")),
    "numbers": ("A01", _pid(3, "#^^^RVB^MR")),
    "names": ("A01", _pid(5, "Q#^S")),
    "addresses": ("A01", _pid(11, "# St^^T")),
    "telephones": ("A01", _pid(13, "555#")),
    "races": ("A01", _pid(10, "R#")),
    "merges": (
        "A40",
        lambda count: [one for n in _numbers(count) for one in (f"PID|1||A{n}^^^RVB", f"MRG|B{n}^^^RVB")],
    ),
    "patients": ("A17", _each("PID|1||A#^^^RVB^MR")),
    "links": ("A24", _each("PID|1||A#^^^RVB^MR")),
    "results of one report": ("R01", lambda count: [OBR, *_each("OBX|#|NM|1^H^LN||#|cm|||||F")(count)]),
    "reports": ("R01", _each("OBR|#|P#|F#|T^t^L")),
    "reports with results": (
        "R01",
        lambda count: [
            one for n in _numbers(count) for one in (f"OBR|1|P{n}|F{n}|T^t^L", f"OBX|1|NM|{n}^H^LN||1||||||F")
        ],
    ),
    "notes": ("R01", lambda count: [OBR, "OBX|1|TX|1^H^LN||a|cm|||||F", *_each("NTE|#||x")(count)]),
    "lines of a result": (
        "R01",
        lambda count: [OBR, f"OBX|1|TX|1^H^LN||{'~'.join(str(number) for number in _numbers(count))}||||||F"],
    ),
    "escapes": ("A01", lambda count: ["PID|1||1^^^RVB^MR||" + "\\X41\\" * count]),
    "broken escapes": ("A01", lambda count: ["PID|1||1^^^RVB^MR||" + "\\" * count]),
    "components": ("A01", lambda count: ["PID|1||1^^^RVB^MR||" + "^" * count + "x"]),
    "subcomponents": ("A01", lambda count: ["PID|1||1^^^RVB^MR||" + "&" * count + "x"]),
}  # fmt: skip


@pytest.fixture(scope="module")
def mappings() -> dict[str, Mapping]:
    """Compile the shipped mappings with all that they can send, by type of message."""
    channel = channel_of({"authorities": {"RVB": "https://mrn.riverbend.example"}})
    adt = sending(load([shipped("mappings")], "adt"), ALL)
    return {"ADT": compile_mapping(adt, channel), "ORU": compile_mapping(read([shipped("mappings")], "oru"), channel)}


def _message(event: str, segments: list[str]) -> Message:
    type_ = "ORU" if event.startswith("R") else "ADT"
    head = [f"MSH|^~\\&|R|V|||20260302080000||{type_}^{event}|M1|P|2.5.1", "EVN||20260302080000"]
    pid = [] if any(segment.startswith("PID") for segment in segments) else ["PID|1||1^^^RVB^MR||Q^S||19630930|F"]
    visit = [] if event in {"A40", "R01"} or segments[0].startswith("PV1") else [PV1]
    return parse("\r".join((*head, *pid, *visit, *segments)).encode())


def _calls(work: Callable[[], Any]) -> int:
    """Return how many functions are called, of ours and of Python's; generators count each time they go on."""
    count = 0

    def called(_: FrameType, event: str, __: Any) -> None:
        nonlocal count
        count += event in {"call", "c_call"}

    sys.setprofile(called)
    try:
        work()
    except MappingError:
        pass
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("shape", sorted(SHAPES))
def test_work_grows_with_the_message_and_no_faster(mappings: dict[str, Mapping], shape: str) -> None:
    """Whom a message speaks of and what it asks for is found in steps that grow as it does."""
    event, segments = SHAPES[shape]
    mapping = mappings["ORU" if event == "R01" else "ADT"]

    def work(message: Message) -> int:
        return _calls(lambda: (mapping.identify(message), mapping.plan(message)))

    work(_message(event, segments(FEW // 2)))  # what is compiled and remembered at the first message
    few, many = work(_message(event, segments(FEW))), work(_message(event, segments(MANY)))
    assert many <= few * MOST_GROWTH, (few, many)
