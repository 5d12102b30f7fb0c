"""The subject of a message: whom it speaks of and what is to be done with it, as far as intake has to know."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from engine.fhir.plan import Identity
from engine.hl7.finding import Finding


class Action(StrEnum):
    """What becomes of a message: delivered, filtered by a named rule, or refused for its findings."""

    DELIVER = "deliver"
    FILTER = "filter"
    REFUSE = "refuse"


@dataclass(frozen=True, slots=True)
class Subject:
    """What intake has to know of a message.

    `rule` names the rule of the event table. `patients`: each group holds identities that share a lane; the two
    sides of a merge are one group, several merges in one message are several groups. `merge`: the event merges.
    `visit` is PV1-19.1, empty where there is none. `flags` are codes with a place, never values. `event_at` is EVN-2
    or else MSH-7, aware; None where the message has neither.
    """

    rule: str
    action: Action
    patients: tuple[tuple[Identity, ...], ...] = ()
    merge: bool = False
    visit: str = ""
    findings: tuple[Finding, ...] = ()
    flags: tuple[str, ...] = ()
    event_at: datetime | None = None


def lane_key(identity: Identity) -> str:
    """Return the text by which an identity's lane is known."""
    return f"{identity.system}|{identity.value}"
