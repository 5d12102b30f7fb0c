"""Orders on their way to laboratories, for operators: listed, shown, sent again and taken back.

With a service that runs on the database or without one; what a running one is to do it notices within a second.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final, NamedTuple

import orjson

from engine.database.connection import Connection
from engine.errors import UsageError
from engine.fhir.json import JsonObject
from engine.interchange.events.subscriptions.matching import SubscriptionMatcher
from engine.interchange.orders.laboratory.message.ordered import OWN_NOTE
from engine.interchange.orders.laboratory.settling import control_id
from engine.interchange.orders.order import NAME, STATUS, OrderEvent, OrderStatus, find_order, move, status_of
from engine.interchange.rest.resource.catalogue import INDEXERS
from engine.interchange.store import transmission
from engine.interchange.store.access import append, by_command, patients_in
from engine.interchange.store.place import Place, open_known
from engine.interchange.store.store import Store
from engine.interchange.store.transaction import ChangeListeners, Transaction, iso, milliseconds
from engine.interchange.store.transmission import Sent, TransmissionStatus

VERSIONS: Final = (
    "SELECT version.version, version.updated_ms, version.body FROM version JOIN resource ON resource.key=version.key"
    " WHERE resource.tenant=(SELECT number FROM tenant WHERE name=?) AND resource.type=? AND resource.id=?"
    " UNION ALL SELECT version, updated_ms, body FROM resource"
    " WHERE tenant=(SELECT number FROM tenant WHERE name=?) AND type=? AND id=? ORDER BY 1"
)
PRESENT: Final = "SELECT body FROM resource WHERE tenant=(SELECT number FROM tenant WHERE name=?) AND type=? AND id=?"
# What is listed where nothing else is asked for: what waits, what nobody knows of, and what failed.
LISTED: Final = (
    TransmissionStatus.WAITING,
    TransmissionStatus.SENDING,
    TransmissionStatus.HELD,
    TransmissionStatus.REFUSED,
)
TAKEN_BACK: Final = "taken back by an operator"
MAY_HAVE_IT: Final = "the laboratory may have it"


@dataclass(frozen=True, slots=True)
class OrderAttempt:
    """One time that an order was sent. Moments are ISO texts, '' for none."""

    number: int
    control_id: str
    began_at: str
    ended_at: str
    outcome: str
    reason: str


@dataclass(frozen=True, slots=True)
class Version:
    """One version of an order: when it was made, and the order's status in it."""

    number: int
    at: str
    status: str


@dataclass(frozen=True, slots=True)
class OrderOverview:
    """An order as operators see it: ids, moments and what laboratories answered, nothing else of what it says.

    `since` is when it came to where it is, `control_id` that of the present attempt.
    """

    order: str
    tenant: str
    laboratory: str
    standing: str
    since: str
    placed_at: str
    due_at: str
    tries: int
    attempt: int
    control_id: str
    reason: str
    transmissions: tuple[OrderAttempt, ...] = ()
    history: tuple[Version, ...] = ()


class OrderQuery(NamedTuple):
    """A query for one order in a database; `tenant` is '' where the id is enough."""

    database: Place
    order: str
    tenant: str = ""


def list_orders(database: Place, tenant: str = "", state: str = "", laboratory: str = "") -> tuple[OrderOverview, ...]:
    """Return orders in the order of placing, '' for any tenant and laboratory; without a state those of LISTED.

    What was refused is listed as long as the order has failed. StartError for no database.
    """
    connection = open_known(database)
    try:
        standings = (TransmissionStatus(state),) if state else LISTED
        found = [one for standing in standings for one in transmission.in_standing(connection, standing)]
        return tuple(
            _seen(one)
            for one in sorted(found, key=lambda one: one.number)
            if tenant in {"", one.tenant} and laboratory in {"", one.laboratory}
            if state or one.standing is not TransmissionStatus.REFUSED or _failed(connection, one)
        )
    finally:
        connection.close()


def show_order(asked: OrderQuery) -> OrderOverview:
    """Return an order with its versions and each time that it was sent; UsageError for none."""
    connection = open_known(asked.database)
    try:
        return _whole(connection, _one(connection, asked))
    finally:
        connection.close()


def retry_order(asked: OrderQuery, clock: Callable[[], datetime]) -> OrderOverview:
    """Let an order wait again that is held, and record that; UsageError where it is not held."""

    def work(transaction: Transaction, sent: Sent) -> None:
        if sent.standing is not TransmissionStatus.HELD or transmission.release(transaction, sent) is None:
            raise UsageError(f"order {sent.order_id} is {sent.standing}: only one that is held is sent again")

    return _changed(asked, clock, work)


def cancel_order(asked: OrderQuery, clock: Callable[[], datetime]) -> OrderOverview:
    """Take an order back that waits or is held, cancel it, and record that.

    UsageError: it is being sent, or has ended.
    """

    def work(transaction: Transaction, sent: Sent) -> None:
        doubtful = transmission.doubtful(transaction, sent.order_id)
        reason = f"{TAKEN_BACK}; {MAY_HAVE_IT}" if doubtful else TAKEN_BACK
        held_up = sent.standing in {TransmissionStatus.WAITING, TransmissionStatus.HELD}
        if not held_up or transmission.move(transaction, sent, TransmissionStatus.WITHDRAWN, reason) is None:
            raise UsageError(f"order {sent.order_id} is {sent.standing}: only one that waits or is held is taken back")
        stored = find_order(transaction, sent.order_id)
        sis = system_of(stored.resource()) if stored is not None else ""
        if stored is not None and status_of(stored.resource(), sis) is OrderStatus.PENDING:
            move(transaction, sis, stored, OrderEvent.CANCEL, f"{OWN_NOTE}{reason}.")

    return _changed(asked, clock, work)


def system_of(order: JsonObject) -> str:
    """Return the service's identifier system, as the address of an order's status has it; '' for a draft of none."""
    addresses = (str(extension.get("url", "")) for extension in order.get("extension", ()))
    ending = f"/fhir/StructureDefinition/{STATUS}"
    return next((address.removesuffix(ending) for address in addresses if address.endswith(ending)), "")


def _changed(
    asked: OrderQuery, clock: Callable[[], datetime], work: Callable[[Transaction, Sent], None]
) -> OrderOverview:
    """Do something to an order, with a row of the access log in the same commit; return how it is then."""
    connection = open_known(asked.database)
    try:
        tenant = _one(connection, asked).tenant
    finally:
        connection.close()
    store = Store(
        asked.database, (), clock, INDEXERS, alone=False, listeners=ChangeListeners(listener=SubscriptionMatcher())
    )

    def recorded(transaction: Transaction) -> OrderOverview:
        sent = _one(transaction.connection, asked)
        work(transaction, sent)
        stored = find_order(transaction, sent.order_id)
        patients = " ".join(sorted(patients_in(stored.body))) if stored is not None else ""
        at_ms = milliseconds(transaction.at)
        row = by_command(at_ms, tenant, "R4", "update", (NAME, sent.order_id), patients)
        append(transaction.connection, (row,))
        return _whole(transaction.connection, _one(transaction.connection, asked))

    async def write() -> OrderOverview:
        return await store.write(tenant, recorded)

    try:
        return asyncio.run(write())
    finally:
        store.close()


def _one(connection: Connection, asked: OrderQuery) -> Sent:
    found = [one for one in transmission.sent_of_id(connection, asked.order) if asked.tenant in {"", one.tenant}]
    if not found:
        raise UsageError(
            f"no order {asked.order} was ever to be sent: adt-engine interchange orders list shows which are"
        )
    return found[0]


def _failed(connection: Connection, sent: Sent) -> bool:
    row = connection.execute(PRESENT, (sent.tenant, NAME, sent.order_id)).fetchone()
    order = orjson.loads(row[0]) if row and row[0] else {}
    return status_of(order, system_of(order)) is OrderStatus.FAILED


def _whole(connection: Connection, sent: Sent) -> OrderOverview:
    attempts = transmission.tries_of(connection, sent)
    tries = tuple(
        OrderAttempt(one.number, one.control_id, iso(one.began_ms), iso(one.ended_ms), one.outcome, one.reason)
        for one in attempts
    )
    return replace(_seen(sent), transmissions=tries, history=tuple(_history(connection, sent)))


def _history(connection: Connection, sent: Sent) -> list[Version]:
    of = (sent.tenant, NAME, sent.order_id)
    rows = ((*row[:2], orjson.loads(row[2]) if row[2] else {}) for row in connection.execute(VERSIONS, (*of, *of)))
    return [
        Version(number, iso(at_ms), str(status_of(order, system_of(order))) if order else "deleted")
        for number, at_ms, order in rows
    ]


def _seen(sent: Sent) -> OrderOverview:
    since = {
        TransmissionStatus.WAITING: sent.placed_ms,
        TransmissionStatus.SENDING: sent.sent_ms,
        TransmissionStatus.HELD: sent.sent_ms,
    }
    return OrderOverview(
        order=sent.order_id,
        tenant=sent.tenant,
        laboratory=sent.laboratory,
        standing=str(sent.standing),
        since=iso(since.get(sent.standing, sent.ended_ms) or sent.placed_ms),
        placed_at=iso(sent.placed_ms),
        due_at=iso(sent.due_ms) if sent.standing is TransmissionStatus.WAITING else "",
        tries=sent.tries,
        attempt=sent.attempt,
        control_id=control_id(sent),
        reason=sent.reason,
    )
