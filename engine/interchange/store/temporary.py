"""Documents that an operation made: they can be fetched for a while, and are not resources."""

from typing import Final, NamedTuple

from engine.database.connection import Connection
from engine.interchange.store.transaction import Transaction, milliseconds

# How long an expired document is remembered (410), without its content.
KNOWN_MS: Final = 86_400_000

KEEP: Final = (
    "INSERT INTO temporary_binary (tenant, id, patient, content_type, body, expires_ms) VALUES (?, ?, ?, ?, ?, ?)"
)
GET: Final = "SELECT id, patient, content_type, body, expires_ms FROM temporary_binary WHERE tenant = ? AND id = ?"
EMPTY: Final = (
    "UPDATE temporary_binary SET body = ? WHERE expires_ms <= ? AND expires_ms > ? AND body <> ? RETURNING id"
)
DUE: Final = "SELECT 1 FROM temporary_binary WHERE expires_ms <= ? AND (body <> ? OR expires_ms <= ?) LIMIT 1"
FORGET: Final = "DELETE FROM temporary_binary WHERE expires_ms <= ?"


class Temporary(NamedTuple):
    """A document, its patient's id, its media type, and until when it can be fetched."""

    id: str
    patient: str
    content_type: str
    body: bytes
    expires_ms: int


def keep(transaction: Transaction, document: Temporary) -> None:
    """Keep a document of the transaction's tenant."""
    transaction.connection.execute(KEEP, (transaction.tenant, *document))


def find(transaction: Transaction, document_id: str) -> Temporary | None:
    """Return a document of the tenant, expired ones too; None for an unknown or forgotten one."""
    row = transaction.connection.execute(GET, (transaction.tenant, document_id)).fetchone()
    return Temporary(*row) if row else None


def expired(transaction: Transaction, document: Temporary) -> bool:
    """Return whether a document has expired."""
    return milliseconds(transaction.at) >= document.expires_ms


def due(connection: Connection, now_ms: int) -> bool:
    """Return whether there is anything to sweep."""
    return connection.execute(DUE, (now_ms, b"", now_ms - KNOWN_MS)).fetchone() is not None


def sweep(connection: Connection, now_ms: int) -> int:
    """Delete the content of expired documents, a day later the rest too; return how many lost their content."""
    gone_ms = now_ms - KNOWN_MS
    emptied = connection.execute(EMPTY, (b"", now_ms, gone_ms, b"")).fetchall()
    connection.execute(FORGET, (gone_ms,))
    return len(emptied)
