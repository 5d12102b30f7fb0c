"""A storm of updates of one patient: the newest of those that wait is delivered, and what it repeats is superseded.

    head of a lane -> what waits right behind it, each saying all that the one before says -> deliver the newest
    -> delivered: one settlement ends all of them; else all go back, and the head goes alone

The older ones are settled only together with the newest, once that is delivered: a kill at any point loses nothing.
"""

import contextlib
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

from engine.config.destination import Collapse
from engine.deliver.verdict import Verdict, VerdictKind
from engine.errors import EventError, JournalError, MappingError, MessageError, SealError
from engine.fhir.plan import Plan
from engine.fhir.superseding import supersedes
from engine.journal.claim.claiming import WaitingDelivery
from engine.journal.entry import Claimed, State
from engine.journal.journal import Journal

# How many updates one delivery may supersede.
MOST: Final = 100
# How often an update is tried ahead of its turn; then the older ones go before it.
MOST_TRIES: Final = 3

PlanOf = Callable[[Claimed], Plan]
Deliver = Callable[[Claimed, Plan], Awaitable[Verdict]]
PutOff = Callable[[Claimed, Verdict], Awaitable[None]]


class UpdateRun(NamedTuple):
    """The head of a lane and the updates behind it that are claimed with it; the plan is that of the newest."""

    head: Claimed
    behind: tuple[Claimed, ...]
    plan: Plan

    @property
    def newest(self) -> Claimed:
        """The update that is delivered."""
        return self.behind[-1]

    @property
    def superseded(self) -> tuple[int, ...]:
        """The numbers of those that need no delivery of their own then, oldest first."""
        return (self.head.seq, *(one.seq for one in self.behind[:-1]))


async def claim_run(
    journal: Journal, collapse: Collapse | None, head: Claimed, plan: Plan, plan_of: PlanOf
) -> UpdateRun | None:
    """Claim the updates behind a head that are delivered with it, at most MOST; None where it goes alone.

    `plan_of` may raise what makes a message undeliverable: the run ends before it.
    """
    if collapse is None or head.event not in collapse.events or len(head.lanes) != 1 or _is_special(head):
        return None
    # What was sent itself, and perhaps applied, is delivered by itself.
    if head.attempts_made:
        return None
    waiting: tuple[WaitingDelivery, ...] = ()
    with contextlib.suppress(SealError):
        waiting = await journal.look(lambda context: context.claims.behind(head, MOST))
    run: list[Claimed] = []
    newest, is_resumed = plan, False
    for one in waiting:
        following = _plan_behind(head, one, newest, plan_of)
        if following is None:
            break
        newest, is_resumed = following, _is_resumed(one)
        run.append(one.claimed)
        if is_resumed:
            break
    if not run or (head.tries and not is_resumed):
        return None
    claimed = await journal.claim_behind(head, run)
    return UpdateRun(head, claimed, newest) if claimed else None


async def deliver_newest(journal: Journal, run: UpdateRun, deliver: Deliver, put_off: PutOff) -> Verdict:
    """Deliver the newest update of a run and return its verdict; unless it is delivered, all behind the head go back.

    `put_off` settles the newest where it is not delivered.
    """
    left = [one.seq for one in run.behind]
    try:
        verdict = await deliver(run.newest, run.plan)
        if verdict.kind is VerdictKind.DELIVERED:
            left = []
        else:
            await put_off(run.newest, verdict)
            left.pop()
    finally:
        if left:
            with contextlib.suppress(JournalError):
                await journal.put_back(run.head.destination, left)
    return verdict


def of_head(verdict: Verdict) -> Verdict:
    """Return the verdict on a head whose newest update is to be tried again: nothing was sent for the head itself."""
    return Verdict(
        verdict.kind, verdict.reason, (), verdict.failure, verdict.retry_after_seconds, unasked=verdict.unasked
    )


def _plan_behind(head: Claimed, waiting: WaitingDelivery, before: Plan, plan_of: PlanOf) -> Plan | None:
    """Return the plan of what waits if it may be delivered in place of what is before it in the lane."""
    one = waiting.claimed
    like = (one.event, one.channel, one.source, one.lanes) == (head.event, head.channel, head.source, head.lanes)
    if not like or waiting.state != State.WAITING or _is_special(one):
        return None
    if (one.attempts_made or one.tries) and not _is_resumed(waiting):
        return None
    try:
        plan = plan_of(one)
    except (EventError, MappingError, MessageError, SealError):
        return None
    return plan if supersedes(plan, before) else None


def _is_special(one: Claimed) -> bool:
    """True if a person replayed or released an entry, or it is only tried: it goes by itself."""
    return one.replay or one.forced or one.released or one.shadow


def _is_resumed(waiting: WaitingDelivery) -> bool:
    """True if an update was tried ahead of its turn and is to be tried so again: it may have been applied."""
    one = waiting.claimed
    is_retried = bool(one.attempts_made or one.tries) and waiting.timed and one.tries < MOST_TRIES
    return one.open_intent is not None or is_retried
