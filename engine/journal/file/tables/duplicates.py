"""What a message is held against: the receipts of its own channel, as two channels are two feeds."""

from typing import Final

STATEMENTS: Final = (
    "DROP INDEX entry_control",
    "CREATE INDEX entry_control ON entry (control_id, source, channel, fingerprint)",
)
