"""Turns: the nodes of a journal write one transaction after the other, each seeing all that others wrote before.

A turn is a transaction under one lock of the database. So numbers are given in the order of commits, over all lanes,
and whatever decides by what is there decides as a single process would. What a node keeps in memory it reads anew
where another one had a turn in between.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Final

from engine.database.dialect import POSTGRESQL
from engine.database.postgresql import Patience, PostgresqlConnection, PostgresqlError, connect, is_late, is_lost
from engine.errors import CommitInDoubtError, JournalAwayError, JournalFailedError, LeaseLostError
from engine.journal.nodes.database import CONNECT_SECONDS, WRITER
from engine.journal.nodes.lease import orphans
from engine.journal.nodes.schema import TURN_LOCK
from engine.journal.write.job import JobKind
from engine.journal.write.turns import News

# Wait for the turn.
TAKE: Final = "SELECT pg_advisory_xact_lock(?)"
# Who wrote last, how often lanes were united, whether this node still is one, and the number of its last turn.
HEAD: Final = """
SELECT head.node, head.joins, node.state, node.turn
FROM head LEFT JOIN node ON node.incarnation = ? WHERE head.id = 1
"""
# This node wrote last.
KEEP: Final = "UPDATE head SET node = ?, joins = ? WHERE id = 1"
# This turn was this node's; what the database says of a transaction's number may be another one's after a crash.
MARK: Final = "UPDATE node SET turn = ? WHERE incarnation = ?"
# The number of this node's last turn.
MARKED: Final = "SELECT turn FROM node WHERE incarnation = ?"
# Wake the other nodes: something may run.
WAKE: Final = "SELECT pg_notify('adt_engine', ?)"


class NodeTurns:
    """The turns of one incarnation on its writing connection; `is_alone` says whether there is no other node."""

    # The holder of the turn keeps others waiting: it ends with each batch, and nobody waits for it to read.
    lazy: frozenset[JobKind] = frozenset()
    apart: frozenset[JobKind] = frozenset({JobKind.LOOK})

    def __init__(
        self, connection: PostgresqlConnection, address: str, name: str, incarnation: int, patience: Patience
    ) -> None:
        self.connection = connection
        self.holder = incarnation
        self.is_alone = False
        self._address = address
        self._name = name
        self._patience = patience
        self._joins = -1
        self._last = 0
        self._turn = 0
        self._is_open = False
        # Statements of a turn that are sent on together: each answer that is waited for is a round trip.
        self._sent_on = ExitStack()

    @property
    def is_open(self) -> bool:
        """Whether a turn has begun and is not over; the library learns that late of what was sent on together."""
        return self._is_open

    def gone(self) -> list[int]:
        """Return those that hold deliveries and are no nodes any more."""
        return orphans(self.connection)

    def begin(self, *, together: bool = False) -> News:
        """Wait for the turn; LeaseLostError where this incarnation is no node any more.

        JournalAwayError where the turn does not come: that is no fault of what was to be written in it.
        """
        execute = self.connection.execute
        try:
            self._sent_on.enter_context(self.connection.together())
            self._is_open = True
            execute("BEGIN")
            execute(TAKE, (TURN_LOCK,))
            last, joins, state, turn = execute(HEAD, (self.holder,)).fetchone() or (0, 0, None, 0)
            if not together:
                self._sent_on.close()
        except PostgresqlError as error:
            if is_late(error):
                raise JournalAwayError from error
            raise
        self._turn = (turn or 0) + 1
        if state != "live":
            raise LeaseLostError
        news = News(written=last != self.holder, joined=joins != self._joins)
        self._last, self._joins = last, joins
        return news

    @contextmanager
    def looking(self) -> Iterator[None]:
        """Read, in this context, what is there at one moment, without a turn: nothing to sync, nobody to wait for."""
        try:
            with self.connection.together():
                self.connection.execute(POSTGRESQL.reading)
                yield
                self.connection.execute("COMMIT")
        except BaseException:
            self.roll_back()
            raise

    def commit(self, *, joins: int, wake: bool) -> None:
        """End the turn, durable; CommitInDoubtError where the connection broke before the database answered.

        `joins`: how often lanes were united in it. `wake`: something may run that other nodes may wait for.
        """
        execute = self.connection.execute
        self._is_open = False
        self._joins += joins
        try:
            self._sent_on.enter_context(self.connection.together())
            if self._last != self.holder or joins:
                execute(KEEP, (self.holder, self._joins))
            if wake and not self.is_alone:
                execute(WAKE, (str(self.holder),))
            execute(MARK, (self._turn, self.holder))
            ended = execute("COMMIT")
            self._sent_on.close()
            said = ended.statusmessage
        except PostgresqlError as error:
            if not is_lost(error):
                raise
            # What was sent on together may be neither at its end nor known to be broken: nothing more is asked on it.
            self.connection.close()
            self._give_up_sent()
            raise CommitInDoubtError from error
        if said != "COMMIT":
            # A transaction in which a statement failed is undone, and that is no error to PostgreSQL.
            raise JournalFailedError(f"the database answered a commit with {said}")

    def roll_back(self) -> None:
        """Undo what was written in this turn; read anew what is in memory at the next one."""
        self._joins = -1
        self._is_open = False
        self._give_up_sent()
        try:
            if self.connection.in_transaction:
                self.connection.execute("ROLLBACK")
        except PostgresqlError as error:
            if not is_lost(error):
                raise

    def _give_up_sent(self) -> None:
        """Forget what was sent on together; its failure has been reported, or the next statement reports it."""
        with suppress(PostgresqlError):
            self._sent_on.close()

    def reconnect(self) -> None:
        """Connect anew, as what was connected may be gone or no primary any more; psycopg.Error where that fails."""
        self.connection.close()
        self.connection.inner = connect(
            self._address,
            name=f"adt-engine {self._name}",
            options=WRITER,
            patience=self._patience,
            seconds=CONNECT_SECONDS,
        ).inner

    def was_committed(self) -> bool | None:
        """Ask what became of the turn whose commit was not answered; None while that is not decided.

        psycopg.Error where the database cannot be asked.
        """
        if self.connection.inner.closed:
            self.reconnect()
        execute = self.connection.execute
        try:
            execute("BEGIN")
            # The holder may be the session that was cut off, in the middle of its commit.
            execute(TAKE, (TURN_LOCK,))
            (turn,) = execute(MARKED, (self.holder,)).fetchone() or (None,)
            execute("ROLLBACK")
        except PostgresqlError as error:
            self.connection.close()
            if is_late(error):
                return None
            raise
        return bool(turn == self._turn)
