"""What those who subscribed to `Patient.P360` are told when a retrieval has come to its end."""

from typing import Final

from engine.fhir.json import Json
from engine.interchange.jobs.telling import EndedJob, Telling
from engine.interchange.kernel.exact import read_resource, write_json
from engine.interchange.network.patient360.tally import FAILED
from engine.interchange.rest.subscriptions.criteria import COMPLETED
from engine.interchange.store.notification import NotificationEvent

EVENT: Final = "patient360-complete"


def completed(ended: EndedJob) -> NotificationEvent:
    """Return the event: the result as its handle answers it, the name of the event, and the handle."""
    failed = ended.issues()
    parts = _failure(ended, [one.diagnostics for one in failed]) if failed else read_resource(ended.body)["parameter"]
    told = [{"name": "event", "valueString": EVENT}, {"name": "result", "valueUri": ended.handle}]
    return NotificationEvent(EVENT, write_json({"resourceType": "Parameters", "parameter": [*parts, *told]}))


def _failure(ended: EndedJob, texts: list[str]) -> list[Json]:
    return [
        {"name": "status", "valueCode": FAILED},
        {"name": "patient", "valueReference": {"reference": f"Patient/{ended.job.patient}"}},
        *({"name": "issue", "valueString": text} for text in texts),
    ]


TELLING: Final[Telling] = (COMPLETED, completed)
