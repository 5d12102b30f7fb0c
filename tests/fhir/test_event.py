"""Events of a FHIR server: cut by the very text that came, and read."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import EventError
from engine.fhir.event import deletion, read_event, relative, split

PATIENT = {"resourceType": "Patient", "id": "7", "meta": {"versionId": "3", "lastUpdated": "2026-03-01T10:00:00Z"}}
WARD = {"resourceType": "Location", "id": "w"}
VISIT = {
    "resourceType": "Encounter",
    "id": "e",
    "subject": {"reference": "urn:uuid:p"},
    "location": [{"location": {"reference": "Location/w"}}],
}


def bundle(*entries: Any, kind: str = "collection") -> bytes:
    """Return a Bundle with spaces, so that its text is not what would be written anew."""
    return json.dumps({"resourceType": "Bundle", "type": kind, "entry": list(entries)}, indent=1).encode()


def test_a_resource_is_its_own_piece() -> None:
    """Byte for byte, with its version and moment."""
    raw = json.dumps(PATIENT, indent=3).encode()
    assert split(raw) == (raw,)
    event = read_event(raw)
    assert (event.name, event.deleted, event.at) == ("Patient/7/3", False, datetime(2026, 3, 1, 10, tzinfo=UTC))


def test_a_history_is_oldest_first_with_deletions() -> None:
    """Each entry by its own text; the version of a deletion is in its answer."""
    gone = {
        "fullUrl": "https://fhir.example/Patient/7",
        "request": {"method": "DELETE", "url": "Patient/7"},
        "response": {"status": "204", "etag": 'W/"4"', "lastModified": "2026-03-02T10:00:00+01:00"},
    }
    raw = bundle(gone, {"resource": PATIENT, "request": {"method": "PUT", "url": "Patient/7"}}, kind="history")
    pieces = split(raw)
    assert [read_event(one).name for one in pieces] == ["Patient/7/3", "Patient/7/4"]
    assert [read_event(one).deleted for one in pieces] == [False, True]
    assert json.dumps(PATIENT, indent=1)[2:20].encode() in raw
    assert all(one[len(b'{"resourceType":"Bundle","type":"collection","entry":[') : -2] in raw for one in pieces)


def test_a_message_is_of_its_focus_and_takes_along_what_that_refers_to() -> None:
    """The patient is in the visit's piece, and no event of its own."""
    header = {"resourceType": "MessageHeader", "focus": [{"reference": "Encounter/e"}]}
    raw = bundle(
        {"resource": header},
        {"resource": VISIT},
        {"fullUrl": "urn:uuid:p", "resource": PATIENT},
        {"resource": WARD},
        {"resource": {"resourceType": "Location", "id": "other"}},
        kind="message",
    )
    (piece,) = split(raw)
    event = read_event(piece)
    assert (event.name, event.type_) == ("Encounter/e", "Encounter")
    assert dict(event.related) == {"urn:uuid:p": PATIENT, "Patient/7": PATIENT, "Location/w": WARD}


def test_a_deletion_of_which_nothing_is_said() -> None:
    """The resource alone."""
    event = read_event(deletion("Patient", "7"))
    assert (event.name, event.deleted, event.version, event.at) == ("Patient/7", True, "", None)


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"", "not-json"),
        (b"MSH|^~\\&|", "not-json"),
        (b"[]", "no-resource"),
        (b"{}", "no-resource"),
        (b'{"resourceType": "Patient"}', "no-id"),
        (b'{"resourceType": "Patient", "id": "../metadata"}', "no-id"),
        (b'{"resourceType": "Bundle", "entry": []}', "no-event"),
    ],
)
def test_what_is_no_event(raw: bytes, reason: str) -> None:
    """A code, and nothing of what came."""
    with pytest.raises(EventError, match=f"^{reason}$"):
        [read_event(one) for one in split(raw) or (raw,)]


@pytest.mark.parametrize(
    ("reference", "found"),
    [
        ("Patient/1", "Patient/1"),
        ("https://fhir.example/R4/Patient/1/_history/2", "Patient/1"),
        ("urn:uuid:0c3151bd-1cbf-4d64-b04d-cd9187a4c6e0", ""),
        ("#contained", ""),
        ("Patient?identifier=1", ""),
    ],
)
def test_relative(reference: str, found: str) -> None:
    """Type and id, where there are any."""
    assert relative(reference) == found


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.sampled_from(['"', "\\", "[", "]", "{", "é"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)


@given(st.lists(VALUES, max_size=4), st.sampled_from([None, 1]), st.booleans(), VALUES)
def test_every_entry_is_found_by_its_text(others: list[Any], indent: int | None, plain: bool, more: Any) -> None:
    """Whatever else is in the Bundle: each Patient comes out as it went in, in order."""
    entries: list[Any] = []
    for number, other in enumerate(others):
        patient = {"resourceType": "Patient", "id": f"p{number}", "extension": other}
        entries += [{"x": other, "resource": patient}, other]
    whole = {"more": more, "resourceType": "Bundle", "entry": entries, "zz": more}
    pieces = split(json.dumps(whole, indent=indent, ensure_ascii=plain).encode())
    assert [read_event(one).resource for one in pieces] == [one["resource"] for one in entries[::2]]
