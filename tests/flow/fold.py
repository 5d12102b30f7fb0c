"""What the journal's messages should have made of the patients: slow, obvious, and nothing of the engine's in it.

It splits the bytes by hand and knows only the feed of feed.py: one identifier system, admissions and updates, the
merge family, A47, A29, A24 and A37.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tests.flow.feed import SYSTEM
from tests.flow.proxy import phones

NULL: Final = '""'
GENDERS: Final = {"F": "female", "M": "male"}
MERGES: Final = frozenset({"A18", "A30", "A34", "A39", "A40"})
WAKES: Final = frozenset({"A01", "A04", "A05", "A28"})


@dataclass(slots=True)
class Record:
    """One patient's record as it should be.

    `merged_into` is the number of the record that replaced it, `links` are those of records said to be the same person.
    """

    number: str
    facts: dict[str, str] = field(default_factory=dict)
    old_numbers: set[str] = field(default_factory=set)
    merged_into: str = ""
    links: set[str] = field(default_factory=set)


def fold(messages: Iterable[bytes]) -> dict[str, Record]:
    """Return the records by their own number, after all messages in the order given."""
    records: dict[str, Record] = {}
    for raw in messages:
        lines = [line.split("|") for line in raw.decode().split("\r") if line]
        segments = {line[0]: line for line in reversed(lines)}
        event, pids = segments["MSH"][8].split("^")[1], [line for line in lines if line[0] == "PID"]
        if event in MERGES:
            _merge(records, segments)
        elif event == "A47":
            _rename(records, segments)
        elif event in {"A24", "A37"}:
            _link(records, pids, apart=event == "A37")
        elif event == "A29":
            _delete(records, _number(pids[0][3]))
        else:
            _tell(_record(records, _number(pids[0][3])), pids[0], wake=event in WAKES)
    return records


def head(records: Mapping[str, Record], number: str) -> Record | None:
    """Return the record that a number leads to now, through every merge; None where nobody ever had it."""
    record = records.get(number) or next((one for one in records.values() if number in one.old_numbers), None)
    while record is not None and record.merged_into:
        record = records[record.merged_into]
    return record


def links_of(patient: Mapping[str, Any]) -> set[str]:
    """Return the ids of the records that a FHIR Patient says are the same person's."""
    links = (link for link in patient.get("link", []) if link["type"] == "seealso")
    return {str(link["other"]["reference"]).rpartition("/")[2] for link in links}


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
        "active": str(patient.get("active")).lower(),
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


def _tell(record: Record, pid: list[str], *, wake: bool) -> None:
    """Let an event speak of a person; a record that was deleted is woken by a registration only."""
    _say(record, pid)
    if wake or "active" not in record.facts:
        record.facts["active"] = "true"


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
        _tell(survivor, segments["PID"], wake=True)
    if old != survivor.number:
        survivor.old_numbers.add(old)
    if source is not None and source is not survivor:
        source.merged_into = survivor.number
        survivor.links |= source.links
        source.facts["active"] = "false"


def _rename(records: dict[str, Record], segments: Mapping[str, list[str]]) -> None:
    new, old = _number(segments["PID"][3]), _number(segments["MRG"][1])
    record = head(records, old) or head(records, new)
    if record is None:
        record = _record(records, new)
        _tell(record, segments["PID"], wake=True)
    if record.number == new:
        record.old_numbers.add(old)
        return
    del records[record.number]
    records[new] = record
    for one in records.values():
        one.merged_into = new if one.merged_into == record.number else one.merged_into
        one.links = {new if number == record.number else number for number in one.links}
    record.old_numbers = (record.old_numbers | {record.number}) - {new}
    record.number = new


def _link(records: dict[str, Record], pids: list[list[str]], *, apart: bool) -> None:
    sides = [head(records, _number(pid[3])) for pid in pids]
    if apart:
        one, other = sides
        if one is not None and other is not None:
            one.links.discard(other.number)
            other.links.discard(one.number)
        return
    for pid, side in zip(pids, sides, strict=True):
        if side is None:
            _tell(_record(records, _number(pid[3])), pid, wake=True)
    one, other = (_record(records, _number(pid[3])) for pid in pids)
    if one is not other:
        one.links.add(other.number)
        other.links.add(one.number)


def _delete(records: dict[str, Record], number: str) -> None:
    """Set the record inactive that has the number in use; under an old one there is nothing to delete."""
    record = records.get(number)
    if record is not None and not record.merged_into:
        record.facts["active"] = "false"


def _number(identifiers: str) -> str:
    return identifiers.partition("^")[0]
