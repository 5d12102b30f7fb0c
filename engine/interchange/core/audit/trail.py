"""Export and verification of the access log in its file, whether the service runs or not."""

import asyncio
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import NamedTuple

from engine.errors import UsageError
from engine.interchange.core.audit.recorder import Recorder
from engine.interchange.store.access import AccessLogFault, Logged, by_command, faults, last, logged
from engine.interchange.store.place import Place, open_known
from engine.interchange.store.store import Store
from engine.interchange.store.transaction import milliseconds


class AccessLogProof(NamedTuple):
    """The number of rows, the last one as `number:hash`, and the problems."""

    rows: int
    anchor: str
    faults: tuple[AccessLogFault, ...]


def verify_log(database: Place, anchor: str = "") -> AccessLogProof:
    """Verify the hash chain of the log; StartError if there is no log.

    `anchor` is the last row of an earlier proof, stored elsewhere: it must be unchanged. Without an anchor, truncation
    and replacement of the whole log are not detected.
    """
    connection = open_known(database)
    try:
        found = list(faults(connection))
        seq, digest = last(connection)
        if anchor:
            number, _, expected = anchor.partition(":")
            if not number.isdigit():
                raise UsageError(f"--anchor {anchor}: expected NUMBER:HASH, as audit verify prints it")
            row = next(logged(connection, int(number) - 1), None)
            if row is None or row.seq != int(number) or row.hash.hex() != expected:
                found.append(AccessLogFault(int(number), "the anchored row is gone, or another one"))
    finally:
        connection.close()
    return AccessLogProof(seq, f"{seq}:{digest.hex()}" if seq else "", tuple(found))


def export_log(
    database: Place, since: datetime | None, until: datetime | None, clock: Callable[[], datetime]
) -> Iterator[Logged]:
    """Yield the rows of a period, `until` excluded, oldest first; before that the export is recorded as a row.

    StartError if there is no service's database.
    """
    open_known(database).close()
    _record_export(database, clock)
    low = milliseconds(since) if since is not None else None
    high = milliseconds(until) if until is not None else None
    connection = open_known(database)
    try:
        for row in logged(connection):
            at_ms = row.access.at_ms
            if (low is None or at_ms >= low) and (high is None or at_ms < high):
                yield row
    finally:
        connection.close()


def _record_export(database: Place, clock: Callable[[], datetime]) -> None:
    row = by_command(milliseconds(clock()), "", "", "export", ("AuditEvent", ""), "")
    store = Store(database, (), clock, {}, alone=False)
    try:
        asyncio.run(Recorder(store).record((row,)))
    finally:
        store.close()
