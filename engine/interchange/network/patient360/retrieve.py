"""The work of $p360-retrieve: asks all sources at once, and imports their documents as they arrive."""

import asyncio
from collections.abc import Callable, Sequence
from time import monotonic
from typing import Final

from engine import fault
from engine.interchange.core.service import Service
from engine.interchange.jobs.job import JobFailedError, JobResult, Report, Work, subject
from engine.interchange.kernel.outcome import Issue
from engine.interchange.network.patient360.connectors.connector import (
    DocumentSource,
    RequestedPatient,
    RetrievedDocument,
    reason_of,
    subject_of,
)
from engine.interchange.network.patient360.importing import Importer, Reader
from engine.interchange.network.patient360.record import Words
from engine.interchange.network.patient360.tally import DocumentTally
from engine.interchange.network.patient360.turns import TURNS
from engine.interchange.store.job import AsyncJob

KIND: Final = "p360-retrieve"
# The most documents of all sources that wait in memory.
WAITING: Final = 4
# The most time that a source may take, without the time that its documents wait here.
SOURCE_SECONDS: Final = 3600.0

Sources = Callable[[Service, str], Sequence[DocumentSource]]
# A document, or None at the end of a source.
Queue = asyncio.Queue[RetrievedDocument | None]


def retrieval(sources: Sources, read: Reader) -> Work:
    """Return the work of a retrieval from the sources of a tenant."""

    async def work(service: Service, job: AsyncJob, report: Report) -> JobResult:
        with TURNS.shorter():
            return await _retrieve(service, job, report, sources(service, job.tenant), read)

    return work


async def _retrieve(
    service: Service, job: AsyncJob, report: Report, connectors: Sequence[DocumentSource], read: Reader
) -> JobResult:
    if not connectors:
        text = "No source is configured for this tenant; name one in its sources, or set network_mode: mocked."
        raise JobFailedError(Issue(text, "http"))
    patient = await asyncio.to_thread(service.store.read, job.tenant, lambda inner: subject(inner, job))
    requested = subject_of(job.tenant, patient.resource())
    tally = DocumentTally(sum(one.organizations for one in connectors))
    importer = Importer(service, job, read, Words(service.configuration.service_identifier_system))
    queue: Queue = asyncio.Queue(WAITING)
    tasks = [asyncio.create_task(_ask(one, requested, queue, tally)) for one in connectors]
    try:
        left = len(tasks)
        while left:
            document = await queue.get()
            if document is None:
                left -= 1
                continue
            tally.add(document.organization, await importer.take(document))
            fault.point("F36")
            await report(tally.progress())
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    if len(tally.failures) == len(connectors):
        raise JobFailedError(*(Issue(text, "http") for text in tally.failures.values()))
    # The job fails if the patient was merged away since the last document.
    await asyncio.to_thread(service.store.read, job.tenant, lambda inner: subject(inner, job))
    return JobResult(tally.parameters(job.patient))


async def _ask(connector: DocumentSource, requested: RequestedPatient, queue: Queue, tally: DocumentTally) -> None:
    """Queue the documents of a source; a failure or timeout is recorded for this source only."""
    left = SOURCE_SECONDS
    documents = aiter(connector.retrieve(requested))
    document: RetrievedDocument | None = None
    try:
        while True:
            began = monotonic()
            async with asyncio.timeout(left):
                document = await anext(documents, None)
            if document is None:
                break
            left -= monotonic() - began
            await queue.put(document)
    except Exception as error:  # noqa: BLE001 - any error fails this source only
        tally.failures[connector.name] = reason_of(connector, error)
    await queue.put(None)
