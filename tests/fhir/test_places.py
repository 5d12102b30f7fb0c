"""Where a visit was: what a message says of its places, seen from what is stored."""

from datetime import UTC, datetime
from typing import Any

import pytest

from engine.fhir.json import digest
from engine.fhir.places import BEFORE, begun, traced
from engine.fhir.plan import ElementChange, LocationTrail

ARRIVES, SAYS = LocationTrail("location", "PV1-3", "PV1-6", arrives=True), LocationTrail("location", "PV1-3", "PV1-6")
AT = datetime(2026, 3, 5, 8, tzinfo=UTC)
THEN, NOW = "2026-03-04T08:00:00+00:00", "2026-03-05T08:00:00+00:00"


def place(name: str, status: str = "active", start: str = "", end: str = "") -> dict[str, Any]:
    """Return an item of Encounter.location."""
    period = {key: value for key, value in (("start", start), ("end", end)) if value}
    return {"location": {"reference": f"Location/{name}"}, "status": status} | ({"period": period} if period else {})


def told(here: dict[str, Any], prior: dict[str, Any] | None = None) -> list[ElementChange]:
    """Return what a message says: the place now, and the one before."""
    said = [ElementChange("location", "PV1-3", (here,), many=True)]
    return said + ([ElementChange("location", "PV1-6", (prior,), many=True)] if prior else [])


def after(
    stored: list[dict[str, Any]], said: list[ElementChange], trail: LocationTrail, **owned: int
) -> dict[str, list[Any]]:
    """Return what is then said, by slice; `owned` are the slices by name and the index of the item they have."""
    names = {"here": "PV1-3", "before": "PV1-3" + BEFORE, "prior": "PV1-6"}
    slices = {names[name]: (digest(stored[index]),) for name, index in owned.items()}
    return {one.slice: list(one.items) for one in traced({"location": stored}, said, slices, trail, AT)}


def test_what_is_left_stays_until_the_arrival() -> None:
    """A transfer: the new place since then, the old one completed until then, and named once as the one before."""
    found = after([place("a", start=THEN)], told(place("b"), place("a", "completed")), ARRIVES, here=0)
    left = place("a", "completed", THEN, NOW)
    assert found == {"PV1-3": [place("b", start=NOW)], "PV1-6": [left], "PV1-3" + BEFORE: [left]}


def test_the_same_place_keeps_its_time() -> None:
    """Told again by an arrival, or by an update: since when it was known to be stays."""
    for trail in (ARRIVES, SAYS):
        assert after([place("a", start=THEN)], told(place("a")), trail, here=0) == {"PV1-3": [place("a", start=THEN)]}


def test_what_arrives_too_late_moves_nothing() -> None:
    """An arrival from before the present place is no place of now."""
    stored = [place("a", start="2026-03-06T08:00:00+00:00")]
    assert after(stored, told(place("b")), ARRIVES, here=0) == {"PV1-3": stored}


def test_a_correction_takes_the_place_back() -> None:
    """Without an arrival the last place was a mistake: the one before is active again, since it was."""
    stored = [place("b", start=NOW), place("a", "completed", THEN, NOW)]
    found = after(stored, told(place("a")), SAYS, here=0, before=1, prior=1)
    assert found == {"PV1-3": [place("a", start=THEN)], "PV1-6": [], "PV1-3" + BEFORE: []}


@pytest.mark.parametrize(("status", "kept"), [("planned", 0), ("active", 1), ("completed", 1)])
def test_what_was_only_planned_leaves_no_trace(status: str, kept: int) -> None:
    """A bed that was reserved is none that the visit was in."""
    found = after([place("a", status)], told(place("b")), ARRIVES, here=0)
    assert len(found.get("PV1-3" + BEFORE, [])) == kept


def test_a_place_of_another_system_is_known_with_its_time() -> None:
    """The place before is that which somebody else told, until the arrival; the present one, since they said so."""
    stored = [place("a", start=THEN)]
    found = after(stored, told(place("b"), place("a", "completed")), ARRIVES)
    assert found["PV1-6"] == [place("a", "completed", THEN, NOW)]
    assert after(stored, told(place("a")), SAYS)["PV1-3"] == stored


def test_a_transfer_whose_answer_was_lost_keeps_what_was_left_before() -> None:
    """Sent again, with what the source owned before the first try: each place that was left stays, and is the source's.

    The room before (c) was known by PV1-6 alone; without the second look it went, and a cancelled transfer found no
    place to go back to.
    """
    left, before = place("a", "completed", THEN, NOW), place("c", "completed", "", THEN)
    stored = [place("b", start=NOW), left, before]
    slices = {"PV1-3": (digest(place("a", start=THEN)),), "PV1-6": (digest(before),)}
    said = told(place("b"), place("a", "completed"))
    again = traced({"location": stored}, said, slices, ARRIVES, AT, tried=True)
    found = {one.slice: list(one.items) for one in again}
    assert found == {"PV1-3": [stored[0]], "PV1-6": [left], "PV1-3" + BEFORE: [before, left]}
    other = traced({"location": stored}, said, {}, ARRIVES, AT)
    assert [one.slice for one in other] == ["PV1-3", "PV1-6"], "what another system says is not this one's"


def test_a_new_visit_is_where_it_is_since_its_event() -> None:
    """The first message tells since when, or nothing of it; without a time nothing is made up."""
    assert begun(told(place("a")), ARRIVES, AT)[0].items == (place("a", start=NOW),)
    assert begun(told(place("a")), SAYS, AT)[0].items == (place("a"),)
    assert begun(told(place("a")), ARRIVES, None)[0].items == (place("a"),)
