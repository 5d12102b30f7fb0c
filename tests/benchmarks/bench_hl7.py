"""What reading a message costs: `python tests/benchmarks/bench_hl7.py` prints a table of microseconds of CPU.

Each row is the best of several rounds of one thread; the message is made here, an ADT^A01 of 2 kB.
"""

import platform
import time
from collections.abc import Callable
from zoneinfo import ZoneInfo

from engine.hl7.conformance.check import check
from engine.hl7.escape import unescape
from engine.hl7.header import read_header
from engine.hl7.message import parse
from engine.hl7.path import parse_path
from engine.hl7.timestamp import parse_timestamp
from engine.simulation.world import simulate

ROUNDS = 15
CALLS = 2_000
ZONE = ZoneInfo("America/Chicago")
RAW = (
    b"MSH|^~\\&|EPICADT|RVB^1.2.3^ISO|ENGINE|RVB|20240229101530-0600||ADT^A01^ADT_A01|MSG00001|P|2.5.1|||AL|NE\r"
    b"EVN|A01|20240229101500|||OPER^Smith^Jo\r"
    b"PID|1||123456^^^RVB^MR~999-11-2222^^^SSA^SS||Doe^John^Q^^Mr||19700102|M||2106-3|12 Main St^^Springfield^IL^62701"
    b"^USA^H||(217)555-1212^PRN^PH~^NET^Internet^jd@example.org|(217)555-9999^WPN^PH||M|CAT|ACC123^^^RVB^AN|||||||||||N\r"
    b"PD1|||Clinic^^99|1234^Jones^Mary^^^Dr\r"
    b"NK1|1|Doe^Jane|SPO^Spouse^HL70063|12 Main St^^Springfield^IL^62701|(217)555-3434||EMC\r"
    b"NK1|2|Doe^Jim|PAR^Parent^HL70063|7 Oak St^^Springfield^IL^62701|(217)555-3435||EMC\r"
    b"PV1|1|I|3W^301^A^RVB||||1111^Attending^Al^^^Dr|2222^Refer^Rae^^^Dr||MED||||7|||1111^Attending^Al^^^Dr|IN"
    b"|V0001^^^RVB^VN|||||||||||||||||||||||||20240229101500\r"
    b"PV2||PRIV|CHEST PAIN||||||20240303\r"
    b"OBX|1|NM|8302-2^Body height^LN||172|cm|||||F|||20240229101500\r"
    b"OBX|2|NM|29463-7^Body weight^LN||81|kg|||||F|||20240229101500\r"
    b"OBX|3|NM|8867-4^Heart rate^LN||72|/min|||||F|||20240229101500\r"
    b"OBX|4|TX|NOTE^Triage note||Patient walked in with a companion; pain began two hours ago \\T\\ has eased||||||F\r"
    b"AL1|2|FA|NUT^Peanuts^L|MO|SWELLING\r"
    b"DG1|2||I10^Essential hypertension^I10|||A\r"
    b"PR1|1||93000^Electrocardiogram^C4||20240229103000|D\r"
    b"ROL|1|AD|PP^Primary care^HL70443|5555^Primary^Pat^^^Dr|20200101\r"
    b"AL1|1|DA|PEN^Penicillin|SV|RASH\r"
    b"DG1|1||R07.9^Chest pain, unspecified^I10|||A\r"
    b"GT1|1||Doe^John||12 Main St^^Springfield^IL^62701|(217)555-1212||19700102|M||SEL\r"
    b"IN1|1|PLAN^Plan A|INS1|Good Insurance|PO Box 1^^Springfield^IL^62701||(217)555-0000|GRP1|Group One|||20240101"
    b"|20241231|||Doe^John|SEL|19700102|12 Main St^^Springfield^IL^62701|||||||||||||||||POL123456\r"
    b"IN1|2|PLANB^Plan B|INS2|Other Insurance|PO Box 2^^Springfield^IL^62701||(217)555-0001|GRP2|Group Two|||20240101"
    b"|20241231|||Doe^Jane|SPO|19710203|12 Main St^^Springfield^IL^62701|||||||||||||||||POL999999\r"
    b"ZPI|1|local^value|another|20240229\r"
)
LINE_FEEDS = RAW.replace(b"\r", b"\n")
JAPANESE = RAW.replace(b"|AL|NE\r", b"|AL|NE||~ISO IR87\r", 1).replace(
    b"Doe^John", b"\x1b$B;3ED\x1b(B^\x1b$BB@O:\x1b(B"
)
READS = (
    *(("PID", 3, 1), ("PID", 3, 4), ("PID", 3, 5), ("PID", 5, 1), ("PID", 5, 2), ("PID", 5, 3), ("PID", 7, 1)),
    *(("PID", 8, 1), ("PID", 11, 1), ("PID", 11, 3), ("PID", 11, 5), ("PID", 13, 1), ("PID", 16, 1), ("PID", 18, 1)),
    *(("PV1", 2, 1), ("PV1", 3, 1), ("PV1", 19, 1), ("PV1", 44, 1), ("MSH", 10, 1), ("EVN", 2, 1)),
)
PATH = parse_path("PID-3[CX.5=MR].1").leaves
PARSED = parse(RAW)
HOSPITAL = simulate(1)


def read_leaves() -> None:
    """Parse and read twenty leaves."""
    leaf = parse(RAW).leaf
    for segment, field, component in READS:
        leaf(segment, field, component)


def every_part() -> None:
    """Parse and cut every field of every segment."""
    for segment in parse(RAW).segments:
        for number in range(1, segment.fields() + 1):
            segment.repetitions(number)


WORK: dict[str, tuple[Callable[[], object], float | None]] = {
    "read_header": (lambda: read_header(RAW), None),
    "parse": (lambda: parse(RAW), 10),
    "parse, ISO 2022": (lambda: parse(JAPANESE), None),
    "parse, LF ends": (lambda: parse(LINE_FEEDS), None),
    "parse + 20 leaves": (read_leaves, 25),
    "parse + every repetition": (every_part, None),
    "PID-3[CX.5=MR].1": (lambda: PATH(PARSED), None),
    "parse_timestamp": (lambda: parse_timestamp("20240229101500", ZONE), None),
    "conformance check": (lambda: check(PARSED), None),
    "one simulated message": (lambda: next(HOSPITAL), None),
    "unescape, two sequences": (lambda: unescape("Smith \\T\\ Sons\\F\\x", PARSED.delimiters), None),
}


def microseconds(work: Callable[[], object]) -> float:
    """Return the CPU time of one call, the best of all rounds."""
    best = float("inf")
    for _ in range(ROUNDS):
        begun = time.process_time()
        for _ in range(CALLS):
            work()
        best = min(best, time.process_time() - begun)
    return best / CALLS * 1e6


def main() -> None:
    """Print the table."""
    print(f"{platform.python_implementation()} {platform.python_version()}, {platform.machine()}, {len(RAW)} bytes")  # noqa: T201
    for name, (work, bound) in WORK.items():
        took = microseconds(work)
        told = "" if bound is None else f"  bound {bound:g}" + ("" if took <= bound else "  MISSED")
        print(f"{name:28}{took:8.2f} us{told}")  # noqa: T201


if __name__ == "__main__":
    main()
