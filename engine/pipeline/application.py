"""The application acknowledgement of a channel that answers on delivery (`acknowledge: delivered`)."""

import asyncio
from collections.abc import Sequence
from typing import Final

from engine.acknowledge.code import AckCode, code_for
from engine.acknowledge.mode import Mode
from engine.hl7.finding import ErrorCode, Finding
from engine.journal.entry import Recorded, State
from engine.pipeline.outcomes import Outcome, Outcomes
from engine.pipeline.speech import Speech

LATE: Final = Finding(ErrorCode.APPLICATION, "not-yet-delivered", (), "Stored, not yet delivered; do not send again")
HELD: Final = Finding(ErrorCode.APPLICATION, "held", (), "Stored, but held; do not send again")
SELF_MERGE: Final = Finding(
    ErrorCode.DUPLICATE_KEY, "self-merge", (), "Surviving and merged identifiers name the same patient"
)
GOOD: Final = frozenset({State.DELIVERED, State.FILTERED})

ENDS: Final = GOOD | {State.REJECTED, State.HELD, State.DISCARDED}


def findings_of(outcome: Outcome | None) -> Sequence[Finding]:
    """Return what stands against AA: nothing, a self-merge found by look-up, held, or not yet known (None)."""
    if outcome is None:
        return (LATE,)
    if outcome.state in GOOD:
        return ()
    return (SELF_MERGE,) if outcome.state is State.REJECTED else (HELD,)


async def application_ack(
    outcomes: Outcomes, recorded: Recorded, required: frozenset[str], within_seconds: float, mode: Mode, speech: Speech
) -> bytes | None:
    """Wait for the outcome at the required destinations, at most `within_seconds`, and return what is said of it.

    A message that was received before and has ended since is answered from where its entry stands now.

    None where MSH-16 does not ask for this acknowledgement. Past the time, and for what was held, the answer is AE.
    """
    outcome = Outcome(recorded.state, "") if recorded.duplicate and recorded.state in ENDS else None
    if outcome is None:
        try:
            async with asyncio.timeout(within_seconds):
                outcome = await asyncio.shield(outcomes.expect(recorded.seq, required))
        except TimeoutError:
            outcomes.forget(recorded.seq)
    findings = findings_of(outcome)
    code = code_for(findings)
    if code is AckCode.AR:
        code = AckCode.AE
    if mode.enhanced and not mode.application.asks(code):
        return None
    return speech.say(code, findings)
