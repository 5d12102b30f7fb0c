"""What of the way in a restored journal must not bring back: sessions and one-time tokens that ended since."""

from datetime import datetime
from typing import Final

from engine.journal import audit
from engine.journal.audit import AuditRecord
from engine.sqlite import Connection

END_SESSIONS: Final = "DELETE FROM session"
VOID_INVITATIONS: Final = "DELETE FROM invitation"


def close_entrances(connection: Connection, now: datetime) -> None:
    """End all sessions, void all one-time tokens, and write into the audit trail that it goes on from a backup.

    Accounts and API tokens are as they were then: those that were disabled or revoked since must be so again.
    """
    connection.execute(END_SESSIONS)
    connection.execute(VOID_INVITATIONS)
    audit.append(connection, AuditRecord(now, "adt-engine", "", "engine", "journal.restored"))
