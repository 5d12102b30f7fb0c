"""Orders on their way to laboratories: one row for each order that was ever pending, and one for each attempt.

Each statement moves a row only out of a standing from which the table `MOVES` lets it go, or does nothing; so does that
of a process which did not see the last try. An attempt is one placing of the order; what is sent again within it bears
the same control id, so that a laboratory may know it.
"""

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Final, NamedTuple

from engine.database.connection import Connection
from engine.interchange.store.transaction import Transaction, milliseconds

# The order of columns is that of Sent, behind the name of the tenant.
COLUMNS: Final = (
    "t.number, t.order_id, t.laboratory, t.standing, t.attempt, t.tries, t.placed_ms, t.due_ms, t.sent_ms, t.ended_ms,"
    " t.result_ms, t.reason"
)
FROM: Final = " FROM transmission AS t JOIN tenant ON tenant.number=t.tenant"
OF_ORDER: Final = f"SELECT tenant.name, {COLUMNS}{FROM} WHERE t.tenant=? AND t.order_id=?"
BY_NUMBER: Final = f"SELECT tenant.name, {COLUMNS}{FROM} WHERE t.number=?"
OF_ID: Final = f"SELECT tenant.name, {COLUMNS}{FROM} WHERE t.order_id=? ORDER BY t.number"
ENDED_IN: Final = f"SELECT tenant.name, {COLUMNS}{FROM} WHERE t.standing=? ORDER BY t.number"
IN_STANDING: Final = f"SELECT tenant.name, {COLUMNS}{FROM} WHERE t.ended_ms IS NULL AND t.standing=? ORDER BY t.number"
FORMER: Final = (
    "DELETE FROM transmission WHERE tenant=? AND order_id=? AND standing IN ('refused', 'withdrawn')"
    " RETURNING attempt, tries"
)
ADD: Final = (
    "INSERT INTO transmission (tenant, order_id, laboratory, standing, attempt, tries, placed_ms, due_ms, reason)"
    " VALUES (?, ?, ?, 'waiting', ?, ?, ?, ?, '')"
)
# The oldest waiting order of each tenant and laboratory. The query steps from one laboratory to the next by the index,
# so that it does not read a long queue.
FIRST: Final = (
    "WITH RECURSIVE lane(owner, laboratory) AS ("
    " SELECT tenant.number, (SELECT min(t.laboratory) FROM transmission AS t"
    " WHERE t.standing='waiting' AND t.ended_ms IS NULL AND t.tenant=tenant.number) FROM tenant"
    " UNION ALL SELECT lane.owner, (SELECT min(t.laboratory) FROM transmission AS t WHERE t.standing='waiting'"
    " AND t.ended_ms IS NULL AND t.tenant=lane.owner AND t.laboratory>lane.laboratory)"
    " FROM lane WHERE lane.laboratory IS NOT NULL)"
    " SELECT (SELECT min(t.number) FROM transmission AS t WHERE t.standing='waiting' AND t.ended_ms IS NULL"
    " AND t.tenant=lane.owner AND t.laboratory=lane.laboratory) FROM lane WHERE lane.laboratory IS NOT NULL"
)
HEADS: Final = f"SELECT tenant.name, {COLUMNS}{FROM} WHERE t.number IN ({FIRST})"
OF_LABORATORY: Final = (
    "t.standing='waiting' AND t.ended_ms IS NULL AND t.tenant=(SELECT number FROM tenant WHERE name=?)"
    " AND t.laboratory=?"
)
NEXT: Final = f"SELECT tenant.name, {COLUMNS}{FROM} WHERE {OF_LABORATORY} ORDER BY t.number LIMIT 1"
RESULTS_DUE: Final = f"SELECT tenant.name, {COLUMNS}{FROM} WHERE t.result_ms<=? ORDER BY t.result_ms LIMIT ?"
RETURNED: Final = "UPDATE transmission SET result_ms=NULL WHERE number=?"
EXPECT: Final = "UPDATE transmission SET result_ms=? WHERE number=?"
MOVE: Final = (
    "UPDATE transmission SET standing=?, reason=?, due_ms=?, tries=tries+?, sent_ms=coalesce(?, sent_ms), ended_ms=?"
    " WHERE number=? AND standing=? AND tries=? RETURNING number"
)
PLACED: Final = "UPDATE transmission SET placed_ms=? WHERE number=?"
HURRY: Final = "UPDATE transmission SET due_ms=? WHERE number=? AND standing='waiting'"
# Attempts that sent nothing leave one row, whatever their number.
UNSENT: Final = (
    "DELETE FROM transmission_try WHERE tenant=? AND order_id=? AND outcome IN ('unreachable', 'never had it')"
)
TRY: Final = (
    "INSERT INTO transmission_try (tenant, order_id, number, control_id, began_ms, outcome, reason)"
    " VALUES (?, ?, ?, ?, ?, '', '')"
)
TRIED: Final = "UPDATE transmission_try SET ended_ms=?, outcome=?, reason=? WHERE tenant=? AND order_id=? AND number=?"
TRIES: Final = (
    "SELECT number, control_id, began_ms, ended_ms, outcome, reason FROM transmission_try"
    " WHERE tenant=(SELECT number FROM tenant WHERE name=?) AND order_id=? ORDER BY number"
)
# Bytes of it were sent, and their fate is unknown.
DOUBT: Final = "SELECT 1 FROM transmission_try WHERE tenant=? AND order_id=? AND outcome IN ('', 'unknown') LIMIT 1"
COUNTS: Final = "SELECT standing, count(*), min(placed_ms) FROM transmission WHERE ended_ms IS NULL GROUP BY standing"


class TransmissionStatus(StrEnum):
    """The status of an order's transmission: waiting, sending, held for a person, or ended."""

    WAITING = "waiting"
    SENDING = "sending"
    HELD = "held"
    ACCEPTED = "accepted"
    REFUSED = "refused"
    WITHDRAWN = "withdrawn"


class TransmissionOutcome(StrEnum):
    """The outcome of one attempt; NONE while it is under way, and after the process ended during it."""

    NONE = ""
    ACCEPTED = "accepted"
    REFUSED = "refused"
    UNKNOWN = "unknown"
    UNREACHABLE = "unreachable"
    NEVER_HAD_IT = "never had it"


ENDED: Final = frozenset({TransmissionStatus.ACCEPTED, TransmissionStatus.REFUSED, TransmissionStatus.WITHDRAWN})
# The allowed transitions of the status.
MOVES: Final[Mapping[TransmissionStatus, frozenset[TransmissionStatus]]] = {
    # Accepted without being sent: its results are here, or a test implies it.
    TransmissionStatus.WAITING: frozenset(
        {
            TransmissionStatus.SENDING,
            TransmissionStatus.HELD,
            TransmissionStatus.ACCEPTED,
            TransmissionStatus.REFUSED,
            TransmissionStatus.WITHDRAWN,
        }
    ),
    TransmissionStatus.SENDING: frozenset(
        {TransmissionStatus.WAITING, TransmissionStatus.HELD, TransmissionStatus.ACCEPTED, TransmissionStatus.REFUSED}
    ),
    TransmissionStatus.HELD: frozenset(
        {TransmissionStatus.WAITING, TransmissionStatus.ACCEPTED, TransmissionStatus.WITHDRAWN}
    ),
    # A laboratory may reject later what it has accepted.
    TransmissionStatus.ACCEPTED: frozenset({TransmissionStatus.REFUSED}),
    TransmissionStatus.REFUSED: frozenset({TransmissionStatus.WITHDRAWN}),
    TransmissionStatus.WITHDRAWN: frozenset(),
}


class Sent(NamedTuple):
    """An order on its way: moments in milliseconds since 1970, `tries` the number of attempts, `reason` for operators.

    `due_ms` is when it may be sent (again), `result_ms` when a simulated laboratory returns its results.
    """

    tenant: str
    number: int
    order_id: str
    laboratory: str
    standing: TransmissionStatus
    attempt: int
    tries: int
    placed_ms: int
    due_ms: int
    sent_ms: int | None
    ended_ms: int | None
    result_ms: int | None
    reason: str


class Try(NamedTuple):
    """One attempt to send an order."""

    number: int
    control_id: str
    began_ms: int
    ended_ms: int | None
    outcome: str
    reason: str


class TransmissionCount(NamedTuple):
    """The number of orders in a status, and since when the oldest of them is in it."""

    standing: str
    number: int
    oldest_ms: int


def enqueue(transaction: Transaction, order_id: str, laboratory: str) -> None:
    """Queue an order in the commit that makes it pending; a refused one starts again."""
    whose = (transaction.tenant, order_id)
    former = transaction.connection.execute(FORMER, whose).fetchone()
    attempt, tries = former or (0, 0)
    at_ms = milliseconds(transaction.at)
    transaction.connection.execute(ADD, (*whose, laboratory, attempt + 1, tries, at_ms, at_ms))


def withdraw(transaction: Transaction, order_id: str) -> bool:
    """Withdraw an order from sending; False where the laboratory may have it, or sending is under way."""
    found = find_sent(transaction, order_id)
    if found is None or found.standing is TransmissionStatus.WITHDRAWN:
        return True
    if doubtful(transaction, order_id):
        return False
    return move(transaction, found, TransmissionStatus.WITHDRAWN) is not None


def doubtful(transaction: Transaction, order_id: str) -> bool:
    """Return whether bytes of an order were sent whose fate is unknown."""
    return transaction.connection.execute(DOUBT, (transaction.tenant, order_id)).fetchone() is not None


def find_sent(transaction: Transaction, order_id: str) -> Sent | None:
    """Return an order on its way; None for one that was never pending."""
    row = transaction.connection.execute(OF_ORDER, (transaction.tenant, order_id)).fetchone()
    return _sent(row) if row else None


def sent_of_id(connection: Connection, order_id: str) -> tuple[Sent, ...]:
    """Return the orders with an id, of all tenants: one at most."""
    return tuple(map(_sent, connection.execute(OF_ID, (order_id,))))


def heads(connection: Connection) -> tuple[Sent, ...]:
    """Return the first waiting order of each tenant and laboratory."""
    return tuple(map(_sent, connection.execute(HEADS)))


def next_waiting(connection: Connection, tenant: str, laboratory: str) -> Sent | None:
    """Return the first order that waits for a laboratory of a tenant."""
    row = connection.execute(NEXT, (tenant, laboratory)).fetchone()
    return _sent(row) if row else None


def in_standing(connection: Connection, standing: TransmissionStatus) -> tuple[Sent, ...]:
    """Return the orders of all tenants that are in a standing, in the order of placing."""
    sql = ENDED_IN if standing in ENDED else IN_STANDING
    return tuple(map(_sent, connection.execute(sql, (str(standing),))))


def tries_of(connection: Connection, sent: Sent) -> tuple[Try, ...]:
    """Return the attempts to send an order, oldest first."""
    return tuple(Try(*row) for row in connection.execute(TRIES, (sent.tenant, sent.order_id)))


def counts(connection: Connection) -> tuple[TransmissionCount, ...]:
    """Return how many orders wait, are being sent and are held."""
    return tuple(TransmissionCount(*row) for row in connection.execute(COUNTS))


def move(
    transaction: Transaction,
    sent: Sent,
    to: TransmissionStatus,
    reason: str = "",
    *,
    due: datetime | None = None,
    tried: int = 0,
) -> Sent | None:
    """Move an order to another status; None if its status has changed meanwhile, or the transition is not allowed."""
    if to not in MOVES[sent.standing]:
        return None
    at_ms = milliseconds(transaction.at)
    begins = at_ms if to is TransmissionStatus.SENDING else None
    new = (str(to), reason, milliseconds(due) if due else sent.due_ms, tried, begins, at_ms if to in ENDED else None)
    moved = transaction.connection.execute(MOVE, (*new, sent.number, str(sent.standing), sent.tries)).fetchall()
    return _sent(transaction.connection.execute(BY_NUMBER, (sent.number,)).fetchone()) if moved else None


def release(transaction: Transaction, sent: Sent) -> Sent | None:
    """Queue a held order again, as if it had just been placed; None where it is no longer held."""
    moved = move(transaction, sent, TransmissionStatus.WAITING, due=transaction.at)
    if moved is not None:
        transaction.connection.execute(PLACED, (milliseconds(transaction.at), sent.number))
    return moved


def hurry(transaction: Transaction, sent: Sent) -> None:
    """Make a waiting order due at once."""
    transaction.connection.execute(HURRY, (milliseconds(transaction.at), sent.number))


def begin(transaction: Transaction, sent: Sent, control_id: str) -> Sent | None:
    """Note on disk that an order is being sent, before any byte of it leaves; None where it does not wait."""
    begun = move(transaction, sent, TransmissionStatus.SENDING, tried=1)
    if begun is not None:
        whose = (transaction.tenant, begun.order_id)
        transaction.connection.execute(UNSENT, whose)
        transaction.connection.execute(TRY, (*whose, begun.tries, control_id, milliseconds(transaction.at)))
    return begun


def tried(transaction: Transaction, sent: Sent, outcome: TransmissionOutcome, reason: str) -> None:
    """Record the outcome of the last attempt."""
    of = (transaction.tenant, sent.order_id, sent.tries)
    transaction.connection.execute(TRIED, (milliseconds(transaction.at), str(outcome), reason, *of))


def expect_results(transaction: Transaction, sent: Sent, at: datetime) -> None:
    """Note when a simulated laboratory returns its results."""
    transaction.connection.execute(EXPECT, (milliseconds(at), sent.number))


def results_due(connection: Connection, at: datetime, most: int) -> tuple[Sent, ...]:
    """Return at most `most` orders whose simulated results are due."""
    return tuple(map(_sent, connection.execute(RESULTS_DUE, (milliseconds(at), most))))


def results_returned(transaction: Transaction, sent: Sent) -> None:
    """Note that a simulated laboratory has returned its results."""
    transaction.connection.execute(RETURNED, (sent.number,))


def _sent(row: tuple[object, ...]) -> Sent:
    made = Sent(*row)  # type: ignore[arg-type] # as the columns are
    return made._replace(standing=TransmissionStatus(made.standing))
