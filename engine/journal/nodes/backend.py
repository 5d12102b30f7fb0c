"""The PostgreSQL backend of a journal: a node that is notified of the others and takes over what they leave."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial

from engine.database.postgresql import PostgresqlConnection, PostgresqlError, is_again, is_full, is_lost
from engine.errors import CommitInDoubtError, JournalAwayError, JournalError, JournalFailedError
from engine.journal.nodes import lease
from engine.journal.nodes.database import SLACK_SECONDS, STATEMENT_SECONDS, TURN_SECONDS, open_writer, unusable
from engine.journal.nodes.lease import NodeLease
from engine.journal.nodes.turn import NodeTurns
from engine.journal.write.backend import RecoveryAction, SharedJournal
from engine.journal.write.job import JobKind, WriterContext, WriterJob
from engine.journal.write.transactions import Transactions


class NodeBackend:
    """A PostgreSQL database that nodes share; `put` hands jobs to the writer."""

    def __init__(self, shared: SharedJournal, key: bytes | None, put: Callable[[list[WriterJob]], None]) -> None:
        self._address = shared.address
        self._who = shared
        self._key = key
        self._put = put
        self.lease: NodeLease | None = None

    def open(self) -> Transactions:
        """Open the database and become a node."""
        connection = open_writer(self._address, self._who.name, self._waits_on)
        try:
            return self._begin(connection)
        except PostgresqlError as error:
            connection.close()
            raise unusable(self._address, error) from error
        except BaseException:
            connection.close()
            raise

    def _begin(self, connection: PostgresqlConnection) -> Transactions:
        incarnation = lease.begin(connection, self._who)
        self._turns = NodeTurns(connection, self._address, self._who.name, incarnation, self._waits_on)
        self._transactions = Transactions(connection, self._key, self._turns)
        self.lease = NodeLease(self._address, self._who, incarnation, self._woken, self._expired, self._lost)
        self.lease.start()
        return self._transactions

    def admit(self, size: int) -> None:
        """Take what comes: the database says where it has no room."""

    def look_after(self) -> None:
        """Know whether there are others."""
        self._turns.is_alone = self.lease is not None and self.lease.count == 1

    def make_room(self, times: int) -> None:
        """Do nothing: its own people make room in a database."""

    def tidy(self) -> None:
        """Do nothing: each batch is committed."""

    def commit(self) -> bool:
        """Do nothing: each batch is committed."""
        return True

    def come_back(self) -> None:
        """Reach a database that was away again; psycopg.Error where it still is."""
        self._turns.reconnect()

    def recovery(self, error: BaseException) -> RecoveryAction:
        """Return the recovery action for an error of PostgreSQL."""
        if isinstance(error, CommitInDoubtError):
            return RecoveryAction.DOUBT
        if isinstance(error, JournalFailedError):
            return RecoveryAction.END
        if isinstance(error, JournalAwayError):
            return RecoveryAction.AWAY
        for is_so, action in (
            (is_again, RecoveryAction.AGAIN),
            (is_full, RecoveryAction.FULL),
            (is_lost, RecoveryAction.AWAY),
        ):
            if is_so(error):
                return action
        return RecoveryAction.ITS_OWN

    def refusal(self, action: RecoveryAction) -> JournalError:
        """Return the error that refuses a sender."""
        return (
            JournalError("the journal's database has no room") if action is RecoveryAction.FULL else JournalAwayError()
        )

    def stop(self) -> None:
        """End the lease's thread; the row stays, and ends by itself where `close` does not follow."""
        if self.lease is not None:
            self.lease.stop()

    def abandon(self) -> None:
        """Disconnect, which undoes what was not committed."""
        self._turns.connection.close()

    def close(self) -> None:
        """Stop being a node, so that others take over at once what this one leaves, and disconnect."""
        with suppress(PostgresqlError, JournalError):
            self._turns.begin()
            lease.end(self._turns.connection, self._turns.holder, "stopped")
            self._transactions.take_back([self._turns.holder])
            self._turns.commit(joins=0, wake=True)
        self._turns.connection.close()

    def _waits_on(self, seconds: float) -> bool:
        """Say whether to wait on for a database that has been silent for so long: a turn may take its time.

        Where it does not let the lease be renewed either, it is away.
        """
        if seconds < TURN_SECONDS:
            return True
        return seconds < STATEMENT_SECONDS + SLACK_SECONDS and not (self.lease is not None and self.lease.away)

    def _woken(self) -> None:
        self._put([WriterJob(JobKind.WAKE, None, None)])
        self._who.heard()

    def _expired(self, gone: Sequence[int]) -> None:
        self._put([WriterJob(JobKind.ACT, partial(self._take_over, gone=gone), None)])

    def _lost(self) -> None:
        """Let the writer find out, by its next turn, that this is no node any more."""
        self._put([WriterJob(JobKind.ACT, _mark_runnable, None)])

    def _take_over(self, context: WriterContext, gone: Sequence[int]) -> None:
        connection = self._turns.connection
        for incarnation in gone:
            lease.end(connection, incarnation, "expired")
        for incarnation in {*gone, *lease.orphans(connection)} - lease.living(connection):
            self._who.took_over(lease.name_of(connection, incarnation), context.claims.recover([incarnation]))


def _mark_runnable(context: WriterContext) -> None:
    context.claims.mark_runnable()


def backend_of(shared: SharedJournal, key: bytes | None, put: Callable[[list[WriterJob]], None]) -> NodeBackend:
    """Return the backend of a node's journal; `key` seals it, `put` hands jobs to the writer."""
    return NodeBackend(shared, key, put)
