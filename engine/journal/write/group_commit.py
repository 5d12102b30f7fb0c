"""Group commit, the side of the event loop: jobs are gathered and go to the writer together, as its next commit."""

import asyncio
from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import Any, Final

from engine.errors import JournalError
from engine.journal.entry import AckOutcome
from engine.journal.moment import to_micros
from engine.journal.write.job import Job, Kind, Result, acknowledge
from engine.sqlite import json_list

LAZY_SECONDS: Final = 0.2
# What is gathered goes to the writer once so many turns of the loop added nothing, or all of it is enough. Turns are
# not time: an idle loop takes them at once, a busy one fills them with work that joins the same commit.
QUIET_TURNS: Final = 3
TURNS: Final = 64
ENOUGH: Final = 128


class GroupCommit:
    """Gathers jobs on the running event loop; `put` hands them to the writer's thread, which answers by `hand_back`.

    After `stopped` every call raises what the writer stopped for, and `fail` has been called once.
    """

    def __init__(
        self, put: Callable[[list[Job]], None], clock: Callable[[], datetime], fail: Callable[[BaseException], None]
    ) -> None:
        self._put = put
        self._clock = clock
        self._fail = fail
        self._loop = asyncio.get_running_loop()
        self.failure: BaseException | None = None
        self.opened: asyncio.Future[None] = self._loop.create_future()
        self.closed = False
        self._gathered: list[Job] = []
        self._kicked = False
        self._writing = False
        self._turns = 0
        self._quiet = 0
        self._seen = 0
        self._acknowledged: dict[AckOutcome, list[int]] = {}
        self._sent: list[tuple[int, int]] = []
        self._lazy: asyncio.TimerHandle | None = None

    def submit(self, kind: Kind, argument: Any) -> "asyncio.Future[Any]":
        """Gather a job; what is gathered while the writer is at work goes to it together, as its next commit."""
        if self.failure is not None:
            raise self.failure
        if self.closed:
            raise JournalError("the journal is closed")
        future = self._loop.create_future()
        self._gathered.append(Job(kind, argument, future))
        self._kick_soon()
        return future

    def acknowledged(self, seq: int, outcome: AckOutcome) -> None:
        """Note what became of an acknowledgement; stored with the next commit, at most 0.2 s later."""
        if self.failure is not None or self.closed:
            return
        self._acknowledged.setdefault(outcome, []).append(seq)
        if outcome is AckOutcome.SENT:
            self._sent.append((seq, to_micros(self._clock())))
        if self._lazy is None:
            self._lazy = self._loop.call_later(LAZY_SECONDS, self.flush)

    def flush(self) -> None:
        """Hand over the acknowledgements that were noted."""
        self._lazy = None
        if self._acknowledged:
            self._kick_soon()

    def _kick_soon(self) -> None:
        """Hand over in a later turn of the loop, so that whoever is woken in this one can join."""
        if not self._kicked and not self._writing:
            self._kicked = True
            self._loop.call_soon(self._kick)

    def _kick(self) -> None:
        if self._joined():
            self._loop.call_soon(self._kick)
            return
        self._kicked = False
        gathered, self._gathered = self._gathered, []
        if self._acknowledged:
            outcomes = {outcome: json_list(seqs) for outcome, seqs in self._acknowledged.items()}
            sent = json_list(self._sent)
            self._acknowledged, self._sent = {}, []
            gathered.insert(0, Job(Kind.LOOK, partial(acknowledge, outcomes=outcomes, sent=sent), None))
            if self._lazy is not None:
                self._lazy.cancel()
                self._lazy = None
        if self.failure is not None:
            self._resolve([(job, None, self.failure) for job in gathered])
        else:
            self._writing = True
            self._put(gathered)

    def _joined(self) -> bool:
        """Say whether to wait one more turn of the loop for jobs that would join this commit."""
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
        for (_kind, _argument, future), value, error in results:
            if future is None or future.done():
                continue
            if error is None:
                future.set_result(value)
            else:
                future.set_exception(error)
        self._writing = False
        if self._gathered or (self._acknowledged and self._lazy is None):
            self._kick_soon()

    def _give_up(self, error: BaseException) -> None:
        if not self.opened.done():
            self.opened.set_exception(error)
            return
        self.failure = error
        self._fail(error)
