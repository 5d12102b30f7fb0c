"""Moves of identifiers (A43): which numbers of MRG leave one patient, and which of PID say who gets them."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from engine.fhir.plan import Identity
from engine.hl7.finding import ErrorCode, Finding
from engine.mapping.language.identifier import MessageIdentifier

LISTED: Final = "MRG-1"


class MoveSides(NamedTuple):
    """Who gets the numbers, which of them stand for a person, and what else names the patient whom they leave."""

    target: tuple[MessageIdentifier, ...]
    moving: tuple[MessageIdentifier, ...]
    source: tuple[MessageIdentifier, ...]


def sides(pid: Sequence[MessageIdentifier], mrg: Sequence[MessageIdentifier]) -> MoveSides:
    """Return the sides of a move; what stands in MRG, too, does not say who gets it.

    MRG-1 lists what moves. MRG-4 and MRG-2, where the mapping's `identity` has their counterparts, name the patient
    whom it leaves, as PID-2 and PID-4 name who gets it (HL7 chapter 3, A43).
    """
    listed = {one.identity for one in mrg}
    moving = tuple(one for one in mrg if one.place == LISTED)
    return MoveSides(
        tuple(one for one in pid if one.identity not in listed),
        moving,
        tuple(one for one in mrg if one.place != LISTED),
    )


def judge(found: MoveSides, pid: Sequence[MessageIdentifier]) -> tuple[Finding, ...]:
    """Return what forbids a move: nobody to get the numbers, or an authority that the channel does not name."""
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
