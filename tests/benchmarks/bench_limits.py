"""What messages near the limits cost to map: `python -m tests.benchmarks.bench_limits` prints milliseconds of CPU.

Parsing and planning apart, each the least of several rounds of one thread; planning is to find whom a message speaks of
and what it asks for, with every resource that can be sent. In each round every value is new, so that nothing is
remembered of another message; garbage is collected as the engine does it. `a segment`: what each further one costs,
told from the two longest. `rules`: mappings at the limits of the language, with what `mappings check --cost` counts.
"""

import gc
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

from engine.config.listener_settings import Limits
from engine.config.settings import shipped
from engine.errors import MappingError
from engine.hl7.message import parse
from engine.interpreter import COLLECT_AFTER
from engine.mapping.authoring.case import channel_of, sending
from engine.mapping.authoring.cost import Costs
from engine.mapping.compile import Mapping, MappingSource, compile_mapping, load
from tests.benchmarks.machine import machine

ROUNDS: Final = 5
AIM_MS: Final = 50
SIZES: Final = (100, 500, 2_000)
REPETITIONS: Final = 200
LIMITS: Final = Limits()
HEAD: Final = "MSH|^~\\&|REG|RVB|||20260302080000||{type}|M{n}|P|2.5.1\rEVN||20260302080000\r"
PID: Final = "PID|1||{n}^^^RVB^MR||Quintero{n}^Marisol||19630930|F"
PV1: Final = "PV1|1|I|3W||||||||||||||||V{n}^^^RVB"
SEGMENTS: Final = {
    "OBX": "OBX|{at}|NM|{n}^Height^LN||{n}|cm|||||F",
    "AL1": "AL1|{at}|DA|{n}^Penicillin^RXNORM|SV|Rash",
    "NK1": "NK1|{at}|S{n}^B|BRO^Brother^HL70063",
    "IN1": "IN1|{at}|P{n}|{n}|Mutual||||||||||||||S{n}^C|MTH",
    "DG1": "DG1|{at}||I{n}^Angina^I10|||A",
}
FIELDS: Final = {
    "PID-3": (3, "{n}^^^RVB^MR"),
    "PID-5": (5, "Quintero{n}^Marisol^Ines"),
    "PID-11": (11, "{n} Way^^Keswick^OR^97301"),
    "PID-13": (13, "^PRN^PH^^1^503^{n}"),
    "PID-10": (10, "R{n}"),
}
# A condition and an expression of as many characters as the language takes, filters of as many lines, a pattern.
CONDITION: Final = " or ".join(f"ZAA-{at + 2} = {at:03}" for at in range(62))
ALTERNATIVES: Final = " | else ".join(f"ZAA-{at + 2}.{at % 9 + 1} | when ZAA-1 = {at:03}" for at in range(26))
FUNCTIONS: Final = "PID-5.1" + " | upper | lower | strip(x) | replace(a b) | pad(9 0)" * 18


class Row(NamedTuple):
    """One row of the table: milliseconds of parsing and of planning, and of the latter what each part costs."""

    name: str
    size: int
    parsing: float
    planning: float
    each: float = 0.0


def main() -> None:
    """Measure and print."""
    gc.set_threshold(*COLLECT_AFTER)
    source = load([shipped("mappings")], "adt")
    every = sending(source, [name for name, one in source.documents.resources.items() if "from" not in one.value])
    channel = channel_of({"authorities": {"RVB": "urn:rvb"}})
    mapping = compile_mapping(every, channel)
    numbers = count(1_000_000)
    for name, value in machine().items():
        print(f"{name:<12} {value}")  # noqa: T201
    print(f"{'':<44} {'bytes':>9} {'parse':>9} {'plan':>9}   {'each':>8}   ms of CPU; aim of plan {AIM_MS}")  # noqa: T201
    for name, text in SEGMENTS.items():
        rows = [_measured(f"{size} {name}", mapping, _of_segments(text, size, numbers)) for size in SIZES]
        each = (rows[-1].planning - rows[-2].planning) / (SIZES[-1] - SIZES[-2])
        _show([*rows[:-1], rows[-1]._replace(each=each)])
    _show(
        [
            _measured(f"{REPETITIONS} {name}", mapping, _of_field(at, text, numbers))
            for name, (at, text) in FIELDS.items()
        ]
    )
    _show([_measured(name, mapping, made) for name, made in _largest(numbers)])
    for name, authored in _authored():
        _show([_measured(f"rules: {name}", compile_mapping(authored, channel), _plain(numbers))])
        steps = Costs(authored).files["Patient"].most.steps
        print(f"{'':<44} {steps:>9,} steps of the Patient in the worst case")  # noqa: T201


def _measured(name: str, mapping: Mapping, made: Callable[[], str]) -> Row:
    parsing = planning = float("inf")
    size = 0
    for _ in range(ROUNDS):
        raw = made().encode()
        size = len(raw)
        began = time.process_time()
        message = parse(raw)
        parsed = time.process_time()
        try:
            mapping.identify(message)
            mapping.plan(message)
        except MappingError as error:
            name = f"{name.partition(' (')[0]} ({error.reason})"
        parsing, planning = min(parsing, parsed - began), min(planning, time.process_time() - parsed)
    return Row(name, size, parsing * 1000, planning * 1000)


def _show(rows: list[Row]) -> None:
    for row in rows:
        each = f"{row.each:8.3f}" if row.each else " " * 8
        above = "  above" if row.planning > AIM_MS else ""
        print(f"{row.name:<44} {row.size:>9,} {row.parsing:9.1f} {row.planning:9.1f}   {each}{above}")  # noqa: T201


def _message(n: int, lines: list[str], pid: str = PID, type_: str = "ADT^A01^ADT_A01") -> str:
    return "\r".join((HEAD.format(type=type_, n=n) + pid.format(n=n), PV1.format(n=n), *lines))


def _of_segments(text: str, size: int, numbers: "count[int]") -> Callable[[], str]:
    """Return what makes a message of so many segments, each time with other values in them."""
    return lambda: _message(next(numbers), [text.format(at=at, n=next(numbers)) for at in range(1, size + 1)])


def _of_field(number: int, text: str, numbers: "count[int]", size: int = REPETITIONS) -> Callable[[], str]:
    """Return what makes a message with so many repetitions of a field."""

    def made() -> str:
        fields = PID.format(n=next(numbers)).split("|") + [""] * 10
        fields[number] = "~".join(text.format(n=next(numbers)) for _ in range(size))
        return _message(next(numbers), [], pid="|".join(fields))

    return made


def _plain(numbers: "count[int]") -> Callable[[], str]:
    return lambda: _message(next(numbers), ["ZAA|" + "|".join(f"{next(numbers)}^b^c^d^e^f^g^h^i" for _ in range(69))])


def _largest(numbers: "count[int]") -> list[tuple[str, Callable[[], str]]]:
    """Return the largest messages that a channel takes: of segments, of repetitions, of components, of one text."""
    room = LIMITS.block_bytes - 1_000

    def filled(text: str) -> Callable[[], str]:
        """Return what makes a message of one segment as often as there is room for it."""
        size = min(room // (len(text) + 12), LIMITS.segments - 10)
        return _of_segments(text, size, numbers)

    def name(cell: str) -> Callable[[], str]:
        return lambda: _message(next(numbers), [], pid=PID.replace("Quintero{n}", cell))

    rows = [(f"{LIMITS.segments - 10:,} segments of {one}", filled(text)) for one, text in SEGMENTS.items()]
    rows += [("1 MiB of unknown segments", filled("ZZZ|{at}|{n}|" + "x" * 80))]
    for one in ("PID-5", "PID-13"):
        at, text = FIELDS[one]
        rows.append((f"1 MiB of repetitions of {one}", _of_field(at, text, numbers, room // (len(text) + 6))))
    return [
        *rows,
        ("1 MiB of one component", name("x" * room)),
        ("1 MiB of components", name("^" * (room // 2) + "x" * (room // 2))),
        ("1 MiB of subcomponents", name("&" * (room // 2) + "x" * (room // 2))),
        ("1 MiB of escapes", name("\\X41\\" * (room // 5))),
        ("1 MiB of broken escapes", name("\\" * room)),
    ]


def _authored() -> list[tuple[str, MappingSource]]:
    """Return mappings at the limits of the language, each with a Patient file of its own."""
    hundred = range(100)
    files = {
        "100 conditions of 1,000 characters": [
            f'{{url: "urn:x:{at}", valueString: yes, when: "ZAA-{at + 70} or {CONDITION}"}}' for at in hundred
        ],
        "100 expressions of 26 alternatives": [
            f'{{url: "urn:x:{at}", valueString: "ZAA-{at + 70} | else {ALTERNATIVES}"}}' for at in hundred
        ],
        "100 expressions of 90 functions": [f'{{url: "urn:x:{at}", valueString: "{FUNCTIONS}"}}' for at in hundred],
        "100 patterns": [
            f'{{url: "urn:x:{at}", valueString: yes, when: "PID-5.1 matches \'(.*[a-z0-9]){{{at}}}.*\'"}}'
            for at in range(1, 100)
        ],
    }
    made = []
    for name, lines in files.items():
        with TemporaryDirectory() as folder:
            path = Path(folder, "resources", "patient.yaml")
            path.parent.mkdir()
            text = "\n".join(f"    - {line}" for line in lines)
            path.write_text(f"resource: Patient\nextends: shipped/patient\nadd:\n  extension:\n{text}\n", "utf-8")
            made.append((name, load([Path(folder), shipped("mappings")], "adt")))
    return made


if __name__ == "__main__":
    main()
