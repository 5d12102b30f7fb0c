"""Admissions, each at a ward and by a doctor that nobody knows yet: what goes beside the patient is one transaction."""

from collections import Counter
from collections.abc import Iterable
from typing import Any, Final

from tests.flow.feed import FeedMessage
from tests.flow.proxy import Call
from tests.flow.rig import Rig

BASE: Final = "/fhir/R4"
# What stands beside a patient: the ward, its room, its bed and the site, which all wards share.
KEPT: Final = ("Practitioner", "Location", "Organization", "Encounter")


def admission(number: int, event: str = "A01") -> FeedMessage:
    """Return an event of a patient of this number; each has a ward, a doctor and a visit of one's own."""
    name, at = f"W{event}{number:04d}", f"20260302{6 + (event != 'A01'):02d}{number // 60:02d}{number % 60:02d}"
    segments = (
        f"MSH|^~\\&|REG|RIVERBEND|ADTENGINE|HUB|{at}||ADT^{event}|{name}|P|2.5.1",
        f"EVN|{event}|{at}",
        f"PID|1||WD{number}^^^RVB^MR||Kim^Ada{_letters(number)}||1954{1 + number % 12:02d}03|F",
        f"PV1|1|I|{event}W{number}^312^A^RIVERBEND||||{7000 + number}^Osei^Ada||||||||||||VW{number}^^^RVB",
    )
    return FeedMessage(name, number, "".join(f"{segment}\r" for segment in segments).encode(), "")


def _letters(number: int) -> str:
    return "".join(chr(ord("a") + int(digit)) for digit in str(number))


def transactions(rig: Rig) -> list[Call]:
    """Return the transactions that reached the proxy."""
    return [call for call in rig.proxy.calls if call.method == "POST" and call.path == BASE]


async def kept(rig: Rig, type_: str) -> list[dict[str, Any]]:
    """Return all resources of a type that the service has, each as it is now."""
    newest: dict[str, dict[str, Any]] = {}
    path = f"/{type_}/_history?_count=100"
    while path:
        bundle = await rig.get(path)
        for entry in bundle.get("entry", ()):
            body = entry["resource"]
            if int(newest.get(body["id"], body)["meta"]["versionId"]) <= int(body["meta"]["versionId"]):
                newest[body["id"]] = body
        links = {link["relation"]: link["url"] for link in bundle.get("link", ())}
        path = links.get("next", "").partition(BASE)[2]
    return list(newest.values())


async def check_wards(rig: Rig, numbers: Iterable[int]) -> None:
    """See everything once at the service, each visit its patient's, at its ward and with its doctor."""
    found = {type_: await kept(rig, type_) for type_ in KEPT}
    for type_, bodies in found.items():
        seen = Counter((one["system"], one["value"]) for body in bodies for one in body["identifier"])
        assert [number for number, count in seen.items() if count > 1] == [], type_
    names = {f"{body['resourceType']}/{body['id']}": body for bodies in found.values() for body in bodies}
    patients = await rig.patients()
    visits = {_number(body, "V"): body for body in found["Encounter"]}
    assert sorted(visits) == sorted(f"VW{number}" for number in numbers)
    for name, visit in visits.items():
        number = name.removeprefix("VW")
        assert _number(patients[visit["subject"]["reference"].partition("/")[2]], "WD") == f"WD{number}"
        (place,) = (one for one in visit["location"] if one.get("status") != "completed")
        bed = names[place["location"]["reference"]]
        assert bed["name"].split()[0].partition("W")[2] == number
        room = names[bed["partOf"]["reference"]]
        assert names[room["partOf"]["reference"]]["name"].partition("W")[2] == number
        (doctor,) = visit["participant"]
        assert _number(names[doctor["individual"]["reference"]], "7") == str(7000 + int(number))


def _number(body: dict[str, Any], begins: str) -> str:
    return next(str(one["value"]) for one in body["identifier"] if str(one["value"]).startswith(begins))
