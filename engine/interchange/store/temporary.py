"""What can be fetched for a while: documents that an operation made, which are kept as no resource."""

from typing import Final, NamedTuple

from engine.database.connection import Connection
from engine.interchange.store.transaction import Transaction, milliseconds

# How long it is known of what has expired that it was there (410), without its content.
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
    """A document, the patient (id) whose it is, its media type, and until when it can be fetched."""

    id: str
    patient: str
    content_type: str
    body: bytes
    expires_ms: int


def keep(transaction: Transaction, document: Temporary) -> None:
    """Keep a document of the transaction's tenant."""
    transaction.connection.execute(KEEP, (transaction.tenant, *document))


def find(transaction: Transaction, document_id: str) -> Temporary | None:
    """Return a document of the tenant, expired ones too; None for one that is not known, or not any more."""
    row = transaction.connection.execute(GET, (transaction.tenant, document_id)).fetchone()
    return Temporary(*row) if row else None


def expired(transaction: Transaction, document: Temporary) -> bool:
    """Say whether a document can no longer be fetched."""
    return milliseconds(transaction.at) >= document.expires_ms


def due(connection: Connection, now_ms: int) -> bool:
    """Say whether there is anything to sweep."""
    return connection.execute(DUE, (now_ms, b"", now_ms - KNOWN_MS)).fetchone() is not None


def sweep(connection: Connection, now_ms: int) -> int:
    """Take the content of all that has expired, a day later the rest too; return of how many the content went."""
    gone_ms = now_ms - KNOWN_MS
    emptied = connection.execute(EMPTY, (b"", now_ms, gone_ms, b"")).fetchall()
    connection.execute(FORGET, (gone_ms,))
    return len(emptied)
