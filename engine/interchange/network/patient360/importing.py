"""The import of one document: read, compared with the chart, and written batch by batch, so that nobody else waits.

Each batch is whole: facts, and the Provenance that stands behind them so far. Who imports a document again, because the
process ended in between or because it is handed over once more, writes what is missing and nothing twice.
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
from engine.interchange.clinical.patient360.facts import DocumentFacts, UnreadableDocumentError
from engine.interchange.core.service import Service
from engine.interchange.jobs.job import CancelledJobError, subject
from engine.interchange.network.patient360.chart_index import Backing, ChartIndex, ChartIndexEntry, read_standing
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

# Facts of one transaction: it takes some 3 ms, as long as which all other writes wait, and reads, which are recorded.
BATCH: Final = 5
# How often a document is compared with the chart again that somebody changed meanwhile.
TRIES: Final = 3


class DocumentOutcome(StrEnum):
    """What became of a document."""

    IMPORTED = "imported"
    SKIPPED = "skipped"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class ImportOutcome:
    """What became of a document, why it was not imported, and what came of its facts."""

    ended: DocumentOutcome
    reason: str = ""
    counts: Counter[FactOutcome] = field(default_factory=Counter)
    invalid: int = 0


class ChangedMeanwhileError(ServiceError):
    """A resource is no longer as it was when the import was planned."""


@dataclass(frozen=True, slots=True)
class Ready:
    """An import as it is to be written; `beside` is what the DocumentReference and the facts refer to."""

    document: RetrievedDocument
    document_id: str
    occurred: str
    ledger: Ledger
    beside: tuple[JsonObject, ...]
    plan: ImportPlan
    invalid: int


@dataclass(slots=True)
class Importer:
    """Imports documents into the chart of one job's patient, one after the other."""

    service: Service
    job: AsyncJob
    read: Reader
    words: Words
    standing: ChartIndex | None = None
    seen: set[str] = field(default_factory=set)

    async def take(self, document: RetrievedDocument) -> ImportOutcome:
        """Import a document, or say why not; JobFailedError where the patient is no longer there."""
        for _ in range(TRIES):
            ready = await self._ready(document)
            if isinstance(ready, ImportOutcome):
                return ready
            try:
                ledger = await self._write(ready)
            except ChangedMeanwhileError:
                self.standing = None
                continue
            self.seen.add(digest(document.body))
            begun_before = ready.ledger.updated_ms >= milliseconds(self.job.asked_at)
            return ImportOutcome(
                DocumentOutcome.IMPORTED, "", _counted(ledger) if begun_before else ready.plan.counts, ready.invalid
            )
        return ImportOutcome(DocumentOutcome.FAILED, "chart-busy")

    async def _ready(self, document: RetrievedDocument) -> Ready | ImportOutcome:
        """Prepare a document; a fault of ours that one brings to light is that document's end, and no other's."""
        try:
            async with self.service.imports:
                return await asyncio.to_thread(self._prepare, document)
        except (ServiceError, SqliteError):
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, the other documents are read
            name, place = type(error).__name__, place_of(error)
            logger().error("document failed", job=self.job.id, error=name, file=place)
            self.standing = None
            return ImportOutcome(DocumentOutcome.FAILED, "service-fault")

    def _prepare(self, document: RetrievedDocument) -> Ready | ImportOutcome:
        store, tenant = self.service.store, self.job.tenant
        patient = store.read(tenant, self._look)
        standing = self.standing or ChartIndex()
        known = self._known(standing, digest(document.body))
        if known is not None:
            return known
        try:
            facts = self.read(document)
        except UnreadableDocumentError as error:
            return ImportOutcome(DocumentOutcome.FAILED, str(error.reason))
        if not matches(facts.identity, patient.resource()):
            return ImportOutcome(DocumentOutcome.FAILED, "patient-mismatch")
        return store.read(tenant, lambda transaction: self._planned(transaction, standing, document, facts))

    def _look(self, transaction: Transaction) -> StoredVersion:
        """Return the patient, and know what stands in the chart."""
        patient = subject(transaction, self.job)
        if self.standing is None:
            self.standing = read_standing(transaction, patient, self.words)
        return patient

    def _known(self, standing: ChartIndex, hashed: str) -> ImportOutcome | None:
        """Return what became of a document whose bytes are here already; None where they are not, or not to their end.

        One that was imported after the job was asked for is the job's own, from before the process ended.
        """
        ledger = standing.imports.get(standing.hashes.get(hashed, ""))
        if hashed in self.seen:
            return ImportOutcome(DocumentOutcome.SKIPPED, "duplicate-document")
        if ledger is None or not ledger.done:
            return None
        self.seen.add(hashed)
        if ledger.updated_ms >= milliseconds(self.job.asked_at):
            return ImportOutcome(DocumentOutcome.IMPORTED, "", _counted(ledger))
        return ImportOutcome(DocumentOutcome.SKIPPED, "known-document")

    def _planned(
        self, transaction: Transaction, standing: ChartIndex, document: RetrievedDocument, facts: DocumentFacts
    ) -> Ready | ImportOutcome:
        number = self.words.number(document, facts)
        kept = standing.documents.get((number["system"], number["value"]))
        ledger = standing.imports.get(kept.id) if kept is not None else None
        occurred = facts.at or document.at
        if ledger is not None and ledger.organization != document.organization:
            return ImportOutcome(DocumentOutcome.SKIPPED, "duplicate-document")
        if ledger is not None and stated(occurred) < ledger.occurred_ms:
            return ImportOutcome(DocumentOutcome.SKIPPED, "older-document")
        entry = kept or _new_document(self.service.new_id(), document.organization, number["value"], occurred)
        standing.documents[number["system"], number["value"]] = entry
        own = in_our_terms(transaction, facts, document.organization, self.job.patient, self.words, occurred)
        plan = make_plan(
            standing, own.facts, ImportedDocument(document.organization, number["value"]), self.service.new_id
        )
        beside = own.directory
        if not (entry.edited or standing.hashes.get(digest(document.body)) == entry.id):
            attached = {**binary(document, self.job.patient), "id": self.service.new_id()}
            now = transaction.at.isoformat(timespec="milliseconds")
            made = document_reference(self.words, document, facts, self.job.patient, attached["id"], now)
            beside = (*beside, attached)
            plan.lead(entry, made, stated(occurred))
        elif entry.edited:
            plan.targets[entry.reference] = ProvenanceTarget(entry.reference, 0, stated(occurred))
        if ledger is None:
            first = ProvenanceRecord(
                self.service.new_id(), 0, 0, document.organization, entry.id, occurred, (), done=False
            )
            ledger = Ledger((first,))
        return Ready(document, entry.id, occurred, ledger, beside, plan, own.invalid)

    async def _write(self, ready: Ready) -> Ledger:
        """Write an import batch by batch, the document first; return what is recorded of it."""
        ledger, beside = ready.ledger, ready.beside
        batches = _batches(ready.plan)
        for number, (steps, targets) in enumerate(batches, 1):
            done = number == len(batches)
            noted = ledger.noted(targets, ready.occurred, self.service.new_id, done=done)
            changed = [one for one in noted.records if one not in ledger.records]
            work = partial(self._write_batch, changed, steps, beside)
            began = monotonic()
            written = await self.service.store.write(self.job.tenant, work)
            # Who writes beside this has every other turn.
            await asyncio.sleep(monotonic() - began)
            ledger, beside = Ledger(tuple(written.get(one.id, one) for one in noted.records)), ()
            if not done:
                fault.point("F35")
        if self.standing is not None:
            self.standing.imports[ready.document_id] = ledger
            self.standing.hashes[digest(ready.document.body)] = ready.document_id
        return ledger

    def _write_batch(
        self,
        records: list[ProvenanceRecord],
        steps: list[ImportStep],
        beside: tuple[JsonObject, ...],
        transaction: Transaction,
    ) -> dict[str, ProvenanceRecord]:
        """Write a batch, and return its records as they are kept, by their ids."""
        subject(transaction, self.job)
        _check_attempt(transaction, self.job)
        for one in beside:
            _put_beside(transaction, one)
        for step in steps:
            _put(transaction, step)
        return {one.id: self._put_record(transaction, one) for one in records}

    def _put_record(self, transaction: Transaction, record: ProvenanceRecord) -> ProvenanceRecord:
        made = record.provenance(self.words, transaction.at.isoformat(timespec="milliseconds"))
        before = transaction.get("Provenance", record.id)
        create = partial(transaction.create, "Provenance", record.id)
        kept = create(made) if before is None else transaction.update(before, made)
        return replace(record, updated_ms=kept.updated_ms, version=kept.version)


def _check_attempt(transaction: Transaction, job: AsyncJob) -> None:
    """Raise CancelledJobError where this attempt is over: the next one may be writing the same facts already."""
    kept = find_job(transaction, job.id)
    if kept is not None and (kept.state, kept.job.attempts) != (JobState.RUNNING, job.attempts):
        raise CancelledJobError


def _counted(ledger: Ledger) -> Counter[FactOutcome]:
    """Return what came of the facts of a document of which a part was imported before the process ended."""
    targets = (one for record in ledger.records for one in record.targets)
    facts = (one for one in targets if one.reference != f"DocumentReference/{ledger.records[0].document_id}")
    return Counter(
        FactOutcome.KEPT
        if one.kept
        else (FactOutcome.KNOWN, FactOutcome.ADDED, FactOutcome.UPDATED)[min(one.version, 2)]
        for one in facts
    )


def _batches(plan: ImportPlan) -> list[tuple[list[ImportStep], list[ProvenanceTarget]]]:
    """Return what is written at once: the document first, what only needs to be stood behind last."""
    steps = list(plan.steps.values())
    known = [one for name, one in plan.targets.items() if name not in plan.steps]
    parts = [steps[at : at + BATCH] for at in range(0, len(steps), BATCH)]
    made = [(part, [plan.targets[step.entry.reference] for step in part]) for part in parts]
    made += [([], known[at : at + MOST_TARGETS]) for at in range(0, len(known), MOST_TARGETS)]
    return made or [([], [])]


def _new_document(new_id: str, organization: str, number: str, occurred: str) -> ChartIndexEntry:
    """Return an entry for a document that is not here yet; what it says comes with its step."""
    turn = (stated(occurred), organization, number)
    key = Key("DocumentReference", "", "", new_id)
    return ChartIndexEntry("DocumentReference", new_id, 0, {}, key, [Backing(turn, 1)], edited=False)


def _put_beside(transaction: Transaction, resource: JsonObject) -> None:
    """Write what facts refer to where it is not there."""
    stored = transaction.get(resource["resourceType"], resource["id"])
    if stored is None:
        transaction.create(resource["resourceType"], resource["id"], resource)
    elif stored.deleted:
        transaction.bring_back(stored, resource)


def _put(transaction: Transaction, step: ImportStep) -> None:
    """Write a step; ChangedMeanwhileError where another version stands there than the one that it replaces."""
    entry = step.entry
    stored = transaction.get(entry.type, entry.id)
    if (stored.version if stored is not None else 0) != step.replaces:
        raise ChangedMeanwhileError
    if stored is None:
        transaction.create(entry.type, entry.id, step.content)
    else:
        transaction.update(stored, step.content)
