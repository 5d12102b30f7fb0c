"""The subject of a message: its patients and its disposition, as far as intake needs them."""

from collections.abc import Iterable
from datetime import datetime
from enum import StrEnum
from typing import Final, NamedTuple

from engine.fhir.plan import Identity
from engine.hl7.finding import Finding

CONTROL: Final = "control-characters"


class Disposition(StrEnum):
    """The disposition of a message: delivered, filtered by a named rule, or refused for its findings."""

    DELIVER = "deliver"
    FILTER = "filter"
    REFUSE = "refuse"


class AppliedFilter(NamedTuple):
    """The filter that held for a message: its rule, its action, and its place.

    `send_to`: the only destinations of a message that the filter sends on; empty for other filters.
    """

    rule: str
    does: str
    send_to: tuple[str, ...]
    file: str
    line: int


class MessageSubject(NamedTuple):
    """The facts of a message that intake needs.

    `rule` names the rule of the event table, or the filter that replaced it. `patients`: each group holds identities
    that share a lane; the two sides of a merge are one group, several merges in one message are several groups.
    `merge`: the event merges. `visit` is PV1-19.1, else the number by which the visit is known; or empty.
    `flags` are codes with a place, never values. `event_at` is EVN-2 or else MSH-7, aware; None where the message has
    neither. `filter`: the one that held, of the channel or of the event file. `of_identity`: the event is about
    the identity of a person or the patient of a visit, so that it goes wherever they are known.
    """

    rule: str
    action: Disposition
    patients: tuple[tuple[Identity, ...], ...] = ()
    merge: bool = False
    visit: str = ""
    findings: tuple[Finding, ...] = ()
    flags: tuple[str, ...] = ()
    event_at: datetime | None = None
    filter: AppliedFilter | None = None
    of_identity: bool = False


def flagged(subject: MessageSubject, segments: Iterable[str]) -> MessageSubject:
    """Return a subject with flags for segments that had characters which FHIR text cannot hold; '' is no name."""
    flags = tuple(f"{CONTROL} {name}".rstrip() for name in segments)
    return subject._replace(flags=(*subject.flags, *flags))


def lane_key(identity: Identity) -> str:
    """Return the key of an identity's lane."""
    return f"{identity.system}|{identity.value}"
