"""Events as people read them: their JSON by line, and whom they are about, whatever is in them."""

import json
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.ops.views.events import json_text, patient_of
from engine.ops.views.segments import Named, named

ADA = {
    "resourceType": "Patient",
    "id": "7",
    "name": [{"use": "old", "family": "Before"}, {"family": "Quintero", "given": ["Ada", "M"]}],
    "identifier": [{"system": "urn:a", "value": "1"}, {"use": "old", "system": "urn:a", "value": "0"}],
    "birthDate": "1984-02-29",
}
VISIT = {"resourceType": "Encounter", "id": "e"}
NOBODY = Named(entry=1, name="", numbers=(), born="")


def event(*resources: Any) -> bytes:
    """Return an event of the first resource, with what came along."""
    entries = [{"fullUrl": f"urn:{one.get('id')}", "resource": one} for one in resources]
    return orjson.dumps({"resourceType": "Bundle", "entry": entries})


@pytest.mark.parametrize("raw", [orjson.dumps(ADA), event(ADA), event(VISIT, ADA), event(ADA, VISIT)])
def test_an_event_names_its_patient(raw: bytes) -> None:
    """The one that it is about, or that came with the visit; by the name in use and current numbers."""
    assert patient_of(raw) == ADA
    assert named(1, raw) == Named(entry=1, name="Quintero, Ada", numbers=("1",), born="1984-02-29")


@pytest.mark.parametrize("raw", [b"", b"{", b"{}", event(VISIT), event(VISIT, ADA, ADA | {"id": "8"})])
def test_where_no_patient_is_said_or_two_nobody_is_named(raw: bytes) -> None:
    """It is never guessed."""
    assert (patient_of(raw), named(1, raw)) == (None, NOBODY)


def test_json_has_a_line_for_each_value() -> None:
    """What is no object is none of ours."""
    assert json_text(b'{"a":{"b":[1,"\xc3\xa9"]}}').split("\n")[1:3] == ['  "a": {', '    "b": [']
    assert [json_text(raw) for raw in (b"", b"[1]", b"MSH|^~\\&|", b'{"a": "\xff"}')] == [""] * 4


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from([*ADA, "family", "given", "value", "coding", "type", "use"]), inner, max_size=3
        )
    ),
    max_leaves=12,
)


@given(st.dictionaries(st.sampled_from([key for key in ADA if key not in {"resourceType", "id"}]), VALUES))
def test_whatever_a_resource_holds_it_is_shown(more: dict[str, Any]) -> None:
    """A page fails for nobody's JSON."""
    raw = json.dumps({"resourceType": "Patient", "id": "7"} | more).encode()
    assert json_text(raw)
    assert named(1, raw).entry == 1
