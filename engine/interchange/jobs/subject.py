"""The patient of a job, looked for again when it is worked on: meanwhile that one may have been merged or deleted."""

from engine.interchange.jobs.job import JobFailedError
from engine.interchange.kernel.outcome import Issue
from engine.interchange.store.job import AsyncJob
from engine.interchange.store.transaction import StoredVersion, Transaction


def subject(transaction: Transaction, job: AsyncJob) -> StoredVersion:
    """Return the patient whom a job was asked for; JobFailedError for one who is no longer there.

    A work asks at its start, and again in `Result.keep` where it writes to the chart: between the two nothing is held.
    """
    stored = transaction.get("Patient", job.patient)
    if stored is None or stored.deleted:
        raise JobFailedError(Issue(f"Patient/{job.patient} was deleted before this was done.", "http.id"))
    if stored.survivor is not None:
        text = f"Patient/{job.patient} was merged into Patient/{stored.survivor}; ask again for that one."
        raise JobFailedError(Issue(text, "http.id", "already-merged"))
    return stored
