"""What a laboratory of the tests writes: acknowledgements of orders, and results of the tests that were ordered.

It reads HL7 by itself, not by the engine's rooms: what those write wrongly must not be read wrongly too.
"""

import zlib
from datetime import datetime
from typing import Final, NamedTuple

SB, EB, CR = b"\x0b", b"\x1c", b"\r"
CONTENTS: Final = "latin-1"  # of bytes as text and back, whatever the message's character set is

OBSERVER: Final = "1487654321^Lindqvist^Per^^^^^^NPI^^^^NPI"


class Measure(NamedTuple):
    """One line of a result: LOINC code, name, unit, lowest and highest normal value, and what is usually found."""

    code: str
    name: str
    unit: str
    low: float
    high: float
    usual: float


# What the tests of the laboratory measure, by their codes in samples/compendium/cedar-valley.yaml.
MEASURES: Final[dict[str, tuple[Measure, ...]]] = {
    "GLU": (Measure("2345-7", "Glucose", "mg/dL", 70, 99, 92),),
    "A1C": (Measure("4548-4", "Hemoglobin A1c", "%", 4, 5.6, 5.4),),
    "LIPID": (
        Measure("2093-3", "Cholesterol", "mg/dL", 0, 200, 187),
        Measure("2571-8", "Triglyceride", "mg/dL", 0, 150, 121),
        Measure("2085-9", "HDL Cholesterol", "mg/dL", 40, 60, 52),
    ),
}
# LOINC at the level of the report.
PANELS: Final = {"GLU": "2345-7^Glucose", "A1C": "4548-4^Hemoglobin A1c", "LIPID": "24331-1^Lipid panel"}


class Result(NamedTuple):
    """What is to be told of an order: OBR-25 and OBX-11, when it was observed, and what differs from the usual."""

    status: str
    observed: datetime
    value: float | None = None
    record_number: str = ""
    only: str = ""


def segments(message: bytes) -> list[list[str]]:
    """Return the fields of each segment; of MSH, too, the field n stands at n."""
    found = []
    for line in message.decode(CONTENTS).split("\r"):
        fields = line.split("|")
        found.append([fields[0], "|", *fields[1:]] if line.startswith("MSH") else fields)
    return [fields for fields in found if fields[0]]


def field(segment: list[str], number: int, component: int = 0) -> str:
    """Return a field, or one of its components, '' where there is none."""
    text = segment[number] if number < len(segment) else ""
    return text if not component else [*text.split("^"), *[""] * component][component - 1]


def blocks(stream: bytes) -> list[bytes]:
    """Return the messages of a stream of MLLP blocks."""
    return [block.partition(SB)[2] for block in stream.split(EB + CR)[:-1]]


def ordered_at(message: bytes) -> datetime:
    """Return when an order message was written (MSH-7), of which a result is by default: the same at a correction."""
    text = field(segments(message)[0], 7)
    return datetime.strptime(text[:14] + (text[-5:] if text[-5:-4] in {"+", "-"} else "+0000"), "%Y%m%d%H%M%S%z")


def ordered(message: bytes) -> list[tuple[list[str], list[str]]]:
    """Return ORC and OBR of each test that an order message asks for."""
    pairs: list[tuple[list[str], list[str]]] = []
    orc: list[str] = []
    for segment in segments(message):
        if segment[0] == "ORC":
            orc = segment
        elif segment[0] == "OBR":
            pairs.append((orc, segment))
    return pairs


def acknowledgement(message: bytes, code: str, text: str, number: int) -> bytes:
    """Return the answer to a message: MSH, MSA, and for a refusal ERR with its reason (ERR-8)."""
    msh = segments(message)[0]
    trigger = "O22^ORL_O22" if field(msh, 9, 1) == "OML" else "O02^ORR_O02"
    kind = f"{'ORL' if field(msh, 9, 1) == 'OML' else 'ORR'}^{trigger}" if code[0] == "A" else "ACK"
    lines = [
        _header(msh, kind, f"ACK{number}"),
        f"MSA|{code}|{field(msh, 10)}" + (f"|{text}" if text else ""),
        *([f"ERR|||207^Application internal error^HL70357|E||||{text}"] if code[1] != "A" else []),
    ]
    return _message(lines)


def results(order: bytes, told: Result, number: int) -> bytes:
    """Return the results of an order message as one ORU^R01: of each test ORC, OBR and an OBX for each measure."""
    found = segments(order)
    pid = next(segment for segment in found if segment[0] == "PID")
    if told.record_number:
        pid = _somebody_else(pid, told.record_number)
    lines = [_header(found[0], "ORU^R01^ORU_R01", f"RES{number}"), "|".join(pid)]
    wanted = [pair for pair in ordered(order) if told.only in {"", field(pair[1], 4, 1)}]
    for at, (orc, obr) in enumerate(wanted, 1):
        lines += _report(at, orc, obr, told)
    return _message(lines)


def _report(at: int, orc: list[str], obr: list[str], told: Result) -> list[str]:
    placer, code = field(obr, 2) or field(orc, 2), field(obr, 4, 1)
    # The same report whenever it is told: a correction is one of what was told before.
    filler = f"L{zlib.crc32(placer.encode()):08x}^LAB"
    panel = f"{PANELS[code]}^LN^{field(obr, 4)}" if code in PANELS else field(obr, 4)
    moment = told.observed.strftime("%Y%m%d%H%M%S%z")
    lines = [
        f"ORC|RE|{placer}|{filler}|{field(orc, 4)}",
        f"OBR|{at}|{placer}|{filler}|{panel}|||{moment}|||||||||{field(obr, 16)}||||||{moment}||LAB|{told.status}",
    ]
    usual = MEASURES.get(code, (Measure(code, field(obr, 4, 2), "mg/dL", 0, 100, 50),))
    for line, one in enumerate(usual, 1):
        value = one.usual if told.value is None or line > 1 else told.value
        flag = "L" if value < one.low else "H" if value > one.high else "N"
        lines.append(
            f"OBX|{line}|NM|{one.code}^{one.name}^LN||{value:g}|{one.unit}^{one.unit}^UCUM|{one.low:g}-{one.high:g}"
            f"|{flag}|||{told.status}|||{moment}||{OBSERVER}"
        )
    return lines


def _header(msh: list[str], kind: str, control_id: str) -> str:
    """Return MSH of what goes back to whom a message came from, in its version and character set."""
    sender = [field(msh, 5) or "LAB", field(msh, 6), field(msh, 3), field(msh, 4)]
    told = [field(msh, 2), *sender, field(msh, 7), "", kind, control_id, field(msh, 11), field(msh, 12)]
    return "|".join(["MSH", *told, *[""] * 5, field(msh, 18)])


def _somebody_else(pid: list[str], record_number: str) -> list[str]:
    changed = list(pid)
    changed[3] = f"{record_number}^{'^'.join(pid[3].split('~')[0].split('^')[1:])}"
    changed[5] = "Somebody^Else"
    return changed


def _message(lines: list[str]) -> bytes:
    return "".join(f"{line}\r" for line in lines).encode(CONTENTS)
