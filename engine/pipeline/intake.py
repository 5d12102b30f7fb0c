"""Intake: a block comes in, is judged, stored, and only then answered. Half of the spine; dispatch.py is the other.

    block -> batch? -> header -> judge -> acknowledgement -> journal.record -> reply

Whatever comes in gets a row, even what cannot be parsed; a positive acknowledgement leaves only after the commit, and
what could not be stored is refused.
"""

import asyncio
import itertools
import time
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Final

from engine import telemetry
from engine.acknowledge.code import AckCode, AckMode, Acknowledgements, mode_of
from engine.errors import DiskReserveError, JournalError, JournalRefusedError, place_of
from engine.hl7.finding import ErrorCode, Finding
from engine.hl7.header import Header, read_header
from engine.journal.entry import AckOutcome, Recorded, State
from engine.journal.journal import Journal
from engine.journal.read import backlog
from engine.journal.read.backlog import DestinationResult
from engine.pipeline.feed import Feed, PipelineContext
from engine.pipeline.inbound.application import AckBuilder, Awaited, application_ack, standing
from engine.pipeline.inbound.counters import Counters
from engine.pipeline.inbound.entries import Arrival, entry_of, fragment_of
from engine.pipeline.inbound.judgement import Judgement, judge
from engine.pipeline.inbound.outcomes import EntryOutcome
from engine.receive.batch import Batch, pack_replies, unpack
from engine.receive.block import Block, BlockKind
from engine.receive.reply import BlockReply, Peer

NO_ROOM: Final = Finding(ErrorCode.APPLICATION, "no-room", (), "The message could not be stored; send it again later")
FAULT: Final = Finding(
    ErrorCode.APPLICATION, "engine-error", (), "The message could not be judged; call the engine's operator"
)

# Messages of one batch that are judged and wait for the journal at a time; others come in between.
OF_A_BATCH: Final = 32

# Why an incomplete block is refused, and the text of its answer.
FRAGMENTS: Final = {
    BlockKind.TORN: (ErrorCode.APPLICATION, "torn", ""),
    BlockKind.OVERSIZE: (ErrorCode.APPLICATION, "too-large", "The message is larger than this channel allows"),
    BlockKind.END_WITHIN: (
        ErrorCode.DATA_TYPE,
        "end-within-block",
        "The message holds the byte that ends a block, hexadecimal 1C",
    ),
}
GOOD: Final = frozenset({AckCode.AA, AckCode.CA})

_Replying = Callable[[], Coroutine[None, None, BlockReply]]

_log = telemetry.logger()


class Intake:
    """One channel's intake: takes blocks, gives replies.

    `arrived` is called with the destinations that have something new, `counters` count what came in; `boot` makes the
    control ids of this process's acknowledgements its own.
    """

    def __init__(
        self,
        channel: str,
        journal: Journal,
        shared: PipelineContext,
        arrived: Callable[[tuple[str, ...]], None],
        boot: str,
        counters: Counters,
    ) -> None:
        self._name = channel
        self._feeds = shared.feeds
        self._journal = journal
        self._handover = shared.handover
        self._outcomes = shared.outcomes
        self._arrived = arrived
        self._clock = shared.clock
        self._boot = boot
        self._counters = counters
        self._count = itertools.count(1)
        self._seconds = telemetry.ACK_SECONDS.labels(channel)

    async def answer(self, block: Block, peer: Peer) -> BlockReply:
        """Answer one block; what could not be stored is never answered with AA or CA."""
        begun = time.perf_counter()
        try:
            return await self._answer(block, peer)
        finally:
            self._seconds.observe(time.perf_counter() - begun)

    async def _answer(self, block: Block, peer: Peer) -> BlockReply:
        feed = self._feeds[self._name]
        try:
            if block.kind is not BlockKind.COMPLETE:
                return await self._fragment(block, peer, feed)
            batch = unpack(block.raw)
            if batch is None:
                return await self._message(block.raw, peer, feed)
            return await self._batch(batch, peer, feed)
        except JournalError as error:
            code = error.code if isinstance(error, JournalRefusedError) else ""
            _log.error("not stored", channel=self._name, error=type(error).__name__, code=code)
            return self._not_stored(block, feed, error)
        except Exception as error:  # noqa: BLE001 - the last resort: a line that is closed without a word is resent on for ever
            _log.error("not answered", channel=self._name, error=type(error).__name__, point=place_of(error))
            return self._not_stored(block, feed, error)

    async def _message(self, raw: bytes, peer: Peer, feed: Feed) -> BlockReply:
        reply = await self._taken(raw, peer, feed)
        return await reply()

    async def _of_batch(self, raw: bytes, peer: Peer, feed: Feed, name: str) -> "asyncio.Future[BlockReply]":
        """Judge and record a message of a batch; return its reply, which may wait for its delivery."""
        reply = await self._taken(raw, peer, feed, name)
        return asyncio.ensure_future(reply())

    async def _taken(self, raw: bytes, peer: Peer, feed: Feed, batch: str = "") -> _Replying:
        """Judge and record a message; return what waits for its reply, to be called at once."""
        header = read_header(raw, event_from_evn=feed.channel.event_from_evn, charset=feed.channel.charset)
        if header is None:
            return partial(_now, await self._no_header(raw, peer, feed))
        judged = self._judged(raw, header, feed)
        mode = mode_of(header, feed.channel.acknowledgement_mode)
        acks = self._acks(header, judged, feed)
        on_delivery = feed.channel.acknowledge.when == "delivered" and judged.state is State.RECEIVED
        due = Acknowledgements() if judged.silent else mode.acknowledgements(judged.findings)
        if on_delivery and not mode.enhanced:
            due = due._replace(at_commit=None)
        ack = acks.build(due.at_commit, judged.findings) if due.at_commit else b""
        ack_outcome = AckOutcome.OWED if due.at_commit or on_delivery else AckOutcome.NOT_OWED
        arrival = Arrival(raw, header, judged, peer, self._clock(), batch)
        entry = entry_of(arrival, feed, ack, due.at_commit, ack_outcome)
        recorded = await self._journal.record(entry)
        self._counters.count(entry, recorded, feed.channel.base_uri)
        self._recorded(recorded, judged)
        if on_delivery:
            return partial(self._on_delivery, recorded, mode, acks, feed, judged.pairs)
        return partial(_now, self._stored(recorded, due, acks, ack))

    def _judged(self, raw: bytes, header: Header, feed: Feed) -> Judgement:
        try:
            return judge(raw, header, feed.channel, feed.mapping)
        except Exception as error:  # noqa: BLE001 - the last resort: what a fault of ours cannot judge is kept and refused
            _log.error("judgement failed", channel=self._name, error=type(error).__name__, point=place_of(error))
            return Judgement(State.REJECTED, FAULT.reason, (FAULT,))

    def _recorded(self, recorded: Recorded, judged: Judgement) -> None:
        telemetry.series(telemetry.MESSAGES, self._name, recorded.ack_code or "none").inc()
        if (held := judged.filter) and not recorded.duplicate:
            telemetry.series(telemetry.FILTER_RULES, self._name, held.rule, held.does).inc()
        if judged.state is State.RECEIVED and not recorded.duplicate:
            if judged.message is not None:
                self._handover.put(recorded.seq, judged.message)
            self._arrived(recorded.destinations)
        elif judged.state is State.REJECTED:
            _log.warning("refused", channel=self._name, entry=recorded.seq, reason=judged.reason)

    def _stored(self, recorded: Recorded, due: Acknowledgements, acks: AckBuilder, ack: bytes) -> BlockReply:
        """Answer what is recorded: a duplicate as its first receipt was, unless that was refused and taken in since."""
        taken_since = recorded.duplicate and recorded.ack_code not in GOOD
        answer = ack if taken_since else recorded.acknowledgement
        sent = partial(self._sent, recorded.seq)
        return BlockReply(
            answer or None,
            close=due.close,
            later=_at_once(acks.build(due.later)) if due.later else None,
            written=sent if answer else None,
            later_written=sent if due.later else None,
        )

    async def _on_delivery(
        self, recorded: Recorded, mode: AckMode, acks: AckBuilder, feed: Feed, pairs: Sequence[tuple[str, ...]]
    ) -> BlockReply:
        """Answer with the outcome: in turn in original mode, afterwards in enhanced mode."""
        sent = partial(self._sent, recorded.seq)
        states = dict.fromkeys(recorded.destinations, DestinationResult(State.RECEIVED, "", ()))
        if recorded.duplicate:
            states = await self._journal.read(partial(backlog.ended_of, recorded.seq))
        awaited = standing(states, feed.required) if states else Awaited(frozenset(), EntryOutcome(recorded.state, ""))
        within = feed.channel.acknowledge.within_seconds
        application = application_ack(self._outcomes, recorded.seq, awaited, within, mode, acks, pairs)
        if mode.enhanced:
            return BlockReply(recorded.acknowledgement or None, later=application, later_written=sent)
        return BlockReply(await application, written=sent)

    async def _batch(self, batch: Batch, peer: Peer, feed: Feed) -> BlockReply:
        """Journal every message of a batch in order; answer with one batch of acknowledgements, or one block each."""
        for warning in batch.warnings:
            _log.warning("batch", channel=self._name, reason=warning)
        name = batch.control_id.decode("ascii", "replace")
        waiting: list[asyncio.Future[BlockReply]] = []
        for at in range(0, len(batch.messages), OF_A_BATCH):
            some = batch.messages[at : at + OF_A_BATCH]
            waiting += await asyncio.gather(*(self._of_batch(raw, peer, feed, name) for raw in some))
        replies = await asyncio.gather(*waiting)
        acks = tuple(reply.now if isinstance(reply.now, bytes) else b"" for reply in replies)
        callbacks = tuple(reply.written for reply in replies if reply.written)

        def written(arrived: bool) -> None:
            for callback in callbacks:
                callback(arrived)

        for reply in replies:
            if asyncio.iscoroutine(reply.later):
                reply.later.close()
        now = pack_replies(batch, acks, self._new_id(), self._clock()) if batch.enveloped else tuple(filter(None, acks))
        return BlockReply(now, written=written)

    async def _no_header(self, raw: bytes, peer: Peer, feed: Feed) -> BlockReply:
        await self._journal.record(fragment_of(raw, "no-header", peer, feed.channel, self._clock()))
        telemetry.series(telemetry.MESSAGES, self._name, "none").inc()
        return BlockReply(None, close=True, stored=False)

    async def _fragment(self, block: Block, peer: Peer, feed: Feed) -> BlockReply:
        """Journal what is no whole block; answer it where its MSH can be read and no other block takes its place."""
        fault, reason, text = FRAGMENTS[block.kind]
        recorded = await self._journal.record(fragment_of(block.raw, reason, peer, feed.channel, self._clock()))
        if block.kind is BlockKind.TORN:
            return BlockReply(None, stored=False)
        _log.warning("refused", channel=self._name, entry=recorded.seq, reason=reason)
        header = read_header(block.raw)
        if header is None:
            return BlockReply(None, close=True, stored=False)
        finding = Finding(fault, reason, (), text)
        return self._refusal(header, finding, feed, close=block.kind is BlockKind.OVERSIZE)

    def _not_stored(self, block: Block, feed: Feed, error: Exception) -> BlockReply:
        """Refuse what is not stored; the line ends without a word where the journal stops, or is away."""
        answered = isinstance(error, DiskReserveError | JournalRefusedError) or not isinstance(error, JournalError)
        header = read_header(block.raw) if answered else None
        if header is None:
            return BlockReply(None, close=True, stored=False)
        return self._refusal(header, NO_ROOM, feed, close=False)

    def _refusal(self, header: Header, finding: Finding, feed: Feed, *, close: bool) -> BlockReply:
        code = mode_of(header, feed.channel.acknowledgement_mode).acknowledgements((finding,)).at_commit
        if code is None:
            return BlockReply(None, close=True, stored=False)
        return BlockReply(self._acks(header, None, feed).build(code, (finding,)), close=close, stored=False)

    def _acks(self, header: Header, judged: Judgement | None, feed: Feed) -> AckBuilder:
        charset = judged.message.charset if judged and judged.message else "ascii"
        return AckBuilder(header, charset, feed.channel.version, self._new_id, self._clock)

    def _new_id(self) -> str:
        return f"{self._boot}{next(self._count):08X}"

    def _sent(self, seq: int, arrived: bool) -> None:
        self._journal.acknowledged(seq, AckOutcome.SENT if arrived else AckOutcome.UNSENT)


async def _now(reply: BlockReply) -> BlockReply:
    return reply


async def _at_once(content: bytes) -> bytes:
    return content
