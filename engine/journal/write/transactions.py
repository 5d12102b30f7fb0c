"""Transactions on the writing connection: a batch of jobs in one, durable where somebody waits for that.

Claims, reads and acknowledgement outcomes need not be durable to be answered: a batch of nothing else leaves its
transaction open, and the next commit takes it along.
"""

from collections.abc import Sequence
from typing import Final

from engine import fault
from engine.database.connection import Connection
from engine.errors import CommitInDoubtError, JournalFailedError
from engine.journal.claim.claiming import Claims
from engine.journal.claim.lanes import Lanes
from engine.journal.file.sealing import sealing_of
from engine.journal.write.job import JobKind, Result, WriterContext, WriterJob
from engine.journal.write.operations import OperatorActions
from engine.journal.write.recording import Recording
from engine.journal.write.settling import Settling
from engine.journal.write.turns import WriterTransactions

# What may let deliveries run that nothing was waiting for before.
_SUPPLYING: Final = frozenset({JobKind.RECORD, JobKind.SETTLE, JobKind.ACT, JobKind.WAKE})
_AFTER_COMMIT: Final = (
    (JobKind.RECORD, "F05"),
    (JobKind.INTEND, "F11"),
    (JobKind.SETTLE, "F17"),
    (JobKind.CLAIM, "F09"),
)


class Transactions:
    """The writing connection, and all that works on it in the writer's thread; `commits` and `jobs` count."""

    def __init__(self, connection: Connection, key: bytes | None, turns: WriterTransactions) -> None:
        self.connection = connection
        self._turns = turns
        self._sealing = sealing = sealing_of(connection, key)
        self._claims = Claims(connection, sealing, turns.holder)
        self._lanes = Lanes(connection, self._claims.joined, sealing)
        self._recording = Recording(connection, self._lanes, self._claims, sealing)
        self._settling = Settling(connection, self._claims, sealing)
        operations = OperatorActions(connection, self._lanes, self._claims, self._recording, sealing)
        self._context = WriterContext(connection, self._claims, operations, self._settling, sealing)
        self._uncommitted: set[JobKind] = set()
        self._rolled_back = False
        self._joins = 0
        self._in_doubt: list[Result] = []
        self.commits = self.jobs = 0
        self._begin()
        self._claims.recover(turns.gone())
        self.commit()

    @property
    def waiting(self) -> bool:
        """Whether something that was answered waits for the next commit."""
        return bool(self._uncommitted)

    def carry_out(self, batch: list[WriterJob]) -> list[Result]:
        """Carry a batch out in one transaction; an error undoes all of it.

        After a CommitInDoubtError `decided` must have said what became of it before there is another one.
        """
        kinds = {job.kind for job in batch}
        if kinds <= self._turns.apart:
            with self._turns.looking():
                return self._work(batch)
        if kinds == {JobKind.WAKE} and not self._claims.is_asked:
            return [(job, None, None) for job in batch]
        try:
            if not self._turns.is_open:
                # An act may ask how many rows it changed.
                self._begin(together=JobKind.ACT not in kinds)
            results = self._work(batch)
            if not kinds.isdisjoint(_SUPPLYING):
                results += self._supply(kinds)
            self._uncommitted |= kinds
            self.jobs += len(batch)
            if not kinds <= self._turns.lazy:
                self._in_doubt = results
                self.commit()
        except CommitInDoubtError:
            raise
        except BaseException:
            self.roll_back()
            raise
        self._claims.confirmed()
        return results

    def decided(self) -> list[Result] | None:
        """Return the results of a batch whose commit was in doubt; None where it was undone, and may be tried again.

        CommitInDoubtError while that is not known.
        """
        committed = self._turns.was_committed()
        if committed is None:
            raise CommitInDoubtError
        if not committed:
            self.roll_back()
            return None
        self._uncommitted = set()
        self._claims.confirmed()
        return self._in_doubt

    def take_back(self, holders: Sequence[int]) -> None:
        """Let go, in an open transaction, of all that these hold."""
        self._claims.recover(holders)

    def _begin(self, *, together: bool = False) -> None:
        """Begin a transaction, and read anew what others may have changed."""
        news = self._turns.begin(together=together)
        stale = news.joined or self._rolled_back
        if stale:
            self._lanes.forget()
            self._claims.catch_up()
        if stale or news.written:
            self._claims.forget()
            self._recording.catch_up()
            self._settling.catch_up()
            self._lanes.catch_up()
            if self._sealing is not None:
                self._sealing.forget()
        self._rolled_back = False
        self._joins = self._lanes.joins

    def commit(self) -> None:
        """Make durable what is not yet; what strikes at the fault points after it stops the writer."""
        if not self._turns.is_open:
            return
        self._turns.commit(joins=self._lanes.joins - self._joins, wake=self._claims.offers())
        self.commits += 1
        kinds, self._uncommitted = self._uncommitted, set()
        if fault.armed():
            for kind, name in _AFTER_COMMIT:
                if kind in kinds:
                    self._stand(name)

    def _stand(self, name: str) -> None:
        try:
            fault.point(name)
        except Exception as error:
            raise JournalFailedError(f"struck at {name} after a commit") from error

    def roll_back(self) -> None:
        """Undo a batch. Claims of earlier batches that were not durable are undone in the file only, not here."""
        self._turns.roll_back()
        self._uncommitted = set()
        self._rolled_back = True
        self._claims.withdrawn()

    def _work(self, batch: list[WriterJob]) -> list[Result]:
        by_kind: tuple[list[WriterJob], ...] = ([], [], [], [], [], [], [], [])
        for job in batch:
            by_kind[job.kind].append(job)
        records, intents, settlements, acts, notes, looks, claims, wakes = by_kind
        results: list[Result] = []
        if acts:
            self._claims.mark_runnable()
        if wakes:
            self._claims.notify_local()
            results.extend((one, None, None) for one in wakes)
        if records:
            # With acts or claims who waits for what may be another one at the end of the batch.
            hand_out = not (acts or claims)
            recorded = self._recording.record([record.argument for record in records], hand_out=hand_out)
            results.extend((one, result, None) for one, result in zip(records, recorded, strict=True))
            fault.point("F03")
        if intents:
            self._settling.intend([intent.argument for intent in intents])
            results.extend((intent, None, None) for intent in intents)
        if settlements:
            counts = self._settling.settle([settlement.argument for settlement in settlements])
            results.extend((one, count, None) for one, count in zip(settlements, counts, strict=True))
            fault.point("F15")
        results.extend((one, one.argument(self._context), None) for one in (*acts, *notes, *looks))
        if claims:
            results.extend((claim, claim.argument(self._claims), None) for claim in claims)
            fault.point("F08")
        return results

    def _supply(self, kinds: set[JobKind]) -> list[Result]:
        """Return what was asked for before and may run now, as results of claims that nobody waits for."""
        supplied = self._claims.supply()
        if supplied:
            kinds.add(JobKind.CLAIM)
            fault.point("F08")
        return [(WriterJob(JobKind.CLAIM, None, None), one, None) for one in supplied]
