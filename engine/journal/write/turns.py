"""Turns: one transaction of the writer at a time, and what others wrote since its last one."""

from contextlib import AbstractContextManager, nullcontext
from typing import Final, NamedTuple, Protocol

from engine.database.connection import Connection
from engine.journal.claim.holders import ALONE
from engine.journal.write.job import JobKind

# What need not be durable to be answered, where nobody else has turns.
LAZY: Final = frozenset({JobKind.NOTE, JobKind.LOOK, JobKind.CLAIM})


class News(NamedTuple):
    """What happened since the writer's last turn: whether another one wrote, and whether lanes may have been united."""

    written: bool
    joined: bool


class WriterTransactions(Protocol):
    """The transactions of a writer on its connection.

    `holder` names it in what it claims, `lazy` are the kinds of jobs that may wait for the next commit, `apart` those
    that need no turn: a batch of nothing else is carried out within `looking`.
    """

    holder: int
    lazy: frozenset[JobKind]
    apart: frozenset[JobKind]

    @property
    def is_open(self) -> bool:
        """Whether a transaction is open."""

    def gone(self) -> list[int]:
        """Return the holders that are no more: what they hold is taken back at the start."""

    def begin(self, *, together: bool = False) -> News:
        """Begin a transaction that writes, once it is this writer's turn.

        `together`: statements may be sent on as `connection.together` says, until its end.
        """

    def looking(self) -> AbstractContextManager[object]:
        """Read, in this context, what is there at one moment, without a turn."""

    def commit(self, *, joins: int, wake: bool) -> None:
        """Make it durable; `joins`: how often lanes were united in it. `wake`: others may have something to do."""

    def roll_back(self) -> None:
        """Undo it."""

    def was_committed(self) -> bool | None:
        """Say what became of a commit that was not answered; None while that is not known."""


class FileTurns:
    """Transactions in a file that one process has for itself."""

    holder = ALONE
    lazy = LAZY
    apart: frozenset[JobKind] = frozenset()

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    @property
    def is_open(self) -> bool:
        """Whether a transaction is open."""
        return self._connection.in_transaction

    def gone(self) -> list[int]:
        """Return the process before this one."""
        return [ALONE]

    def begin(self, *, together: bool = False) -> News:  # noqa: ARG002 - a file is no round trip away
        """Begin a transaction that writes."""
        self._connection.execute("BEGIN IMMEDIATE")
        return News(written=False, joined=False)

    def looking(self) -> AbstractContextManager[object]:
        """Read what is there, together with what is written and not yet durable."""
        return nullcontext()

    def commit(self, *, joins: int, wake: bool) -> None:  # noqa: ARG002 - nobody else has turns
        """Make it durable."""
        self._connection.execute("COMMIT")

    def roll_back(self) -> None:
        """Undo it."""
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")

    def was_committed(self) -> bool | None:
        """Say that it was not: a file answers every commit."""
        return False
