"""Group commit, the side of the event loop: jobs are gathered and go to the writer together, as its next commit."""

import asyncio
from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import Any, Final, cast

from engine.database.connection import json_list
from engine.errors import JournalError
from engine.journal.claim.claiming import Prefetch
from engine.journal.entry import AckOutcome, Claimed, Settlement
from engine.journal.moment import to_micros
from engine.journal.write.job import JobKind, Result, WriterJob, acknowledge

LAZY_SECONDS: Final = 0.2
# Settlements that nobody waits for touch the same pages: they are written together, at this count, or so long after
# the first of them.
TOGETHER: Final = 16
TOGETHER_SECONDS: Final = 0.01
# While several senders are at work, what is gathered goes to the writer once this many turns of the loop added nothing,
# or all of it is enough. Turns are not time: an idle loop takes them at once, a busy one fills them with work that
# joins the same commit. A single sender has nobody to wait for.
QUIET_TURNS: Final = 3
TURNS: Final = 64
ENOUGH: Final = 128

# Takes what a destination has asked for as it comes, and how many more will come.
Supply = Callable[[tuple[Claimed, ...], int], None]


class GroupCommit:
    """Gathers jobs on the running event loop; `put` hands them to the writer's thread, which answers by `hand_back`.

    After `stopped` every call raises what the writer stopped for, and `fail` has been called once.
    """

    def __init__(
        self,
        put: Callable[[list[WriterJob]], None],
        clock: Callable[[], datetime],
        fail: Callable[[BaseException], None],
    ) -> None:
        self._put = put
        self._clock = clock
        self._fail = fail
        self._loop = asyncio.get_running_loop()
        self.failure: BaseException | None = None
        self.opened: asyncio.Future[None] = self._loop.create_future()
        self.closed = False
        self._gathered: list[WriterJob] = []
        self._kicked = False
        self._writing = False
        self._turns = 0
        self._quiet = 0
        self._seen = 0
        self._crowded = False
        self._settled: list[WriterJob] = []
        self._settling: asyncio.TimerHandle | None = None
        self._awaited = False
        self._acknowledged: dict[AckOutcome, list[int]] = {}
        self._sent: list[tuple[int, int]] = []
        self._lazy: asyncio.TimerHandle | None = None
        self.supply: dict[str, Supply] = {}

    def submit(self, kind: JobKind, argument: Any) -> "asyncio.Future[Any]":
        """Gather a job; what is gathered while the writer is at work goes to it together, as its next commit."""
        job = self._job(kind, argument)
        self._gathered.append(job)
        self._kick_soon()
        return cast("asyncio.Future[Any]", job.future)

    def settle(self, settlement: Settlement) -> "asyncio.Future[int]":
        """Gather a settlement that may wait for others; it does not while settlements let waiting deliveries run."""
        if self._awaited:
            return self.submit(JobKind.SETTLE, settlement)
        job = self._job(JobKind.SETTLE, settlement)
        self._settled.append(job)
        if len(self._settled) >= TOGETHER:
            self._settle()
        elif self._settling is None:
            self._settling = self._loop.call_later(TOGETHER_SECONDS, self._settle)
        return cast("asyncio.Future[int]", job.future)

    def _job(self, kind: JobKind, argument: Any) -> WriterJob:
        if self.failure is not None:
            raise self.failure
        if self.closed:
            raise JournalError("the journal is closed")
        return WriterJob(kind, argument, self._loop.create_future())

    def _settle(self) -> None:
        """Let the settlements that wait for others wait no longer."""
        if self._settling is not None:
            self._settling.cancel()
            self._settling = None
        if self._settled:
            self._gathered += self._settled
            self._settled = []
            self._kick_soon()

    def acknowledged(self, seq: int, outcome: AckOutcome) -> None:
        """Note what became of an acknowledgement; stored with the next settlement, at most 0.2 s later."""
        if self.failure is not None or self.closed:
            return
        self._acknowledged.setdefault(outcome, []).append(seq)
        if outcome is AckOutcome.SENT:
            self._sent.append((seq, to_micros(self._clock())))
        if self._lazy is None:
            self._lazy = self._loop.call_later(LAZY_SECONDS, self._write_acknowledged)

    def flush(self) -> None:
        """Hand over all that waits for others."""
        self._settle()
        self._write_acknowledged()

    def _write_acknowledged(self) -> None:
        self._gather_acknowledged()
        if self._gathered:
            self._kick_soon()

    def _gather_acknowledged(self) -> None:
        if self._lazy is not None:
            self._lazy.cancel()
            self._lazy = None
        if self._acknowledged:
            outcomes = {outcome: json_list(seqs) for outcome, seqs in self._acknowledged.items()}
            work = partial(acknowledge, outcomes=outcomes, sent=json_list(self._sent))
            self._acknowledged, self._sent = {}, []
            self._gathered.append(WriterJob(JobKind.NOTE, work, None))

    def _kick_soon(self) -> None:
        """Hand over in a later turn of the loop, so that coroutines woken in this one can join."""
        if not self._kicked and not self._writing:
            self._kicked = True
            self._loop.call_soon(self._kick)

    def _kick(self) -> None:
        if self._joined():
            self._loop.call_soon(self._kick)
            return
        self._kicked = False
        if any(job.kind is JobKind.SETTLE for job in self._gathered):
            # Who sees that a message was delivered sees that it was acknowledged, too.
            self._gather_acknowledged()
        gathered, self._gathered = self._gathered, []
        if records := sum(job.kind is JobKind.RECORD for job in gathered):
            self._crowded = records > 1
        if self.failure is not None:
            self._resolve([(job, None, self.failure) for job in gathered])
        else:
            self._writing = True
            self._put(gathered)

    def _joined(self) -> bool:
        """Say whether to wait one more turn of the loop for jobs that would join this commit."""
        if not self._crowded:
            return False
        count = len(self._gathered)
        self._quiet = self._quiet + 1 if count == self._seen else 0
        self._seen = count
        self._turns += 1
        if self._quiet < QUIET_TURNS and self._turns < TURNS and count < ENOUGH:
            return True
        self._turns = self._quiet = self._seen = 0
        return False

    def hand_back(self, results: list[Result]) -> None:
        """Resolve what the writer has answered; called in its thread."""
        self._to_loop(self._resolve, results)

    def stopped(self, error: BaseException) -> None:
        """Take nothing more, for this reason; called in the writer's thread."""
        self._to_loop(self._give_up, error)

    def _to_loop(self, work: Callable[[Any], None], argument: Any) -> None:
        try:
            self._loop.call_soon_threadsafe(work, argument)
        except RuntimeError:
            """The loop is closed: nobody waits any more."""

    def _resolve(self, results: list[Result]) -> None:
        if not self.opened.done():
            self.opened.set_result(None)
        settled = runnable = 0
        for (kind, _argument, future), value, error in results:
            if kind is JobKind.SETTLE and error is None:
                settled, runnable = settled + 1, runnable + value
            if isinstance(value, Prefetch):
                self.supply[value.destination](value.claims, value.left)
            if future is None or future.done():
                continue
            if error is None:
                future.set_result(value)
            else:
                future.set_exception(error)
        if settled:
            self._awaited = runnable > 0
        self._writing = False
        if self._gathered:
            self._kick_soon()

    def _give_up(self, error: BaseException) -> None:
        if not self.opened.done():
            self.opened.set_exception(error)
            return
        self.failure = error
        self._fail(error)
