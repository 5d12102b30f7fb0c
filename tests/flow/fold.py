"""What the journal's messages should have made of the patients: slow, obvious, and nothing of the engine's in it.

It splits the bytes by hand and knows only the feed of feed.py: one identifier system, A01 to A31 and A40.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tests.flow.feed import SYSTEM
from tests.flow.proxy import phones

NULL: Final = '""'
GENDERS: Final = {"F": "female", "M": "male"}


@dataclass(slots=True)
class Record:
    """One patient's record as it should be; `merged_into` is the number of the record that replaced it."""

    number: str
    facts: dict[str, str] = field(default_factory=dict)
    old_numbers: set[str] = field(default_factory=set)
    merged_into: str = ""


def fold(messages: Iterable[bytes]) -> dict[str, Record]:
    """Return the records by their own number, after all messages in the order given."""
    records: dict[str, Record] = {}
    for raw in messages:
        segments = {line[:3]: line.split("|") for line in reversed(raw.decode().split("\r")) if line}
        if segments["MSH"][8].split("^")[1] == "A40":
            _merge(records, segments)
        else:
            _say(_record(records, _number(segments["PID"][3])), segments["PID"])
    return records


def head(records: Mapping[str, Record], number: str) -> Record | None:
    """Return the record that a number leads to now, through every merge; None where nobody ever had it."""
    record = records.get(number) or next((one for one in records.values() if number in one.old_numbers), None)
    while record is not None and record.merged_into:
        record = records[record.merged_into]
    return record


def facts_of(patient: Mapping[str, Any]) -> dict[str, str]:
    """Return of a FHIR Patient what the fold speaks of; an element that is not there is not there."""
    name = patient.get("name", [{}])[0]
    address = patient.get("address", [{}])[0]
    found = {
        "family": name.get("family"),
        "given": " ".join(name.get("given", [])),
        "birthDate": patient.get("birthDate"),
        "gender": patient.get("gender"),
        "street": (address.get("line") or [None])[0],
        "city": address.get("city"),
        "phone": " ".join(phones(patient)),
    }
    return {key: value for key, value in found.items() if value}


def numbers_of(patient: Mapping[str, Any]) -> tuple[set[str], set[str]]:
    """Return a FHIR Patient's numbers of the feed's system: those in use, and the old ones."""
    ours = [item for item in patient.get("identifier", []) if item.get("system") == SYSTEM]
    return (
        {item["value"] for item in ours if item.get("use") != "old"},
        {item["value"] for item in ours if item.get("use") == "old"},
    )


def _record(records: dict[str, Record], number: str) -> Record:
    return head(records, number) or records.setdefault(number, Record(number))


def _say(record: Record, pid: list[str]) -> None:
    family, given, second = pid[5].split("^")[:3]
    record.facts |= {
        "family": family,
        "given": " ".join(filter(None, (given, second))),
        "birthDate": f"{pid[7][:4]}-{pid[7][4:6]}-{pid[7][6:]}",
        "gender": GENDERS[pid[8]],
        "phone": pid[13].split("^")[6],
    }
    if pid[11] == NULL:
        record.facts.pop("street", None)
        record.facts.pop("city", None)
    elif pid[11]:
        street, _, city = pid[11].split("^")[:3]
        record.facts |= {"street": street, "city": city}


def _merge(records: dict[str, Record], segments: Mapping[str, list[str]]) -> None:
    kept, old = _number(segments["PID"][3]), _number(segments["MRG"][1])
    source, survivor = head(records, old), head(records, kept)
    if survivor is None:
        survivor = _record(records, kept)
        _say(survivor, segments["PID"])
    if source is None:
        survivor.old_numbers.add(old)
    elif source is not survivor:
        source.merged_into = survivor.number


def _number(identifiers: str) -> str:
    return identifiers.partition("^")[0]
