"""Simulated messages as a receiver sees them: cut by hand, with nothing of the simulation's own."""

from dataclasses import dataclass
from functools import cache
from itertools import islice

from engine.simulation.world import SimulatedMessage, simulate

CODECS = {"UNICODE UTF-8": "utf-8", "UTF-8": "utf-8", "8859/1": "latin-1"}
DEMOGRAPHICS = (5, 7, 8)


@dataclass(frozen=True, slots=True)
class Told:
    """One message by its segments; `rows` holds each segment's fields, MSH-1 counted."""

    message: SimulatedMessage
    rows: tuple[tuple[str, ...], ...]

    def named(self, name: str) -> list[tuple[str, ...]]:
        """Return the segments of a name."""
        return [row for row in self.rows if row[0] == name]

    def field(self, name: str, number: int) -> str:
        """Return a field of the first segment of a name, '' where it is absent."""
        row = next(iter(self.named(name)), ())
        return row[number] if number < len(row) else ""

    @property
    def patient(self) -> str:
        """The first number of the first PID-3, with its authority."""
        first = self.field("PID", 3).split("~")[0].split("^")
        return f"{first[3]}|{first[0]}"

    @property
    def visit(self) -> str:
        """PV1-19.1, '' where there is none."""
        return self.field("PV1", 19).split("^")[0]


def told(message: SimulatedMessage) -> Told:
    """Cut a message into its segments."""
    assert message.raw.endswith(b"\r")
    charset = message.raw.split(b"\r", 1)[0].split(b"|")[17].decode()
    lines = message.raw.decode(CODECS[charset]).split("\r")[:-1]
    rows = [tuple(line.split("|")) for line in lines]
    return Told(message, (("MSH", "|", *rows[0][1:]), *rows[1:]))


@cache
def day(seed: int, patients: int, events: int) -> tuple[Told, ...]:
    """Return the first messages of a simulation, cut."""
    return tuple(told(message) for message in islice(simulate(seed, patients), events))
