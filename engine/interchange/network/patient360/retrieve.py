"""The work of $p360-retrieve: asks all sources at once, imports their documents as they arrive, and tallies them."""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from time import monotonic
from typing import Final

from engine import fault
from engine.fhir.json import Json, JsonObject
from engine.interchange.core.service import Service
from engine.interchange.jobs.job import EndedJob, EndEvent, JobFailedError, JobResult, Report, Work, subject
from engine.interchange.kernel.exact import read_resource, write_json
from engine.interchange.kernel.outcome import Issue
from engine.interchange.network.patient360.connectors.connector import (
    DocumentSource,
    RequestedPatient,
    RetrievedDocument,
    reason_of,
    subject_of,
)
from engine.interchange.network.patient360.importing import DocumentOutcome, Importer, ImportOutcome, Reader
from engine.interchange.network.patient360.plan import FactOutcome
from engine.interchange.network.patient360.record import Words
from engine.interchange.rest import subscription_criteria
from engine.interchange.store.job import AsyncJob
from engine.interchange.store.notification import NotificationEvent
from engine.interpreter import SHORT_TURNS

COMPLETED: Final = "completed"
PARTIAL: Final = "partial"
FAILED: Final = "failed"
EVENT: Final = "patient360-complete"
DOCUMENTS: Final = {
    "documentsImported": DocumentOutcome.IMPORTED,
    "documentsSkipped": DocumentOutcome.SKIPPED,
    "documentsFailed": DocumentOutcome.FAILED,
}
FACTS: Final = {
    "factsAdded": FactOutcome.ADDED,
    "factsUpdated": FactOutcome.UPDATED,
    "factsKnown": FactOutcome.KNOWN,
    "factsKept": FactOutcome.KEPT,
    "factsWithdrawn": FactOutcome.WITHDRAWN,
}


@dataclass(slots=True)
class DocumentCount:
    """The outcomes of the documents of one organization, or of all."""

    ended: Counter[DocumentOutcome] = field(default_factory=Counter)
    reasons: Counter[tuple[DocumentOutcome, str]] = field(default_factory=Counter)
    facts: Counter[FactOutcome] = field(default_factory=Counter)
    invalid: int = 0

    def add(self, outcome: ImportOutcome) -> None:
        """Count a document."""
        self.ended[outcome.ended] += 1
        self.facts += outcome.counts
        self.invalid += outcome.invalid
        if outcome.reason:
            self.reasons[outcome.ended, outcome.reason] += 1

    def numbers(self) -> dict[str, int]:
        """Return the counters of documents and facts by their names in the answer."""
        return {
            "documentsFound": self.ended.total(),
            **{name: self.ended[ended] for name, ended in DOCUMENTS.items()},
            **{name: self.facts[came] for name, came in FACTS.items()},
            "factsInvalid": self.invalid,
        }


@dataclass(slots=True)
class DocumentTally:
    """Counts by organization; `failures` are the texts of the sources that failed, by their names."""

    organizations: int
    total: DocumentCount = field(default_factory=DocumentCount)
    by_organization: dict[str, DocumentCount] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)

    def add(self, organization: str, outcome: ImportOutcome) -> None:
        """Count a document of an organization."""
        self.total.add(outcome)
        self.by_organization.setdefault(organization, DocumentCount()).add(outcome)

    def progress(self) -> Mapping[str, int | str]:
        """Return the counters that a handle shows as progress."""
        names = ("documentsFound", *DOCUMENTS)
        numbers = self.total.numbers()
        return {name: numbers[name] for name in names}

    def parameters(self, patient_id: str) -> bytes:
        """Return the result as a Parameters resource."""
        status = PARTIAL if self.failures else COMPLETED
        counted = {"organizationsTotal": self.organizations, **self.total.numbers()}
        parts = [
            {"name": "status", "valueCode": status},
            {"name": "patient", "valueReference": {"reference": f"Patient/{patient_id}"}},
            *_integers(counted),
            *(_organization(name, count) for name, count in sorted(self.by_organization.items())),
            *(_failure(name, text) for name, text in sorted(self.failures.items())),
        ]
        return write_json({"resourceType": "Parameters", "parameter": parts})


def _organization(name: str, count: DocumentCount) -> JsonObject:
    reasons = [
        {
            "name": "reason",
            "part": [
                {"name": "status", "valueCode": ended},
                {"name": "code", "valueCode": reason},
                {"name": "documents", "valueInteger": number},
            ],
        }
        for (ended, reason), number in sorted(count.reasons.items())
    ]
    own = [{"name": "name", "valueString": name}, {"name": "status", "valueCode": COMPLETED}]
    return {"name": "organization", "part": [*own, *_integers(count.numbers()), *reasons]}


def _failure(name: str, text: str) -> JsonObject:
    parts = [{"name": "name", "valueString": name}, {"name": "status", "valueCode": FAILED}]
    return {"name": "source", "part": [*parts, {"name": "text", "valueString": text}]}


def _integers(numbers: Mapping[str, int]) -> list[Json]:
    return [{"name": name, "valueInteger": number} for name, number in numbers.items()]


def completed(ended: EndedJob) -> NotificationEvent:
    """Return the event for subscribers to `Patient.P360`: the result or the issues, the event's name, the handle."""
    failed = ended.issues()
    parts = _issues(ended, [one.diagnostics for one in failed]) if failed else read_resource(ended.body)["parameter"]
    parts = [*parts, {"name": "event", "valueString": EVENT}, {"name": "result", "valueUri": ended.handle}]
    return NotificationEvent(EVENT, write_json({"resourceType": "Parameters", "parameter": parts}))


def _issues(ended: EndedJob, texts: list[str]) -> list[Json]:
    return [
        {"name": "status", "valueCode": FAILED},
        {"name": "patient", "valueReference": {"reference": f"Patient/{ended.job.patient}"}},
        *({"name": "issue", "valueString": text} for text in texts),
    ]


END_EVENT: Final[EndEvent] = (subscription_criteria.COMPLETED, completed)


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
        with SHORT_TURNS.taken():
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
    tally = DocumentTally(sum(connector.organizations for connector in connectors))
    importer = Importer(service, job, read, Words(service.configuration.service_identifier_system))
    queue: Queue = asyncio.Queue(WAITING)
    tasks = [asyncio.create_task(_ask(connector, requested, queue, tally)) for connector in connectors]
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
