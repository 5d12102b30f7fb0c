"""The import of one document: read, compared with the chart, and written in small batches, so that others do not wait.

Each batch is complete: facts, and their Provenance so far. A second import of the document, after a crash or from
another retrieval, writes what is missing and nothing twice.
"""

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import partial
from time import monotonic
from typing import Final

from engine import fault
from engine.database.sqlite import SqliteError
from engine.errors import ServiceError, place_of
from engine.fhir.json import JsonObject
from engine.interchange.clinical.facts import DocumentFacts, UnreadableDocumentError
from engine.interchange.core.service import Service
from engine.interchange.jobs.job import CancelledJobError, subject
from engine.interchange.network.patient360.chart_index import Backing, ChartIndex, ChartIndexEntry, read_chart_index
from engine.interchange.network.patient360.connectors.connector import RetrievedDocument
from engine.interchange.network.patient360.deduplicate import Key
from engine.interchange.network.patient360.match import matches
from engine.interchange.network.patient360.own import in_our_terms
from engine.interchange.network.patient360.plan import FactOutcome, ImportedDocument, ImportPlan, ImportStep, make_plan
from engine.interchange.network.patient360.record import (
    MOST_TARGETS,
    Ledger,
    ProvenanceRecord,
    ProvenanceTarget,
    Words,
    binary,
    digest,
    document_reference,
    stated,
)
from engine.interchange.store.job import AsyncJob, JobState, find_job
from engine.interchange.store.transaction import StoredVersion, Transaction, milliseconds
from engine.telemetry import logger

Reader = Callable[[RetrievedDocument], DocumentFacts]

# Facts of one transaction: it takes some 3 ms, and delays all other writes, and reads, which are logged.
BATCH: Final = 5
# How often a document is planned, if the chart changes meanwhile.
TRIES: Final = 3


class DocumentOutcome(StrEnum):
    """The outcome of a document."""

    IMPORTED = "imported"
    SKIPPED = "skipped"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class ImportOutcome:
    """The outcome of a document, the reason if it was not imported, and the outcomes of its facts."""

    ended: DocumentOutcome
    reason: str = ""
    counts: Counter[FactOutcome] = field(default_factory=Counter)
    invalid: int = 0


class ChangedMeanwhileError(ServiceError):
    """A resource has changed since the import was planned."""


@dataclass(frozen=True, slots=True)
class Ready:
    """An import that is ready to be written; `supporting` are the Binary and the entries of the directory."""

    document: RetrievedDocument
    document_id: str
    occurred: str
    ledger: Ledger
    supporting: tuple[JsonObject, ...]
    plan: ImportPlan
    invalid: int


@dataclass(slots=True)
class Importer:
    """Imports documents into the chart of one job's patient, one after the other."""

    service: Service
    job: AsyncJob
    read: Reader
    words: Words
    index: ChartIndex | None = None
    seen: set[str] = field(default_factory=set)

    async def take(self, document: RetrievedDocument) -> ImportOutcome:
        """Import a document; JobFailedError if the patient was deleted or merged away."""
        for _ in range(TRIES):
            ready = await self._ready(document)
            if isinstance(ready, ImportOutcome):
                return ready
            try:
                ledger = await self._write(ready)
            except ChangedMeanwhileError:
                self.index = None
                continue
            self.seen.add(digest(document.body))
            begun_before = ready.ledger.updated_ms >= milliseconds(self.job.asked_at)
            return ImportOutcome(
                DocumentOutcome.IMPORTED, "", _counted(ledger) if begun_before else ready.plan.counts, ready.invalid
            )
        return ImportOutcome(DocumentOutcome.FAILED, "chart-busy")

    async def _ready(self, document: RetrievedDocument) -> Ready | ImportOutcome:
        """Prepare a document; an internal error fails this document only."""
        try:
            async with self.service.imports:
                return await asyncio.to_thread(self._prepare, document)
        except (ServiceError, SqliteError):
            raise
        except Exception as error:  # noqa: BLE001 - any error fails this document only
            name, place = type(error).__name__, place_of(error)
            logger().error("document failed", job=self.job.id, error=name, file=place)
            self.index = None
            return ImportOutcome(DocumentOutcome.FAILED, "service-fault")

    def _prepare(self, document: RetrievedDocument) -> Ready | ImportOutcome:
        store, tenant = self.service.store, self.job.tenant
        patient = store.read(tenant, self._look)
        index = self.index or ChartIndex()
        known = self._known(index, digest(document.body))
        if known is not None:
            return known
        try:
            facts = self.read(document)
        except UnreadableDocumentError as error:
            return ImportOutcome(DocumentOutcome.FAILED, str(error.reason))
        if not matches(facts.identity, patient.resource()):
            return ImportOutcome(DocumentOutcome.FAILED, "patient-mismatch")
        return store.read(tenant, lambda transaction: self._planned(transaction, index, document, facts))

    def _look(self, transaction: Transaction) -> StoredVersion:
        """Return the patient; read the index of the chart if there is none yet."""
        patient = subject(transaction, self.job)
        if self.index is None:
            self.index = read_chart_index(transaction, patient, self.words)
        return patient

    def _known(self, index: ChartIndex, hashed: str) -> ImportOutcome | None:
        """Return the outcome of a document that was imported completely before, None for any other.

        One that was imported after the request of this job was imported by this job, before a crash.
        """
        ledger = index.imports.get(index.hashes.get(hashed, ""))
        if hashed in self.seen:
            return ImportOutcome(DocumentOutcome.SKIPPED, "duplicate-document")
        if ledger is None or not ledger.done:
            return None
        self.seen.add(hashed)
        if ledger.updated_ms >= milliseconds(self.job.asked_at):
            return ImportOutcome(DocumentOutcome.IMPORTED, "", _counted(ledger))
        return ImportOutcome(DocumentOutcome.SKIPPED, "known-document")

    def _planned(
        self, transaction: Transaction, index: ChartIndex, document: RetrievedDocument, facts: DocumentFacts
    ) -> Ready | ImportOutcome:
        number = self.words.number(document, facts)
        kept = index.documents.get((number["system"], number["value"]))
        ledger = index.imports.get(kept.id) if kept is not None else None
        occurred = facts.at or document.at
        if ledger is not None and ledger.organization != document.organization:
            return ImportOutcome(DocumentOutcome.SKIPPED, "duplicate-document")
        if ledger is not None and stated(occurred) < ledger.occurred_ms:
            return ImportOutcome(DocumentOutcome.SKIPPED, "older-document")
        entry = kept or _new_document(self.service.new_id(), document.organization, number["value"], occurred)
        index.documents[number["system"], number["value"]] = entry
        own = in_our_terms(transaction, facts, document.organization, self.job.patient, self.words, occurred)
        plan = make_plan(
            index, own.facts, ImportedDocument(document.organization, number["value"]), self.service.new_id
        )
        supporting = own.directory
        if not (entry.edited or index.hashes.get(digest(document.body)) == entry.id):
            attached = {**binary(document, self.job.patient), "id": self.service.new_id()}
            now = transaction.at.isoformat(timespec="milliseconds")
            reference = document_reference(self.words, document, facts, self.job.patient, attached["id"], now)
            supporting = (*supporting, attached)
            plan.lead(entry, reference, stated(occurred))
        elif entry.edited:
            plan.targets[entry.reference] = ProvenanceTarget(entry.reference, 0, stated(occurred))
        if ledger is None:
            first = ProvenanceRecord(
                self.service.new_id(), 0, 0, document.organization, entry.id, occurred, (), done=False
            )
            ledger = Ledger((first,))
        return Ready(document, entry.id, occurred, ledger, supporting, plan, own.invalid)

    async def _write(self, ready: Ready) -> Ledger:
        """Write an import batch by batch, the DocumentReference first."""
        ledger, supporting = ready.ledger, ready.supporting
        batches = _batches(ready.plan)
        for number, (steps, targets) in enumerate(batches, 1):
            done = number == len(batches)
            noted = ledger.noted(targets, ready.occurred, self.service.new_id, done=done)
            changed = [record for record in noted.records if record not in ledger.records]
            work = partial(self._write_batch, changed, steps, supporting)
            began = monotonic()
            written = await self.service.store.write(self.job.tenant, work)
            # Other writes get every other turn.
            await asyncio.sleep(monotonic() - began)
            ledger, supporting = Ledger(tuple(written.get(record.id, record) for record in noted.records)), ()
            if not done:
                fault.point("F35")
        if self.index is not None:
            self.index.imports[ready.document_id] = ledger
            self.index.hashes[digest(ready.document.body)] = ready.document_id
        return ledger

    def _write_batch(
        self,
        records: list[ProvenanceRecord],
        steps: list[ImportStep],
        supporting: tuple[JsonObject, ...],
        transaction: Transaction,
    ) -> dict[str, ProvenanceRecord]:
        """Write a batch, and return its stored records by their ids."""
        subject(transaction, self.job)
        _check_attempt(transaction, self.job)
        for one in supporting:
            _put_supporting(transaction, one)
        for step in steps:
            _put(transaction, step)
        return {record.id: self._put_record(transaction, record) for record in records}

    def _put_record(self, transaction: Transaction, record: ProvenanceRecord) -> ProvenanceRecord:
        provenance = record.provenance(self.words, transaction.at.isoformat(timespec="milliseconds"))
        before = transaction.get("Provenance", record.id)
        create = partial(transaction.create, "Provenance", record.id)
        stored = create(provenance) if before is None else transaction.update(before, provenance)
        return replace(record, updated_ms=stored.updated_ms, version=stored.version)


def _check_attempt(transaction: Transaction, job: AsyncJob) -> None:
    """Raise CancelledJobError if this attempt is over: the next one may be writing the same facts already."""
    kept = find_job(transaction, job.id)
    if kept is not None and (kept.state, kept.job.attempts) != (JobState.RUNNING, job.attempts):
        raise CancelledJobError


def _counted(ledger: Ledger) -> Counter[FactOutcome]:
    """Return the outcomes of the facts of a document that was imported in part before a crash."""
    targets = (target for record in ledger.records for target in record.targets)
    facts = (target for target in targets if target.reference != f"DocumentReference/{ledger.records[0].document_id}")
    return Counter(
        FactOutcome.KEPT
        if fact.kept
        else (FactOutcome.KNOWN, FactOutcome.ADDED, FactOutcome.UPDATED)[min(fact.version, 2)]
        for fact in facts
    )


def _batches(plan: ImportPlan) -> list[tuple[list[ImportStep], list[ProvenanceTarget]]]:
    """Return the batches: the DocumentReference first, known facts, which need a Provenance only, last."""
    steps = list(plan.steps.values())
    known = [one for name, one in plan.targets.items() if name not in plan.steps]
    parts = [steps[at : at + BATCH] for at in range(0, len(steps), BATCH)]
    batches = [(part, [plan.targets[step.entry.reference] for step in part]) for part in parts]
    batches += [([], known[at : at + MOST_TARGETS]) for at in range(0, len(known), MOST_TARGETS)]
    return batches or [([], [])]


def _new_document(new_id: str, organization: str, number: str, occurred: str) -> ChartIndexEntry:
    """Return an entry for a new document; its step brings the content."""
    turn = (stated(occurred), organization, number)
    key = Key("DocumentReference", "", "", new_id)
    return ChartIndexEntry("DocumentReference", new_id, 0, {}, key, [Backing(turn, 1)], edited=False)


def _put_supporting(transaction: Transaction, resource: JsonObject) -> None:
    """Write a Binary or an entry of the directory unless it exists."""
    stored = transaction.get(resource["resourceType"], resource["id"])
    if stored is None:
        transaction.create(resource["resourceType"], resource["id"], resource)
    elif stored.deleted:
        transaction.bring_back(stored, resource)


def _put(transaction: Transaction, step: ImportStep) -> None:
    """Write a step; ChangedMeanwhileError if the stored version is not the one that it replaces."""
    entry = step.entry
    stored = transaction.get(entry.type, entry.id)
    if (stored.version if stored is not None else 0) != step.replaces:
        raise ChangedMeanwhileError
    if stored is None:
        transaction.create(entry.type, entry.id, step.content)
    else:
        transaction.update(stored, step.content)
