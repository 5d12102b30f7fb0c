"""Stored messages: the notifications of a hospital's events, each once, by the identifier of its Bundle."""

from typing import Final, NamedTuple

from engine.interchange.store.transaction import Transaction, milliseconds

# `given` is the identifier of a received message; `body` is the notification of subscribers, empty for a patient of
# whom nothing is sent. `event` is that of HL7 v2 (A01).
MESSAGES: Final = """
CREATE TABLE message (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant INTEGER NOT NULL,
    id TEXT NOT NULL,
    given TEXT NOT NULL,
    event TEXT NOT NULL,
    patient TEXT NOT NULL,
    at_ms INTEGER NOT NULL,
    body BLOB NOT NULL
) STRICT;
CREATE UNIQUE INDEX message_by_given ON message (tenant, given);
CREATE UNIQUE INDEX message_by_id ON message (tenant, id);
CREATE INDEX message_by_event ON message (tenant, event, number);
CREATE INDEX message_by_patient ON message (tenant, patient, number);
"""
ADD: Final = "INSERT INTO message (tenant, id, given, event, patient, at_ms, body) VALUES (?, ?, ?, ?, ?, ?, ?)"
GIVEN: Final = "SELECT id FROM message WHERE tenant=? AND given=?"
BY_ID: Final = "SELECT body FROM message WHERE tenant=? AND id=? AND length(body)>0"
# A patient, and those merged into this one.
WHOSE: Final = "patient IN (SELECT ? UNION SELECT id FROM resource WHERE tenant=? AND type='Patient' AND survivor=?)"
FORGET: Final = (
    "DELETE FROM message WHERE tenant=? AND"
    " patient IN (SELECT ? UNION SELECT id FROM resource WHERE tenant=? AND type='Patient' AND survivor=?)"
)
# The conditions are of this module; values are always arguments.
COUNT: Final = "SELECT count(*) FROM message WHERE {where}"
PAGE: Final = "SELECT id, body FROM message WHERE {where} ORDER BY number LIMIT ? OFFSET ?"


class MessageRow(NamedTuple):
    """A message that is to be kept, by its own id and the identifier that it came by."""

    id: str
    given: str
    event: str
    patient: str
    body: bytes


class MessageQuery(NamedTuple):
    """A search of messages by id, events and a patient's id; without any of these, all messages."""

    id: str = ""
    events: tuple[str, ...] = ()
    patient: str = ""


class StoredMessage(NamedTuple):
    """A stored message that subscribers were sent, in R4."""

    id: str
    body: bytes


def add_message(transaction: Transaction, new: MessageRow) -> None:
    """Keep a message."""
    row = (new.id, new.given, new.event, new.patient, milliseconds(transaction.at), new.body)
    transaction.connection.execute(ADD, (transaction.tenant, *row))


def is_known(transaction: Transaction, given: str) -> bool:
    """Return whether a message came before."""
    return transaction.connection.execute(GIVEN, (transaction.tenant, given)).fetchone() is not None


def find_message(transaction: Transaction, message_id: str) -> bytes | None:
    """Return the body of a message; None for none of this id."""
    row = transaction.connection.execute(BY_ID, (transaction.tenant, message_id)).fetchone()
    return bytes(row[0]) if row else None


def find_messages(
    transaction: Transaction, asked: MessageQuery, most: int, offset: int
) -> tuple[int, tuple["StoredMessage", ...]]:
    """Return the number of matching messages and a page of them, oldest first."""
    where, arguments = ["tenant=?", "length(body)>0"], list[int | str]([transaction.tenant])
    if asked.id:
        where.append("id=?")
        arguments.append(asked.id)
    if asked.events:
        where.append(f"event IN ({', '.join('?' for _ in asked.events)})")
        arguments += asked.events
    if asked.patient:
        where.append(WHOSE)
        arguments += [asked.patient, transaction.tenant, asked.patient]
    condition = " AND ".join(where)
    total = transaction.connection.execute(COUNT.format(where=condition), arguments).fetchone()[0]
    rows = transaction.connection.execute(PAGE.format(where=condition), (*arguments, most, offset))
    return total, tuple(StoredMessage(*row) for row in rows)


def forget_messages(transaction: Transaction, patient_id: str) -> None:
    """Delete the messages of a deleted patient, and of those merged into this one."""
    tenant = transaction.tenant
    transaction.connection.execute(FORGET, (tenant, patient_id, tenant, patient_id))
