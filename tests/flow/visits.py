"""What the journal's messages should have made of the visits: slow, obvious, and nothing of the engine's in it.

It knows the feed of feed.py alone: a visit has the number of its patient's registration in it, and nobody else's.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from tests.flow.feed import SYSTEM

VISITS: Final = f"{SYSTEM}#VN"
CLASSES: Final = {"I": "IMP", "P": "PRENC"}
OVER: Final = ("finished", "cancelled")
# What an event makes of a status (empty: nobody knew the visit), and of any other one (empty: nothing).
MOVES: Final[dict[str, tuple[dict[str, str], str]]] = {
    "A01": ({"onleave": "onleave"}, "in-progress"),
    "A02": ({"": "in-progress", "planned": "in-progress"}, ""),
    "A03": ({"cancelled": "cancelled"}, "finished"),
    "A04": ({"onleave": "onleave"}, "in-progress"),
    "A05": ({"": "planned", **dict.fromkeys(OVER, "planned")}, ""),
    "A08": ({"": "in-progress"}, ""),
    "A11": ({}, "cancelled"),
    "A13": ({"finished": "in-progress"}, ""),
    "A21": ({one: one for one in OVER}, "onleave"),
    "A22": ({"": "in-progress", "onleave": "in-progress"}, ""),
}
# Where an event has nothing to say of a visit: nothing to cancel, or a pre-admission of somebody who is there.
IDLE: Final = {"A13": ("planned", "in-progress", "onleave", "cancelled"), "A05": ("in-progress", "onleave")}


@dataclass(slots=True)
class Visit:
    """One visit as it should be: the number under which its patient was registered, and what is said of it."""

    patient: str
    status: str = ""
    kind: str = ""
    place: str = ""


def visits(messages: Iterable[bytes]) -> dict[str, Visit]:
    """Return the visits by number, after all messages in the order given."""
    found: dict[str, Visit] = {}
    for raw in messages:
        segments = {line[:3]: line.split("|") for line in reversed(raw.decode().split("\r")) if line}
        event, pv1 = segments["MSH"][8].split("^")[1], segments.get("PV1", [])
        number = pv1[19].split("^")[0] if len(pv1) > 19 else ""
        if not number or event not in MOVES:
            continue
        visit = found.get(number)
        if visit is None:
            if event in {"A11", "A13"}:
                continue
            visit = found[number] = Visit(segments["PID"][3].split("^")[0])
        if visit.status in IDLE.get(event, ()):
            continue
        visit.status = _after(event, visit.status)
        visit.kind = CLASSES[pv1[2]]
        visit.place = " ".join(filter(None, pv1[3].split("^")[:3]))
    return found


def said_of(encounter: Mapping[str, Any]) -> tuple[str, str, tuple[str, ...]]:
    """Return status, class and places of a FHIR Encounter: where the patient is now, or was, once the visit is over.

    This feed sends its patients anywhere at any time; which of the places of a visit that is over was the last one is
    held by the simulated days, whose patients walk.
    """
    places = [(one.get("status"), one["location"]["display"]) for one in encounter["location"]]
    over = encounter["status"] in OVER
    return (
        encounter["status"],
        encounter["class"]["code"],
        tuple(name for status, name in places if over or status != "completed"),
    )


def agrees(encounter: Mapping[str, Any], visit: Visit) -> bool:
    """Say whether a FHIR Encounter says of a visit what it should: of an open one this place and no other."""
    status, kind, places = said_of(encounter)
    there = visit.place in places if status in OVER else places == (visit.place,)
    return (status, kind) == (visit.status, visit.kind) and there


def number_of(encounter: Mapping[str, Any]) -> str:
    """Return the visit number of a FHIR Encounter."""
    return str(next(one["value"] for one in encounter["identifier"] if one["system"] == VISITS))


def _after(event: str, status: str) -> str:
    """Return the status after an event; the one before is empty for a visit that nobody knew."""
    moves, otherwise = MOVES[event]
    return moves.get(status, otherwise or status)
