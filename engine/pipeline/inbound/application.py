"""Acknowledgements of one message: built at once, or once it is delivered (`acknowledge: delivered`)."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, NamedTuple

from engine.acknowledge.build import build
from engine.acknowledge.code import AckCode, AckMode, code_for
from engine.hl7.finding import ErrorCode, Finding
from engine.hl7.header import Header
from engine.journal.entry import State
from engine.journal.read.backlog import DestinationResult
from engine.pipeline.inbound.outcomes import EntryOutcome, Outcomes

LATE: Final = Finding(ErrorCode.APPLICATION, "not-yet-delivered", (), "Stored, not yet delivered; do not send again")
HELD: Final = Finding(ErrorCode.APPLICATION, "held", (), "Stored, but held; do not send again")
SELF_MERGE: Final = Finding(
    ErrorCode.DUPLICATE_KEY,
    "self-merge",
    ("PID-3", "MRG-1"),
    "Both numbers are one patient's already: nothing to merge; a change of identifier (A47) takes one out of use",
)
GOOD: Final = frozenset({State.DELIVERED, State.FILTERED})

ENDS: Final = GOOD | {State.REJECTED, State.HELD, State.DISCARDED}


class AckBuilder(NamedTuple):
    """Builds the acknowledgements of one message, in its own delimiters, version and character set.

    `new_id` gives an acknowledgement's own control id.
    """

    header: Header
    charset: str
    version: str
    new_id: Callable[[], str]
    clock: Callable[[], datetime]

    def build(self, code: AckCode, findings: Sequence[Finding] = ()) -> bytes:
        """Return the bytes of an acknowledgement."""
        return build(self.header, code, findings, self.new_id(), self.clock(), self.charset, version=self.version)


@dataclass(frozen=True, slots=True)
class Awaited:
    """Where an entry's outcome is waited for; `outcome` where it is known already."""

    destinations: frozenset[str]
    outcome: EntryOutcome | None = None


def findings_of(outcome: EntryOutcome | None, pairs: Sequence[tuple[str, ...]] = ()) -> Sequence[Finding]:
    """Return what forbids AA: nothing, a self-merge found by look-up, held, or not yet known (None).

    `pairs`: the places of each pair of a merge of several; those that the outcome is about are named.
    """
    if outcome is None:
        return (LATE,)
    if outcome.state in GOOD:
        return ()
    places = _places(outcome, pairs)
    if outcome.state is not State.REJECTED:
        return (HELD._replace(locations=places),)
    if outcome.reason in {"", SELF_MERGE.reason}:
        return (SELF_MERGE._replace(locations=places or SELF_MERGE.locations),)
    return (Finding(ErrorCode.APPLICATION, outcome.reason, places, "Stored, and rejected; nothing was sent"),)


def _places(outcome: EntryOutcome, pairs: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """Return where those pairs stand that an outcome is about."""
    noted = {f"{outcome.reason} {number}": places for number, places in enumerate(pairs, 1)}
    return tuple(place for note in outcome.notes for place in noted.get(note, ()))


def standing(states: Mapping[str, DestinationResult], required: frozenset[str]) -> Awaited:
    """Return what a message that came before still waits for, by its state now at the destinations that count.

    A destination that it was never given to (one that was added since) is waited for no more than an optional one.
    """
    mine = {name: ended for name, ended in states.items() if name in required}
    bad = next((ended for ended in mine.values() if ended.state in ENDS - GOOD), None)
    if bad is not None:
        return Awaited(frozenset(), EntryOutcome(*bad))
    left = frozenset(name for name, ended in mine.items() if ended.state not in ENDS)
    return Awaited(left, None if left else EntryOutcome(State.DELIVERED, ""))


async def application_ack(
    outcomes: Outcomes,
    seq: int,
    awaited: Awaited,
    within_seconds: float,
    mode: AckMode,
    acks: AckBuilder,
    pairs: Sequence[tuple[str, ...]] = (),
) -> bytes | None:
    """Wait for the outcome at the required destinations, at most `within_seconds`, and return what is said of it.

    None where MSH-16 does not ask for this acknowledgement. Past the time, and for what was held, the answer is AE.
    """
    outcome = awaited.outcome
    if outcome is None:
        try:
            async with asyncio.timeout(within_seconds):
                outcome = await asyncio.shield(outcomes.expect(seq, awaited.destinations))
        except TimeoutError:
            outcomes.forget(seq)
    findings = findings_of(outcome, pairs)
    code = code_for(findings)
    if code is AckCode.AR:
        code = AckCode.AE
    if mode.enhanced and not mode.application.asks(code):
        return None
    return acks.build(code, findings)
