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
from typing import Any, Final

from engine import fault
from engine.errors import ServiceError
from engine.interchange.jobs.job import Job
from engine.interchange.jobs.subject import subject
from engine.interchange.patient360.connectors.connector import Document
from engine.interchange.patient360.deduplicate import Key
from engine.interchange.patient360.facts import Facts, UnreadableDocumentError
from engine.interchange.patient360.match import matches
from engine.interchange.patient360.own import in_our_terms
from engine.interchange.patient360.plan import Came, Plan, Source, Step, make_plan
from engine.interchange.patient360.record import Record, Target, Words, binary, digest, document_reference, stated
from engine.interchange.patient360.standing import Backing, Entry, Standing, read_standing
from engine.interchange.service import Service
from engine.interchange.store.transaction import Stored, Transaction, milliseconds

Json = Any

Reader = Callable[[Document], Facts]

# Facts of one transaction: it takes some 20 ms, as long as which all other writes wait.
BATCH: Final = 40
# How often a document is compared with the chart again that somebody changed meanwhile.
TRIES: Final = 3


class Ended(StrEnum):
    """What became of a document."""

    IMPORTED = "imported"
    SKIPPED = "skipped"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a document, why it was not imported, and what came of its facts."""

    ended: Ended
    reason: str = ""
    counts: Counter[Came] = field(default_factory=Counter)
    invalid: int = 0


class ChangedMeanwhileError(ServiceError):
    """A resource is no longer as it was when the import was planned."""


@dataclass(frozen=True, slots=True)
class Ready:
    """An import as it is to be written; `beside` is what the DocumentReference and the facts refer to."""

    document: Document
    record: Record
    beside: tuple[dict[str, Json], ...]
    plan: Plan
    invalid: int


@dataclass(slots=True)
class Importer:
    """Imports documents into the chart of one job's patient, one after the other."""

    service: Service
    job: Job
    read: Reader
    words: Words
    standing: Standing | None = None
    seen: set[str] = field(default_factory=set)

    async def take(self, document: Document) -> Outcome:
        """Import a document, or say why not; JobFailedError where the patient is no longer there."""
        for _ in range(TRIES):
            ready = await asyncio.to_thread(self._prepare, document)
            if isinstance(ready, Outcome):
                return ready
            try:
                await self._write(ready)
            except ChangedMeanwhileError:
                self.standing = None
                continue
            self.seen.add(digest(document.body))
            return Outcome(Ended.IMPORTED, "", ready.plan.counts, ready.invalid)
        return Outcome(Ended.FAILED, "chart-busy")

    def _prepare(self, document: Document) -> Ready | Outcome:
        store, tenant = self.service.store, self.job.tenant
        patient = store.read(tenant, self._look)
        standing = self.standing or Standing()
        known = self._known(standing, digest(document.body))
        if known is not None:
            return known
        try:
            facts = self.read(document)
        except UnreadableDocumentError as error:
            return Outcome(Ended.FAILED, str(error.reason))
        if not matches(facts.identity, patient.resource()):
            return Outcome(Ended.FAILED, "patient-mismatch")
        return store.read(tenant, lambda transaction: self._planned(transaction, standing, document, facts))

    def _look(self, transaction: Transaction) -> Stored:
        """Return the patient, and know what stands in the chart."""
        patient = subject(transaction, self.job)
        if self.standing is None:
            self.standing = read_standing(transaction, patient, self.words)
        return patient

    def _known(self, standing: Standing, hashed: str) -> Outcome | None:
        """Return what became of a document whose bytes are here already; None where they are not, or not to their end.

        One that was imported after the job was asked for is the job's own, from before the process ended.
        """
        record = standing.imports.get(standing.hashes.get(hashed, ""))
        if hashed in self.seen:
            return Outcome(Ended.SKIPPED, "duplicate-document")
        if record is None or not record.done:
            return None
        self.seen.add(hashed)
        if record.updated_ms >= milliseconds(self.job.asked_at):
            return Outcome(Ended.IMPORTED)
        return Outcome(Ended.SKIPPED, "known-document")

    def _planned(
        self, transaction: Transaction, standing: Standing, document: Document, facts: Facts
    ) -> Ready | Outcome:
        number = self.words.number(document, facts)
        kept = standing.documents.get((number["system"], number["value"]))
        record = standing.imports.get(kept.id) if kept is not None else None
        occurred = facts.at or document.at
        if kept is not None and record is not None:
            if record.organization != document.organization:
                return Outcome(Ended.SKIPPED, "duplicate-document")
            if stated(occurred) < stated(record.occurred):
                return Outcome(Ended.SKIPPED, "older-document")
        entry = kept or _new_document(self.service.new_id(), document.organization, number["value"], occurred)
        standing.documents[number["system"], number["value"]] = entry
        own = in_our_terms(transaction, facts, document.organization, self.job.patient, self.words, occurred)
        plan = make_plan(standing, own.facts, Source(document.organization, number["value"]), self.service.new_id)
        beside = own.directory
        if not (entry.edited or standing.hashes.get(digest(document.body)) == entry.id):
            attached = {**binary(document, self.job.patient), "id": self.service.new_id()}
            made = document_reference(self.words, document, facts, self.job.patient, attached["id"])
            beside = (*beside, attached)
            plan.lead(entry, made, stated(occurred))
        elif entry.edited:
            plan.targets[entry.reference] = Target(entry.reference, 0, stated(occurred))
        if record is None:
            record = Record(self.service.new_id(), 0, 0, document.organization, entry.id, occurred, (), done=False)
        return Ready(document, replace(record, occurred=occurred), beside, plan, own.invalid)

    async def _write(self, ready: Ready) -> None:
        """Write an import: the document and all that is known already, then the rest in batches."""
        plan, record = ready.plan, ready.record
        steps = list(plan.steps.values())
        stood = {one.reference: one for one in record.targets}
        stood |= {name: one for name, one in plan.targets.items() if name not in plan.steps}
        for at in range(0, max(1, len(steps)), BATCH):
            batch = steps[at : at + BATCH]
            stood |= {step.entry.reference: plan.targets[step.entry.reference] for step in batch}
            record = replace(record, targets=tuple(stood.values()), done=at + BATCH >= len(steps))
            work = partial(self._write_batch, record, batch, ready.beside if at == 0 else ())
            record = await self.service.store.write(self.job.tenant, work)
            if not record.done:
                fault.point("F35")
        if self.standing is not None:
            self.standing.imports[record.document_id] = record
            self.standing.hashes[digest(ready.document.body)] = record.document_id

    def _write_batch(
        self,
        record: Record,
        steps: list[Step],
        beside: tuple[dict[str, Json], ...],
        transaction: Transaction,
    ) -> Record:
        subject(transaction, self.job)
        for one in beside:
            _put_beside(transaction, one)
        for step in steps:
            _put(transaction, step)
        made = record.provenance(self.words, transaction.at.isoformat(timespec="milliseconds"))
        before = transaction.get("Provenance", record.id)
        create = partial(transaction.create, "Provenance", record.id)
        kept = create(made) if before is None else transaction.update(before, made)
        return replace(record, updated_ms=kept.updated_ms, version=kept.version)


def _new_document(new_id: str, organization: str, number: str, occurred: str) -> Entry:
    """Return an entry for a document that is not here yet; what it says comes with its step."""
    turn = (stated(occurred), organization, number)
    key = Key("DocumentReference", "", "", new_id)
    return Entry("DocumentReference", new_id, 0, {}, key, [Backing(turn, 1)], edited=False)


def _put_beside(transaction: Transaction, resource: dict[str, Json]) -> None:
    """Write what facts refer to where it is not there."""
    stored = transaction.get(resource["resourceType"], resource["id"])
    if stored is None:
        transaction.create(resource["resourceType"], resource["id"], resource)
    elif stored.deleted:
        transaction.bring_back(stored, resource)


def _put(transaction: Transaction, step: Step) -> None:
    """Write a step; ChangedMeanwhileError where another version stands there than the one that it replaces."""
    entry = step.entry
    stored = transaction.get(entry.type, entry.id)
    if (stored.version if stored is not None else 0) != step.replaces:
        raise ChangedMeanwhileError
    if stored is None:
        transaction.create(entry.type, entry.id, step.content)
    else:
        transaction.update(stored, step.content)
