"""What a sending system tells in one message, before it is written down."""

from collections.abc import Generator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from engine.simulation.hospital import SendingSystem
from engine.simulation.person import SimulatedPerson
from engine.simulation.stay import Stay

OLD_NUMBER: Final = "old-number"
LATE: Final = "late"
DUPLICATE: Final = "duplicate"


@dataclass(frozen=True, slots=True)
class SimulatedEvent:
    """One event as one system tells it.

    `authority` says whose number names the patient, `number` which one where it is not the current one; `also` the
    authority of a second number listed; `merged` is MRG-1, of the authority `merged_of` where it is another one;
    `account` is MRG-3; `other` the authority of the second PID of a link; `beside` the event of a second patient.
    """

    trigger: str
    sender: SendingSystem
    person: SimulatedPerson
    authority: str
    stay: Stay | None = None
    number: str = ""
    also: str = ""
    merged: str = ""
    other: str = ""
    reason: str = ""
    note: str = ""
    merged_of: str = ""
    account: str = ""
    beside: "SimulatedEvent | None" = None


Way = Generator["timedelta | SimulatedEvent | Way", datetime, None]
"""A course of events: it yields how long nothing happens, the event then, and other courses that begin in parallel.

After each span of time it is sent the time.
"""
