"""What changed of a resource: its version at hand against what was last sent of it."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.fhir.event import FhirEvent
from engine.fhir.json import JsonObject
from engine.mapping.outgoing.change import ChangeKind, NothingToSend
from engine.mapping.outgoing.detection import PHASES, ResourceState, detect, moved_with, resource_state, state_of

BASE = "https://fhir.example/R4"
GONE = ResourceState(deleted=True)


def patient(**more: Any) -> JsonObject:
    """Return a Patient."""
    return {"resourceType": "Patient", "id": "1", "name": [{"family": "Quillon"}], **more}


def visit(status: str = "in-progress", ward: str = "4-west", **more: Any) -> JsonObject:
    """Return an Encounter in a ward."""
    location = [{"location": {"reference": f"Location/{ward}"}, "status": "active"}]
    return {"resourceType": "Encounter", "id": "e", "status": status, "subject": {"reference": "Patient/1"},
            "location": location, **more}  # fmt: skip


def changed(before: JsonObject | None, now: JsonObject | None) -> str:
    """Return the kind of a change between two versions, or why nothing is sent."""
    type_ = str((now or before or {}).get("resourceType"))
    state = resource_state(now, BASE) if now is not None else GONE
    found = detect(type_, state, resource_state(before, BASE) if before is not None else None)
    return found.reason if isinstance(found, NothingToSend) else found.value


MERGED = patient(active=False, link=[{"type": "replaced-by", "other": {"reference": "Patient/2"}}])


@pytest.mark.parametrize(
    ("before", "now", "kind"),
    [
        (None, patient(), "patient-created"),
        (patient(), patient(gender="female"), "patient-updated"),
        (patient(), patient(meta={"versionId": "9"}, text={"status": "generated"}), "unchanged"),
        (patient(), patient(link=[{"type": "replaces", "other": {"reference": "Patient/2"}}]), "unchanged"),
        (patient(), MERGED, "patient-merged"),
        (None, MERGED, "patient-merged"),
        (MERGED, MERGED | {"gender": "male"}, "merged-away"),
        (MERGED, patient(), "patient-updated"),
        (patient(), None, "patient-deleted"),
        (None, visit("planned"), "visit-planned"),
        (visit("planned"), visit("arrived"), "visit-started"),
        (None, visit(), "visit-started"),
        (visit("arrived"), visit("in-progress"), "visit-updated"),
        (visit(), visit(ward="icu"), "visit-moved"),
        (visit("planned"), visit("planned", ward="icu"), "visit-updated"),
        (visit(), visit(location=[]), "visit-updated"),
        (visit(), visit("finished"), "visit-ended"),
        (visit("finished"), visit(), "visit-updated"),
        (visit("finished"), visit("finished", ward="icu"), "visit-updated"),
        (visit(), visit("cancelled"), "visit-cancelled"),
        (visit("planned"), visit("cancelled"), "visit-plan-cancelled"),
        (visit("cancelled"), visit(), "visit-started"),
        (visit("unknown"), visit("unknown", priority={"text": "urgent"}), "visit-updated"),
        (visit(), visit(meta={"versionId": "2"}), "unchanged"),
        (visit(), visit(subject={"reference": "Patient/2"}), "visit-updated"),
        (visit(), None, "visit-deleted"),
    ],
)
def test_each_change(before: JsonObject | None, now: JsonObject | None, kind: str) -> None:
    """By what HL7 v2 has an event for."""
    assert changed(before, now) == kind


def test_a_visit_that_follows_a_merge_is_no_change() -> None:
    """A merge gives the visits of one record to the other: the merge says so."""
    now, before = resource_state(visit(subject={"reference": "Patient/2"}), BASE), resource_state(visit(), BASE)
    found = detect("Encounter", now, moved_with(before, "Patient/2"))
    assert isinstance(found, NothingToSend)


def test_a_record_of_another_server_is_nobody_here() -> None:
    """Another server's Patient/2 is another person than ours."""
    for base, found in ((BASE, "Patient/2"), ("https://other.example/R4", "")):
        link = [{"type": "replaced-by", "other": {"reference": f"{base}/Patient/2"}}]
        assert resource_state(patient(link=link), BASE).replaced_by == found
        assert resource_state(visit(subject={"reference": f"{base}/Patient/2"}), BASE).subject == found


def test_a_bed_left_is_where_nobody_is() -> None:
    """Of several places the one where the patient is counts: one with an end, or a status that says so, does not."""
    left = [
        {"location": {"reference": "Location/4-west"}, "status": "completed"},
        {"location": {"reference": "Location/5-west"}, "period": {"end": "2026-01-01"}},
        {"location": {"reference": "Location/icu"}, "status": "reserved"},
    ]
    here = {"location": {"reference": "Location/4-west"}, "status": "active"}
    assert changed(visit(), visit(location=[*left, here])) == "visit-updated"
    assert changed(visit(), visit(location=[*left, here | {"location": {"reference": "Location/ed"}}])) == "visit-moved"


def test_after_a_deletion() -> None:
    """A resource that comes again is new; a second deletion is none."""
    again = detect("Patient", resource_state(patient(), BASE), GONE)
    assert again is ChangeKind.PATIENT_CREATED
    assert detect("Encounter", GONE, GONE) == NothingToSend("deleted-already")
    event = FhirEvent("Patient", "1", "", None, None, {})
    assert state_of(event, BASE) == GONE


@given(st.sampled_from([None, *PHASES, "unknown"]), st.sampled_from([*PHASES, "unknown"]), st.booleans())
def test_every_step_of_a_visit_says_something(before: str | None, now: str, moved: bool) -> None:
    """Whatever the statuses are: another content is a change, and the state survives its text."""
    was = None if before is None else visit(before)
    then = visit(now, "icu" if moved else "4-west", priority={"text": "urgent"})
    assert changed(was, then).startswith("visit-")
    assert ResourceState.read(resource_state(then, BASE).text) == resource_state(then, BASE)
