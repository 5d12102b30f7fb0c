"""Jobs of the writer: what is asked of it, one at a time, and what it is carried out with."""

from collections.abc import Mapping
from enum import IntEnum
from typing import Any, Final, NamedTuple

from engine.database.connection import Connection
from engine.journal.claim.claiming import Claims
from engine.journal.entry import AckOutcome
from engine.journal.file.sealing import Sealing
from engine.journal.state.counters import count_waits
from engine.journal.write.operations import OperatorActions
from engine.journal.write.settling import Settling

# What became of acknowledgements.
ACKNOWLEDGE: Final = """
UPDATE entry SET ack_outcome = ? WHERE seq IN (SELECT value FROM json_each(?))
"""


class JobKind(IntEnum):
    """What is asked of the writer; in a transaction, in this order."""

    RECORD = 0
    INTEND = 1
    SETTLE = 2
    ACT = 3
    NOTE = 4
    LOOK = 5
    CLAIM = 6
    WAKE = 7
    CLOSE = 8


class WriterJob(NamedTuple):
    """One thing asked of the writer; `future` belongs to the event loop and is only handed back."""

    kind: JobKind
    argument: Any
    future: Any


class WriterContext(NamedTuple):
    """The connection and the services on it that a job of kind ACT, NOTE or LOOK uses; a LOOK only reads."""

    connection: Connection
    claims: Claims
    operations: OperatorActions
    settling: Settling
    sealing: Sealing | None = None


Result = tuple[WriterJob, Any, BaseException | None]


def acknowledge(context: WriterContext, outcomes: Mapping[AckOutcome, str], sent: str) -> None:
    """Store acknowledgement outcomes, JSON lists of entry numbers by outcome, and how long the senders waited."""
    count_waits(context.connection, sent)
    for outcome, seqs in outcomes.items():
        context.connection.execute(ACKNOWLEDGE, (outcome.value, seqs))
