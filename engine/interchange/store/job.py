"""Jobs as they are kept: each statement moves a job only out of the state in which it must be, or does nothing.

A move out of `running` names the attempt too: who took a job up and lost it since can neither end nor report it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final, NamedTuple

import orjson

from engine.database.connection import Connection
from engine.fhir.schema import FhirVersion
from engine.interchange.store.transaction import EPOCH, Transaction, milliseconds

COLUMNS: Final = (
    "job.number, job.id, tenant.name, kind, patient, version, asked, client, login, asked_ms, attempts,"
    " state, crashes, started_ms, ended_ms, progress"
)
FROM: Final = " FROM job JOIN tenant ON tenant.number=job.tenant"
ADD: Final = (
    "INSERT INTO job (tenant, id, kind, patient, version, asked, client, login, asked_ms, state, attempts, crashes,"
    " progress, body, apart) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 'waiting', 0, 0, '', ?, ?)"
)
BY_ID: Final = f"SELECT {COLUMNS}, body{FROM} WHERE job.tenant=? AND job.id=?"
OF_ID: Final = f"SELECT {COLUMNS}, body{FROM} WHERE job.id=?"
EVERY: Final = f"SELECT {COLUMNS}, ''{FROM} ORDER BY job.number"
BY_NUMBER: Final = f"SELECT {COLUMNS}, ''{FROM} WHERE job.number=?"
PATIENT: Final = "SELECT patient FROM job WHERE tenant=? AND id=?"
UNFINISHED: Final = (
    f"SELECT {COLUMNS}, ''{FROM} WHERE job.tenant=? AND kind=? AND patient=? AND version=?"
    " AND ended_ms IS NULL AND patient<>'' AND apart=0"
)
WAITING: Final = "SELECT count(*) FROM job WHERE tenant=? AND state='waiting' AND ended_ms IS NULL"
# The oldest job that waits, of each tenant and kind.
FIRST: Final = (
    "SELECT tenant.name, job.kind, job.number, job.crashes FROM job JOIN tenant ON tenant.number=job.tenant"
    " WHERE job.number IN"
    " (SELECT min(number) FROM job WHERE state='waiting' AND ended_ms IS NULL GROUP BY tenant, kind)"
)
TAKE: Final = (
    "UPDATE job SET state='running', attempts=attempts+1, started_ms=? WHERE number=? AND state='waiting'"
    " RETURNING number"
)
REPORT: Final = "UPDATE job SET progress=? WHERE number=? AND state='running' AND attempts=? RETURNING number"
END: Final = (
    "UPDATE job SET state=?, ended_ms=?, body=?, progress='' WHERE number=? AND state='running' AND attempts=?"
    " RETURNING number"
)
SET_BODY: Final = "UPDATE job SET body=? WHERE number=?"
PUT_BACK: Final = "UPDATE job SET state='waiting' WHERE number=? AND state='running' AND attempts=?"
CANCEL: Final = "UPDATE job SET state='cancelled', ended_ms=?, progress='' WHERE number=? AND ended_ms IS NULL"
FORGET: Final = "DELETE FROM job WHERE number=? AND ended_ms IS NOT NULL"
# Jobs that were running when a process crashed.
HOPELESS: Final = (
    "UPDATE job SET crashes=crashes+1 WHERE state='running' AND ended_ms IS NULL AND crashes>=? RETURNING number"
)
TAKE_BACK: Final = (
    "UPDATE job SET state='waiting', crashes=crashes+1 WHERE state='running' AND ended_ms IS NULL AND crashes<?"
    " RETURNING number"
)
RUNNING: Final = "SELECT number FROM job WHERE state='running' AND ended_ms IS NULL"
COUNTS: Final = "SELECT kind, state, count(*) FROM job WHERE ended_ms IS NULL GROUP BY kind, state"
OLD: Final = "SELECT number FROM job WHERE ended_ms<? LIMIT ?"


class JobState(StrEnum):
    """The state of a job: waiting, running, or ended in one of three ways."""

    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class AsyncJob:
    """The requested work and its requester; `patient` is an id, '' for none, `attempts` the number of starts.

    `asked` is what of the request its work needs, as JSON; `version` is that of the base at which it was asked.
    """

    id: str
    tenant: str
    kind: str
    patient: str
    version: FhirVersion
    asked: Mapping[str, Any]
    client: str
    user: str
    asked_at: datetime
    attempts: int = 0


class StoredJob(NamedTuple):
    """A stored job: number, state and result; `body` only where one job is looked up by its id."""

    number: int
    job: AsyncJob
    state: JobState
    crashes: int
    started_ms: int | None
    ended_ms: int | None
    progress: Mapping[str, int | str]
    body: bytes


class NextJob(NamedTuple):
    """The job of a tenant and kind whose turn is next."""

    tenant: str
    kind: str
    number: int
    crashes: int


def add_job(transaction: Transaction, new: AsyncJob, *, apart: bool = False) -> None:
    """Keep a new waiting job. Only one per kind, patient and version is kept, unless it is `apart`."""
    asked = orjson.dumps(new.asked).decode()
    row = (transaction.tenant, new.id, new.kind, new.patient, str(new.version), asked, new.client, new.user)
    transaction.connection.execute(ADD, (*row, milliseconds(new.asked_at), b"", int(apart)))


def find_unfinished(transaction: Transaction, of: AsyncJob) -> StoredJob | None:
    """Return the job of the same kind, patient and version that has not ended; None for none, and for no patient."""
    asked = (transaction.tenant, of.kind, of.patient, str(of.version))
    row = transaction.connection.execute(UNFINISHED, asked).fetchone()
    return _kept(row) if row else None


def find_job(transaction: Transaction, job_id: str) -> StoredJob | None:
    """Return a job of the tenant by its id."""
    row = transaction.connection.execute(BY_ID, (transaction.tenant, job_id)).fetchone()
    return _kept(row) if row else None


def jobs_of_id(connection: Connection, job_id: str) -> tuple[StoredJob, ...]:
    """Return the jobs with an id, of all tenants: one at most."""
    return tuple(_kept(row) for row in connection.execute(OF_ID, (job_id,)))


def every_job(connection: Connection) -> tuple[StoredJob, ...]:
    """Return the jobs of all tenants in the order of their requests, without their results."""
    return tuple(_kept(row) for row in connection.execute(EVERY))


def patient_of_job(transaction: Transaction, job_id: str) -> str:
    """Return the patient of a job, '' for none."""
    row = transaction.connection.execute(PATIENT, (transaction.tenant, job_id)).fetchone()
    return row[0] if row else ""


def count_waiting(transaction: Transaction) -> int:
    """Return how many jobs of the tenant wait."""
    return int(transaction.connection.execute(WAITING, (transaction.tenant,)).fetchone()[0])


def first_waiting(connection: Connection) -> tuple[NextJob, ...]:
    """Return the oldest waiting job of each tenant and kind."""
    return tuple(NextJob(*row) for row in connection.execute(FIRST))


def running_numbers(connection: Connection) -> frozenset[int]:
    """Return the numbers of the jobs that are worked on."""
    return frozenset(number for (number,) in connection.execute(RUNNING))


def unfinished(connection: Connection) -> tuple[tuple[str, str, int], ...]:
    """Return how many jobs have not ended, by kind and state."""
    return tuple(connection.execute(COUNTS))


def take_up(connection: Connection, number: int, at: datetime) -> StoredJob | None:
    """Start a waiting job; None where it waits no longer."""
    if not connection.execute(TAKE, (milliseconds(at), number)).fetchall():
        return None
    return _kept(connection.execute(BY_NUMBER, (number,)).fetchone())


def report(connection: Connection, number: int, attempt: int, progress: Mapping[str, int | str]) -> bool:
    """Keep the progress of a job; False where this attempt is over."""
    text = orjson.dumps(progress).decode()
    return bool(connection.execute(REPORT, (text, number, attempt)).fetchall())


def end(connection: Connection, number: int, attempt: int, state: JobState, at: datetime, body: bytes) -> bool:
    """End a job as done or failed, with the body that its handle then returns; False where this attempt is over."""
    return bool(connection.execute(END, (str(state), milliseconds(at), body, number, attempt)).fetchall())


def set_body(connection: Connection, number: int, body: bytes) -> None:
    """Replace the body that the handle of a job returns, in the transaction that ended it."""
    connection.execute(SET_BODY, (body, number))


def put_back(connection: Connection, taken: Iterable[tuple[int, int]]) -> None:
    """Queue jobs again, by number and attempt."""
    for number, attempt in taken:
        connection.execute(PUT_BACK, (number, attempt))


def cancel(connection: Connection, kept: StoredJob, at: datetime) -> None:
    """Cancel a job; of one that has ended the result is forgotten."""
    if kept.ended_ms is None:
        connection.execute(CANCEL, (milliseconds(at), kept.number))
    else:
        connection.execute(FORGET, (kept.number,))


def take_over(connection: Connection, most_crashes: int) -> tuple[int, tuple[StoredJob, ...]]:
    """Queue the jobs of an ended process again; return their number, and the jobs that have had too many crashes."""
    taken = connection.execute(TAKE_BACK, (most_crashes - 1,)).fetchall()
    hopeless = connection.execute(HOPELESS, (most_crashes - 1,)).fetchall()
    return len(taken), tuple(_kept(connection.execute(BY_NUMBER, number).fetchone()) for number in hopeless)


def ended_before(connection: Connection, before_ms: int, most: int) -> tuple[int, ...]:
    """Return the numbers of jobs that ended before a moment, some of them."""
    return tuple(number for (number,) in connection.execute(OLD, (before_ms, most)))


def forget(connection: Connection, numbers: Iterable[int]) -> None:
    """Delete jobs that have ended."""
    connection.executemany(FORGET, [(number,) for number in numbers])


def _kept(row: tuple[Any, ...]) -> StoredJob:
    number, job_id, tenant, kind, patient, version, asked, client, user, asked_ms, attempts, *rest = row
    state, crashes, started_ms, ended_ms, progress, body = rest
    asked_at = EPOCH + timedelta(milliseconds=asked_ms)
    job = AsyncJob(
        job_id, tenant, kind, patient, FhirVersion(version), orjson.loads(asked), client, user, asked_at, attempts
    )
    known = orjson.loads(progress) if progress else {}
    return StoredJob(number, job, JobState(state), crashes, started_ms, ended_ms, known, bytes(body or b""))
