"""Plans a transaction bundle of a message's resources other than the patient, where the server takes one.

It is carried out twice: on a draft, which shows what there is to write, then with what the server has answered to that.
So a transaction ends exactly as its requests would have ended one by one, and whatever goes wrong with it is left to
them: then everything is read anew, for nobody knows what such a server has done. Where there is at most one write, what
the draft has shown of all else holds, and only the step that writes is carried out again.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from engine.deliver.resources.transaction import TransactionRefusal, transact
from engine.deliver.wire.exchange import Exchange
from engine.deliver.wire.recording_server import RecordingServer
from engine.deliver.wire.response_log import name_of
from engine.errors import DeliveryError
from engine.fhir.plan import Interaction, Keep

MOST_WRITES: Final = 200


class CarryOut(Protocol):
    """Carries out steps one by one and returns how each ended."""

    async def __call__(self, exchange: Exchange, steps: Sequence[Interaction], *, remembered: bool) -> list[str]:
        """Start from what the server says now where `remembered` is False."""


@dataclass(slots=True)
class _Draft:
    """Steps carried out on a draft: `known` is what it came to know, `before` and `after` the first step that wrote.

    `whole` False: it broke off.
    """

    server: RecordingServer
    known: Exchange
    before: Exchange
    after: Exchange
    endings: list[str]
    writing: int = -1
    whole: bool = True

    @property
    def stands_alone(self) -> bool:
        """Whether there is at most one write, and nothing that came after it is about what is written."""
        if self.server.count > 1:
            return False
        return not any(self.known.mentions(reference, since=self.after) for reference in self.server.writes)


async def carry_out_bundled(
    exchange: Exchange, steps: Sequence[Interaction], carry_out: CarryOut, *, remembered: bool = True
) -> list[str]:
    """Carry out steps, in one transaction bundle where possible, and return how each ended.

    `carry_out` does so one by one; `remembered` as of `upsert_resource`. Raises the errors of a delivery.
    """
    if not exchange.bundles or not _is_worth_a_draft(exchange, steps):
        return await carry_out(exchange, steps, remembered=remembered)
    draft = await _drafted(exchange, steps, carry_out, remembered=remembered)
    server = draft.server
    try:
        if draft.whole and draft.stands_alone:
            return await _adopted(exchange, draft, steps, carry_out, remembered=remembered)
        if draft.whole and 1 < len(server.writes) <= MOST_WRITES:
            answers = await transact(exchange, server.writes)
            if isinstance(answers, TransactionRefusal):
                return await _one_by_one(exchange, steps, carry_out, answers)
            for write, answer in zip(server.writes.values(), answers, strict=True):
                server.response_log.keep(name_of(write.method, f"{server.base}/{write.path}", write.headers), answer)
            # What was remembered then is what these answers are about, whatever has become of the caches meanwhile.
            server.response_log.recalled = server.recalled()
        exchange.response_log = server.response_log
        return await carry_out(exchange, steps, remembered=remembered)
    finally:
        server.response_log.clear()


async def _drafted(
    exchange: Exchange, steps: Sequence[Interaction], carry_out: CarryOut, *, remembered: bool
) -> _Draft:
    """Carry out steps on a draft, as far as that goes."""
    server = RecordingServer(exchange.server)
    known = exchange.draft(server)
    draft = _Draft(server, known, known, known, [])
    for number, step in enumerate(steps):
        if not server.count:
            draft.before = known.draft(server)
        try:
            draft.endings += await carry_out(known, (step,), remembered=remembered)
        except DeliveryError:
            draft.whole = False
            break
        if server.count and draft.writing < 0:
            draft.after, draft.writing = known.draft(server), number
    return draft


async def _adopted(
    exchange: Exchange, draft: _Draft, steps: Sequence[Interaction], carry_out: CarryOut, *, remembered: bool
) -> list[str]:
    """Take over what a draft has shown, and carry out the one step that writes, if there is one."""
    draft.server.keep_caches()
    if draft.writing < 0:
        exchange.adopt(draft.known)
        return draft.endings
    exchange.adopt(draft.before)
    exchange.response_log = draft.server.response_log
    (draft.endings[draft.writing],) = await carry_out(exchange, (steps[draft.writing],), remembered=remembered)
    exchange.learn(draft.known, since=draft.after)
    return draft.endings


async def _one_by_one(
    exchange: Exchange, steps: Sequence[Interaction], carry_out: CarryOut, refusal: TransactionRefusal
) -> list[str]:
    """Carry out steps request by request after a refusal; where that works, it was the transaction that failed."""
    endings = await carry_out(exchange, steps, remembered=False)
    if refusal.odd:
        exchange.server.transaction_failed()
    return endings


def _is_worth_a_draft(exchange: Exchange, steps: Sequence[Interaction]) -> bool:
    """Say whether there may be several writes: of what is never overwritten, only what is not known yet is written."""
    return sum(isinstance(one, Keep) and _may_be_written(exchange, one) for one in steps) > 1


def _may_be_written(exchange: Exchange, step: Keep) -> bool:
    record = step.record
    if step.overwrite:
        return not step.more
    return exchange.server.cache_of(record.type).find(record.identities[:1]) is None
