"""What is recorded of an event of a FHIR server: its name, its lanes, and why it is filtered or refused."""

from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any, Final

import orjson
import pytest

from engine.config.channel import Channel
from engine.fhir.event import deletion
from engine.journal.entry import SHADOW, NewEntry, State
from engine.pipeline.feed import Feed
from engine.pipeline.inbound import event_entries
from engine.pipeline.inbound.event_entries import event_entry, filtered_event, is_event
from engine.receive.reply import Peer

BASE: Final = "https://fhir.example/R4"
NOW: Final = datetime(2026, 3, 1, 10, tzinfo=UTC)
META: Final = {"versionId": "3", "lastUpdated": "2026-03-01T09:00:00Z"}
PATIENT: Final = {"resourceType": "Patient", "id": "7", "meta": META}
VISIT: Final = {"resourceType": "Encounter", "id": "e", "meta": META}
OTHER: Final = {"resourceType": "Patient", "id": "8"}


def feed(**keys: Any) -> Feed:
    """Return the feed of a channel that takes events; keywords are keys of `listen.fhir`, or of the channel."""
    listen = {"path": "back", "server": {"name": "record", "base_url": f"{BASE}/", "fhir": "R4"}}
    listen |= {key: keys.pop(key) for key in ("types",) if key in keys}
    relays = [
        {"name": "ehr", "type": "mllp", "host": "127.0.0.1", "port": 2575, "order": "patient"},
        {"name": "lab", "type": "mllp", "host": "127.0.0.1", "port": 2576, "order": "feed"},
    ]
    given = {"channel": "back", "listen": {"fhir": listen}, "destinations": relays} | keys
    channel = Channel.model_validate_json(orjson.dumps(given))
    assert is_event(channel)
    return Feed(channel, None, ("ehr", "lab"), frozenset(), {})  # type: ignore[arg-type]  # no mapping is asked


def entry(value: Any, **keys: Any) -> NewEntry:
    """Return the entry of an event."""
    raw = value if isinstance(value, bytes) else orjson.dumps(value)
    found = event_entry(raw, feed(**keys), Peer("192.0.2.1", 4711), NOW)
    assert found.raw == raw
    return found


def piece(resource: Any, *others: Any, full_url: str = "urn:uuid:p") -> dict[str, Any]:
    """Return an event with what came along."""
    entries = [{"resource": resource}, *({"fullUrl": full_url, "resource": one} for one in others)]
    return {"resourceType": "Bundle", "type": "collection", "entry": entries}


def lanes(*names: str) -> tuple[tuple[str, ...], ...]:
    """Return lane keys of resources of the server, a group each."""
    return tuple((f"{BASE}|{name}",) for name in names)


def test_a_version_of_a_patient() -> None:
    """Named by its version, at the server's time, for every relay."""
    found = entry(PATIENT)
    assert (found.channel, found.peer, found.source) == ("back", "192.0.2.1", "record")
    assert (found.control_id, found.event, found.version) == ("Patient/7/3", "Patient", "R4")
    assert (found.event_at, found.received_at) == (datetime(2026, 3, 1, 9, tzinfo=UTC), NOW)
    assert (found.state, found.reason, found.flags, found.patients) == (State.RECEIVED, "", (), lanes("Patient/7"))
    assert (found.destinations, found.in_feed_order) == (("ehr", "lab"), {"lab"})


@pytest.mark.parametrize("raw", [orjson.dumps(OTHER), deletion("Patient", "8")])
def test_without_a_version_the_bytes_tell_events_apart(raw: bytes) -> None:
    """Equal bytes that say no moment are one event only if they come at once: who is deleted twice was there again."""
    found, other = entry(raw), entry(raw.replace(b'{"', b'{ "', 1))
    assert found.control_id == f"Patient/8/{sha256(raw + NOW.isoformat().encode()).hexdigest()[:16]}"
    assert other.control_id not in {found.control_id, "Patient/8"}
    assert found.patients == other.patients == lanes("Patient/8")
    later = event_entry(raw, feed(), Peer("192.0.2.1", 4711), NOW + timedelta(seconds=1))
    assert later.control_id != found.control_id


def test_with_a_moment_and_no_version_equal_bytes_are_a_repeat() -> None:
    """Whenever they come."""
    raw = orjson.dumps(OTHER | {"meta": {"lastUpdated": META["lastUpdated"]}})
    entries = [event_entry(raw, feed(), Peer("192.0.2.1", 4711), NOW + timedelta(days=days)) for days in range(2)]
    assert [one.control_id for one in entries] == [f"Patient/8/{sha256(raw).hexdigest()[:16]}"] * 2


@pytest.mark.parametrize(
    ("link", "survivors"),
    [
        ([{"type": "replaced-by", "other": {"reference": "Patient/1"}}], ["Patient/1"]),
        ([{"type": "replaced-by", "other": {"reference": f"{BASE}/Patient/1/_history/2"}}], ["Patient/1"]),
        ([{"type": "replaced-by", "other": {"reference": "https://other.example/R4/Patient/1"}}], []),
        ([{"type": "replaced-by", "other": {"reference": "Patient/7"}}], []),
        ([{"type": "replaced-by", "other": {"reference": "RelatedPerson/1"}}], []),
        ([{"type": "replaces", "other": {"reference": "Patient/1"}}], []),
        ([{"type": "replaced-by", "other": "Patient/1"}, 1, {"type": "replaced-by"}], []),
        ("Patient/1", []),
    ],
)
def test_a_patient_who_is_replaced_shares_the_lane_of_the_survivor(link: Any, survivors: list[str]) -> None:
    """From then on both wait for each other; a record of another server is nobody's here."""
    found = entry(PATIENT | {"link": link})
    assert (found.patients, found.unite) == (lanes("Patient/7", *survivors), bool(survivors))


@pytest.mark.parametrize(
    ("event", "names"),
    [
        (VISIT | {"subject": {"reference": "Patient/7"}}, ["Patient/7", "Encounter/e"]),
        (VISIT | {"subject": {"reference": f"{BASE}/Patient/7"}}, ["Patient/7", "Encounter/e"]),
        (VISIT | {"subject": {"reference": "https://other.example/R4/Patient/7"}}, ["Encounter/e"]),
        (VISIT | {"subject": {"reference": "Group/7"}}, ["Encounter/e"]),
        (VISIT | {"subject": "Patient/7"}, ["Encounter/e"]),
        (VISIT, ["Encounter/e"]),
        (piece(VISIT | {"subject": {"reference": "urn:uuid:p"}}, PATIENT), ["Patient/7", "Encounter/e"]),
        (piece(VISIT | {"subject": {"reference": "urn:uuid:q"}}, PATIENT), ["Encounter/e"]),
        (piece(VISIT, PATIENT, {"resourceType": "Location", "id": "w"}), ["Patient/7", "Encounter/e"]),
        (piece(VISIT, PATIENT, OTHER), ["Encounter/e"]),
        (deletion("Encounter", "e"), ["Encounter/e"]),
    ],
)
def test_a_visit_is_in_the_lanes_of_its_patient_and_its_own(event: Any, names: list[str]) -> None:
    """So that its deletion, which says no patient, waits for what came before; the lanes stay two."""
    found = entry(event)
    assert (found.patients, found.unite) == (lanes(*names), False)


def test_a_type_that_is_not_taken_is_filtered() -> None:
    """It is kept, and goes nowhere."""
    for found in (
        entry(PATIENT, types=["Encounter"]),
        entry({"resourceType": "Observation", "id": "o"}, mode="shadow"),
    ):
        assert (found.state, found.reason, found.destinations) == (State.FILTERED, "event-type-not-taken", ())
        assert found.flags == ()
    assert entry(PATIENT, types=["Encounter"]).patients == lanes("Patient/7")
    whole = filtered_event(b"{}", feed(), Peer("192.0.2.1", 1), NOW)
    assert (whole.state, whole.reason, whole.source) == (State.FILTERED, "event-type-not-taken", "record")


def test_in_shadow_it_is_flagged() -> None:
    """As a message is."""
    assert entry(PATIENT, mode="shadow").flags == (SHADOW,)


@pytest.mark.parametrize(("raw", "reason"), [(b"{", "not-json"), (b"{}", "no-resource"), (b"[1]", "no-resource")])
def test_what_is_no_event_is_refused(raw: bytes, reason: str) -> None:
    """The bytes and the code are kept, and no control ID, by which it would be a repeat."""
    found = entry(raw)
    assert (found.state, found.reason, found.source, found.control_id) == (State.REJECTED, reason, "record", "")


def test_a_fault_of_ours_refuses_the_event_and_keeps_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever goes wrong in reading it."""
    monkeypatch.setattr(event_entries, "read_event", lambda _raw: 1 / 0)
    assert entry(PATIENT).reason == "engine-error"
