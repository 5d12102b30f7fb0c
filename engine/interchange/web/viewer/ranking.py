"""The order of a chart's lists: what is in force first; within a state as the Chart API lists it, newest first."""

from collections.abc import Callable, Iterable
from typing import Final

from engine.fhir.json import JsonObject
from engine.interchange.store.search.date import NEVER, span

# States by what they mean now: in force, paused or not said, over, and never true.
NOW: Final = 0
UNSURE: Final = 1
OVER: Final = 2
WRONG: Final = 3

CLINICAL: Final = {
    **dict.fromkeys(("active", "recurrence", "relapse"), NOW),
    **dict.fromkeys(("inactive", "remission", "resolved"), OVER),
}
TAKEN: Final = {
    "active": NOW,
    **dict.fromkeys(("completed", "stopped", "cancelled", "not-taken"), OVER),
    "entered-in-error": WRONG,
}
GIVEN: Final = {"completed": NOW, "not-done": OVER, "entered-in-error": WRONG}
UNDER_WAY: Final = {
    **dict.fromkeys(("arrived", "triaged", "in-progress", "onleave"), NOW),
    **dict.fromkeys(("cancelled", "finished"), OVER),
    "entered-in-error": WRONG,
}
# Verification states of a record that is not true of the patient.
UNTRUE: Final = frozenset({"refuted", "entered-in-error"})

Rank = Callable[[JsonObject], int]


def clinical_rank(record: JsonObject) -> int:
    """Return the rank of a problem or an allergy."""
    if record.get("verificationStatus", "") in UNTRUE:
        return WRONG
    return CLINICAL.get(record.get("clinicalStatus", ""), UNSURE)


def medication_rank(record: JsonObject) -> int:
    """Return the rank of a medication."""
    return TAKEN.get(record.get("status", ""), UNSURE)


def immunization_rank(record: JsonObject) -> int:
    """Return the rank of an immunization."""
    return GIVEN.get(record.get("status", ""), UNSURE)


def visit_rank(record: JsonObject) -> int:
    """Return the rank of a visit."""
    return UNDER_WAY.get(record.get("status", ""), UNSURE)


def allergies_in_order(records: Iterable[JsonObject]) -> list[JsonObject]:
    """Return allergies: active first, of high risk before others."""
    return sorted(records, key=lambda record: (clinical_rank(record), record.get("criticality") != "high"))


def problems_in_order(records: Iterable[JsonObject]) -> list[JsonObject]:
    """Return problems: active first."""
    return sorted(records, key=clinical_rank)


def medications_in_order(records: Iterable[JsonObject]) -> list[JsonObject]:
    """Return medications: current first."""
    return sorted(records, key=medication_rank)


def immunizations_in_order(records: Iterable[JsonObject]) -> list[JsonObject]:
    """Return immunizations: those that were given first."""
    return sorted(records, key=immunization_rank)


def visits_in_order(records: Iterable[JsonObject]) -> list[JsonObject]:
    """Return visits: those in progress on top, then by their start, and those entered in error last."""
    latest = sorted(records, key=_start, reverse=True)
    return sorted(latest, key=lambda record: {NOW: 0, WRONG: 2}.get(visit_rank(record), 1))


def _start(record: JsonObject) -> int:
    covered = span(record.get("start", ""))
    return covered[0] if covered else NEVER
