"""Leases: a node renews its lease in the database every two seconds; without a renewal for ten it is dead.

All times that nodes compare are the database's. A node's own clock only measures how much of its lease is left since
it last renewed it.
"""

import select
import socket
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Final, NamedTuple

from engine.database.connection import transaction
from engine.database.postgresql import PostgresqlConnection, PostgresqlError, connect, end_stalled
from engine.errors import JournalUnusableError
from engine.journal.nodes.database import ASKED, CONNECT_SECONDS, TURN_SECONDS, open_reader, unusable
from engine.journal.nodes.schema import COPY_LOCK, LEADER_LOCK, TURN_LOCK, refuse_unfinished
from engine.journal.write.backend import SharedJournal

LEASE_SECONDS: Final = 10.0
RENEW_SECONDS: Final = 2.0
LOOK_SECONDS: Final = 1.0
STATEMENT_SECONDS: Final = 4
# A session that says nothing for as long as a lease lasts is a vanished or paused node's, which may hold the lead.
SESSION: Final = (
    f"{ASKED} -c statement_timeout={STATEMENT_SECONDS}s -c idle_session_timeout={int(LEASE_SECONDS)}s -c jit=off"
)
# How many ended incarnations are kept for people to read.
KEPT: Final = 50

# A process begins.
BEGIN: Final = """
INSERT INTO node (name, home, host, version, configuration, started_at, renewed_at, until, state)
VALUES (?, ?, ?, ?, ?, moment(), moment(), moment() + ?, 'live') RETURNING incarnation
"""
# Who has this name now, and where it lives.
HOLDER: Final = "SELECT incarnation, home, until - moment() FROM node WHERE name = ? AND state = 'live' FOR UPDATE"
# The lease goes on, unless somebody has ended it.
RENEW: Final = """
UPDATE node SET renewed_at = moment(), until = moment() + ?, configuration = ?
WHERE incarnation = ? AND state = 'live' RETURNING incarnation
"""
# The other nodes whose lease has ended.
EXPIRED: Final = "SELECT incarnation FROM node WHERE state = 'live' AND until < moment() AND incarnation <> ?"
# Holders of deliveries that are no nodes any more: the node that ended them died before it could take these back.
ORPHANS: Final = """
SELECT DISTINCT holder FROM delivery
WHERE state = 'claimed' AND holder NOT IN (SELECT incarnation FROM node WHERE state = 'live')
"""
# A node is no more, in a turn.
END: Final = """
UPDATE node SET state = ?, ended_at = moment() WHERE incarnation = ? AND state = 'live' AND (? OR until < moment())
"""
# Forget all but the newest that have ended.
FORGET: Final = """
DELETE FROM node WHERE state <> 'live' AND incarnation NOT IN (
  SELECT incarnation FROM node WHERE state <> 'live' ORDER BY incarnation DESC LIMIT ?)
"""
# The nodes that there are.
LIVING: Final = "SELECT incarnation FROM node WHERE state = 'live'"
# Which node an incarnation was of.
NAME: Final = "SELECT name FROM node WHERE incarnation = ?"
# All nodes, the living first.
NODES: Final = """
SELECT n.incarnation, n.name, n.host, n.version, n.configuration, n.started_at, n.renewed_at, n.state,
  (n.until - moment()) / 1000000.0, (SELECT COUNT(*) FROM delivery AS d WHERE d.state = 'claimed'
    AND d.state <> 'delivered' AND d.holder = n.incarnation)
FROM node AS n ORDER BY n.state <> 'live', n.name, n.incarnation DESC LIMIT ?
"""
# Be no node of a journal that is being copied; until the end of the transaction.
SHARE: Final = "SELECT pg_try_advisory_xact_lock_shared(?)"
# Lead, unless somebody does.
LEAD: Final = "SELECT pg_try_advisory_lock(?)"
# The lock of turns as the server lists it.
HELD: Final = f"0, {TURN_LOCK}, 1"


class JournalNode(NamedTuple):
    """One process of a journal: `seconds_left` of its lease, negative once it has ended; `claimed`: what it has out.

    `state`: live, stopped (ended in good order) or expired (taken for dead, its work taken over).
    """

    incarnation: int
    name: str
    host: str
    version: str
    configuration: str
    started_at: int
    renewed_at: int
    state: str
    seconds_left: float
    claimed: int


def begin(connection: PostgresqlConnection, who: SharedJournal) -> int:
    """Become a node; return the incarnation. Those of the same folder are ended, as its lock says that they have.

    JournalUnusableError: another folder's node has the name.
    """
    with transaction(connection):
        _replace(connection, who)
        lease = int(LEASE_SECONDS * 1_000_000)
        values = (who.name, who.home, socket.gethostname(), who.version, who.configuration, lease)
        _refuse_copied(connection)
        (mine,) = connection.execute(BEGIN, values).fetchone() or (0,)
        connection.execute(FORGET, (KEPT,))
    return int(mine)


def _refuse_copied(connection: PostgresqlConnection) -> None:
    """Raise JournalUnusableError while the journal is copied, and where a copy into it was cut off."""
    if not (connection.execute(SHARE, (COPY_LOCK,)).fetchone() or (False,))[0]:
        raise JournalUnusableError("the journal is being copied at this moment: start again once that has ended")
    refuse_unfinished(connection)


def _replace(connection: PostgresqlConnection, who: SharedJournal) -> None:
    """End the incarnations that had the name of this node, in the same folder or with a lease that has ended."""
    for incarnation, home, left in connection.execute(HOLDER, (who.name,)).fetchall():
        if home != who.home and left > 0:
            raise _taken(who.name, left)
        connection.execute(END, ("expired", incarnation, True))


def _taken(name: str, micros_left: int) -> JournalUnusableError:
    return JournalUnusableError(
        f"another node has the name {name}, and its lease lasts for {micros_left // 1_000_000 + 1} s more: name this "
        "one by --node, or wait if that one has ended"
    )


def living(connection: PostgresqlConnection) -> set[int]:
    """Return the incarnations that are nodes."""
    return {incarnation for (incarnation,) in connection.execute(LIVING).fetchall()}


def orphans(connection: PostgresqlConnection) -> list[int]:
    """Return the holders of deliveries that are no nodes any more."""
    return [holder for (holder,) in connection.execute(ORPHANS).fetchall()]


def end(connection: PostgresqlConnection, incarnation: int, state: str) -> bool:
    """Note in a turn that a node is no more; `expired` only where its lease has ended. False where it was not so."""
    return connection.execute(END, (state, incarnation, state == "stopped")).rowcount == 1


def name_of(connection: PostgresqlConnection, incarnation: int) -> str:
    """Return the name of the node that an incarnation was of; empty for one that is forgotten."""
    row = connection.execute(NAME, (incarnation,)).fetchone()
    return "" if row is None else str(row[0])


def nodes(address: str, most: int = KEPT) -> tuple[JournalNode, ...]:
    """Return the nodes of a journal, the living first; JournalUnusableError where it cannot be read."""
    with closing(open_reader(address)) as connection:
        try:
            return tuple(JournalNode(*row) for row in connection.execute(NODES, (most,)).fetchall())
        except PostgresqlError as error:
            raise unusable(address, error) from error


class NodeLease:
    """Renews a node's lease in a thread of its own, and looks after the others.

    In that thread `woken` is called at a notice of another node and each second, `expired` with the incarnations whose
    lease has ended, `lost` once this one's was ended by others. `count` is how many nodes there are, `leads` whether
    this one does what only one does.
    """

    def __init__(
        self,
        address: str,
        who: SharedJournal,
        incarnation: int,
        woken: Callable[[], None],
        expired: Callable[[Sequence[int]], None],
        lost: Callable[[], None],
    ) -> None:
        self.incarnation = incarnation
        self.count = 1
        self.configuration = who.configuration
        self._address = address
        self._who = who
        self._woken = woken
        self._expired = expired
        self._lost = lost
        self._leads = False
        self._connected = True
        self._began = time.monotonic()
        self._renewed = self._began
        self._stop = threading.Event()
        self._wake, self._nudge = socket.socketpair()
        self._thread = threading.Thread(target=self._live, name="lease", daemon=True)

    @property
    def seconds_left(self) -> float:
        """How much of the lease is left, by this machine's clock since it was last renewed."""
        return self._renewed + LEASE_SECONDS - time.monotonic()

    @property
    def leads(self) -> bool:
        """Whether this node does what only one does; its session holds that, and no longer than the lease lasts."""
        return self._leads and self.seconds_left > 0

    @property
    def away(self) -> bool:
        """Whether the database cannot be reached, as far as this thread has tried."""
        return not self._connected or self.seconds_left < 0

    def start(self) -> None:
        """Begin to renew."""
        self._thread.start()

    def stop(self) -> None:
        """End after the step under way, and wait for it."""
        self._stop.set()
        self._nudge.send(b".")
        if self._thread.is_alive():
            self._thread.join()
        self._wake.close()
        self._nudge.close()

    def _live(self) -> None:
        while not self._stop.is_set():
            try:
                with closing(self._connect()) as connection:
                    self._work(connection)
            except (PostgresqlError, OSError):
                self._leads = self._connected = False
                self._stop.wait(0.5)

    def _connect(self) -> PostgresqlConnection:
        connection = connect(
            self._address,
            name=f"adt-engine {self._who.name} lease",
            options=SESSION,
            patience=lambda waited: waited < STATEMENT_SECONDS + 1,
            seconds=CONNECT_SECONDS,
        )
        connection.raw("LISTEN adt_engine")
        return connection

    def _work(self, connection: PostgresqlConnection) -> None:
        due = 0.0
        while not self._stop.is_set():
            now = time.monotonic()
            if now >= due:
                if not self._renew(connection):
                    self._stop.set()
                    self._lost()
                    return
                due = now + RENEW_SECONDS
            if self._heard(connection, min(LOOK_SECONDS, max(0.0, due - time.monotonic()))) or self.count > 1:
                self._woken()

    def _renew(self, connection: PostgresqlConnection) -> bool:
        began = time.monotonic()
        values = (int(LEASE_SECONDS * 1_000_000), self.configuration, self.incarnation)
        if connection.execute(RENEW, values).fetchone() is None:
            return False
        if self.seconds_left < 0:
            # It was away, as the others may have been: they get the time that it takes to say that they are back.
            self._began = began
        self._renewed = began
        self._connected = True
        self._leads = self._leads or bool((connection.execute(LEAD, (LEADER_LOCK,)).fetchone() or (False,))[0])
        self.count = len(living(connection))
        end_stalled(connection, HELD, TURN_SECONDS)
        if began - self._began > LEASE_SECONDS:
            gone = [incarnation for (incarnation,) in connection.execute(EXPIRED, (self.incarnation,)).fetchall()]
            gone += orphans(connection)
            if gone:
                self._expired(gone)
        return True

    def _heard(self, connection: PostgresqlConnection, seconds: float) -> bool:
        """Wait for a notice of another node, at most so long; say whether there was one."""
        mine = str(self.incarnation)
        ready, _, _ = select.select([connection.inner.fileno(), self._wake.fileno()], [], [], seconds)
        if not ready or self._stop.is_set():
            return False
        heard = list(connection.inner.notifies(timeout=0))
        return any(notice.payload != mine for notice in heard)
