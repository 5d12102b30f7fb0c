"""What a restored journal must not bring back by itself: sessions and one-time tokens that ended since, bulk runs."""

from datetime import datetime
from typing import Final

from engine.journal.access import audit
from engine.journal.access.audit import AuditRecord
from engine.journal.moment import to_micros
from engine.sqlite import Connection

# End every session.
END_SESSIONS: Final = "DELETE FROM session"
# Take back every invitation.
VOID_INVITATIONS: Final = "DELETE FROM invitation"
# A run knows of nothing newer than the backup: whether it goes on is for a person to say.
STOP_RUNS: Final = "UPDATE run SET state = 'stopped', ended_at = ? WHERE state = 'running'"


def reopen(connection: Connection, now: datetime) -> None:
    """End all sessions, void all one-time tokens, stop all bulk runs, and write into the audit trail that it goes on.

    Accounts and API tokens are as they were then: those that were disabled or revoked since must be so again.
    """
    connection.execute(END_SESSIONS)
    connection.execute(VOID_INVITATIONS)
    connection.execute(STOP_RUNS, (to_micros(now),))
    audit.append(connection, AuditRecord(now, "adt-engine", "", "engine", "journal.restored"))
