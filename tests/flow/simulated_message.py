"""One message of a simulation, split by hand: whom it speaks of, and what it says of them."""

from collections.abc import Iterable
from copy import copy
from datetime import UTC, datetime
from typing import Final
from zoneinfo import ZoneInfo

NULL: Final = '""'
ZONE: Final = ZoneInfo("America/New_York")
CODECS: Final = {"UNICODE UTF-8": "utf-8", "UTF-8": "utf-8", "8859/1": "latin-1"}
GENDERS: Final = {"F": "female", "M": "male", "O": "other", "U": "unknown"}

Number = tuple[str, str]
"""A medical record number: authority and value."""


class Message:
    """One message by segment and field; a segment that repeats is there once for each time."""

    def __init__(self, raw: bytes) -> None:
        charset = raw.split(b"\r", 1)[0].split(b"|")[17].decode()
        lines = [line.split("|") for line in raw.decode(CODECS[charset]).split("\r") if line]
        self.segments: dict[str, list[list[str]]] = {}
        for line in lines:
            self.segments.setdefault(line[0], []).append(line)
        header = lines[0]
        self.source = f"{header[2]}|{header[3]}"
        self.event = header[8].split("^")[1]
        self.at = moment(self.get("EVN", 2))

    def get(self, name: str, number: int, at: int = 0) -> str:
        """Return a field, empty where it is not there."""
        lines = self.segments.get(name, [])
        return lines[at][number] if at < len(lines) and number < len(lines[at]) else ""

    def of(self, at: int) -> "Message":
        """Return what the message says of one of several patients, as if it were all."""
        one = copy(self)
        one.segments = self.segments | {name: self.segments[name][at : at + 1] for name in ("PID", "PV1")}
        return one

    def numbers(self, at: int = 0) -> list[Number]:
        """Return the medical record numbers of a PID."""
        listed = [part.split("^") for part in self.get("PID", 3, at).split("~")]
        return [(parts[3], parts[0]) for parts in listed if parts[4] == "MR"]

    @property
    def merged(self) -> list[Number]:
        """The number that a merge or a change of number takes out of use."""
        parts = self.get("MRG", 1).split("^")
        return [(parts[3], parts[0])] if len(parts) > 3 else []

    @property
    def everybody(self) -> list[Number]:
        """All numbers that the message names as somebody's own."""
        return [number for at in range(len(self.segments["PID"])) for number in self.numbers(at)] + self.merged

    @property
    def person(self) -> tuple[str, ...]:
        """Family, given name, birth date and sex."""
        return (*self.get("PID", 5).split("^")[:2], self.get("PID", 7), self.get("PID", 8))

    @property
    def visit(self) -> Number | None:
        """The visit's number."""
        parts = self.get("PV1", 19).split("^")
        return (parts[3], parts[0]) if len(parts) > 3 else None


def security(message: Message, at: int) -> list[str]:
    """Return the social security numbers of a PID."""
    listed = [part.split("^") for part in message.get("PID", 3, at).split("~")]
    return [parts[0] for parts in listed if parts[4] == "SS"] + [one for one in [message.get("PID", 19, at)] if one]


def single(message: Message, at: int) -> dict[str, str]:
    """Return the elements of which there is one; empty where nothing is said."""
    born, died = message.get("PID", 7, at), message.get("PID", 29, at)
    return {
        "birthDate": f"{born[:4]}-{born[4:6]}-{born[6:8]}" if born else "",
        "gender": GENDERS[message.get("PID", 8, at) or "U"],
        "maritalStatus": message.get("PID", 16, at),
        "deceased": moment(died),
    }


def lists(message: Message, at: int) -> dict[str, set[str]]:
    """Return the items of each list of which something is said."""
    names = [part.split("^") for part in message.get("PID", 5, at).split("~") if part]
    addresses = [part.split("^") for part in message.get("PID", 11, at).split("~") if part]
    phones = [part.split("^") for part in message.get("PID", 13, at).split("~") if part]
    return {
        "name": {" ".join(filter(None, (parts[0], *parts[1:3]))) for parts in names},
        "address": {", ".join((parts[0], *parts[2:5])) for parts in addresses},
        "phone": {_phone(parts) for parts in phones},
    }


def _phone(parts: list[str]) -> str:
    """Return a telephone number as it is to be shown: XTN-12, or else its parts, or else XTN-1."""
    if len(parts) > 11:
        return parts[11]
    return f"+{parts[4]} {parts[5]} {parts[6]}" if len(parts) > 6 else parts[0]


def places(message: Message) -> Iterable[tuple[str, str, str]]:
    """Return field, place and status of each place that PV1 names."""
    planned = message.get("PV1", 2) == "P" or message.event in {"A05", "A14"}
    over = message.event == "A03" or message.get("PV1", 45) not in {"", NULL}
    here = "completed" if over else "planned" if planned else "active"
    for number, status in ((3, here), (6, "completed"), (42, "reserved")):
        parts = message.get("PV1", number).split("^")
        if parts[0]:
            yield f"PV1-{number}", " ".join(filter(None, parts[:3])), status


def moment(text: str) -> str:
    """Return a time of the hospital's clock in UTC, in seconds; empty where none is said."""
    if text in {"", NULL}:
        return ""
    local = datetime.strptime(text, "%Y%m%d%H%M%S"[: len(text) - 2]).replace(tzinfo=ZONE)
    return local.astimezone(UTC).isoformat(timespec="seconds")
