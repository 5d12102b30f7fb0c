"""The result of a retrieval: counters over all and by organization, with the reasons of documents not imported."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from engine.fhir.json import Json, JsonObject
from engine.interchange.jobs.end_event import EndedJob, EndEvent
from engine.interchange.kernel.exact import read_resource, write_json
from engine.interchange.network.patient360.importing import DocumentOutcome, ImportOutcome
from engine.interchange.network.patient360.plan import FactOutcome
from engine.interchange.rest.subscriptions import criteria
from engine.interchange.store.notification import NotificationEvent

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


END_EVENT: Final[EndEvent] = (criteria.COMPLETED, completed)
