"""Moves of identifiers (A43): the numbers of MRG that leave one patient, and those of PID that receive them."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from engine.fhir.plan import Identity
from engine.hl7.finding import ErrorCode, Finding
from engine.mapping.language.identifier import MessageIdentifier

LISTED: Final = "MRG-1"


class MoveSides(NamedTuple):
    """The receiving patient, the moved identities, and the other identities of the patient whom they leave."""

    target: tuple[MessageIdentifier, ...]
    moving: tuple[MessageIdentifier, ...]
    source: tuple[MessageIdentifier, ...]


def sides(pid: Sequence[MessageIdentifier], mrg: Sequence[MessageIdentifier]) -> MoveSides:
    """Return the sides of a move; numbers in MRG do not identify the receiving patient.

    MRG-1 lists the moved numbers. MRG-4 and MRG-2, if the mapping's `identity` has their counterparts, identify the
    patient whom they leave, as PID-2 and PID-4 identify the receiving one (HL7 chapter 3, A43).
    """
    listed = {one.identity for one in mrg}
    moving = tuple(one for one in mrg if one.place == LISTED)
    return MoveSides(
        tuple(one for one in pid if one.identity not in listed),
        moving,
        tuple(one for one in mrg if one.place != LISTED),
    )


def judge(found: MoveSides, pid: Sequence[MessageIdentifier]) -> tuple[Finding, ...]:
    """Return the findings that forbid a move: no receiving patient, or an authority unknown to the channel."""
    if pid and not found.target:
        text = "the PID has no identifier but the numbers being moved"
        return (Finding(ErrorCode.DUPLICATE_KEY, "self-move", (f"{pid[0].location}.1",), text),)
    unnamed = tuple(f"{one.location}.4" for one in (*found.target, *found.moving) if not one.system.configured)
    if unnamed:
        text = "a move of identifiers needs assigning authorities that the channel configures"
        return (Finding(ErrorCode.UNKNOWN_KEY, "unknown-authority", unnamed, text),)
    return ()


def identities(side: Sequence[MessageIdentifier]) -> tuple[Identity, ...]:
    """Return the identities of a side, each once."""
    return tuple(dict.fromkeys(one.identity for one in side))
