"""The judge itself: an honest history is valid, and each seeded wrong one is caught under its invariant."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import orjson
import pytest

from tests.crash.checker import History, Verdict, judge
from tests.flow.feed import SYSTEM, Author, FeedMessage
from tests.flow.fold import Record, fold, head
from tests.flow.proxy import PATIENT, Call
from tests.flow.rig import Row, Tried
from tests.flow.sender import Sending
from tests.flow.visits import VISITS, visits


@dataclass
class Story:
    """The four logs of a run that is told by hand, to be spoilt by a test."""

    sent: list[Sending] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    attempts: list[Tried] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    patients: dict[str, dict[str, Any]] = field(default_factory=dict)
    faults: int = 1

    def history(self) -> History:
        """Return the logs as the judge takes them."""
        return History(self.sent, self.rows, self.attempts, self.calls, self.patients, self.faults)

    def say(self, message: FeedMessage, code: str = "AA", state: str = "delivered") -> None:
        """Send a message and journal it."""
        now = len(self.sent) * 10
        self.sent.append(Sending(message, 0, now, now + 5, code))
        if all(row.raw != message.raw for row in self.rows):
            seq = len(self.rows) + 1
            self.rows.append(Row(seq, message.control_id, state, "", "[]", message.raw))
            self.attempts.append(Tried(seq, 1, "PUT", "", 200))

    def call(self, method: str, path: str, body: Any, status: int, **headers: str) -> Call:
        """Let the proxy see a call."""
        content = orjson.dumps(body) if body else b""
        call = Call(len(self.calls), method, path, "", {}, content, status, b"", headers, status)
        self.calls.append(call)
        return call

    def write(self, logical_id: str, record: Record) -> None:
        """Let the service store a record as it should be now."""
        known = self.patients.get(logical_id)
        version = int(known["meta"]["versionId"]) + 1 if known else 1
        body = patient_of(record) | {"id": logical_id, "meta": {"versionId": str(version)}}
        self.patients[logical_id] = body
        place = {"Location": f"http://service{PATIENT}/{logical_id}"} if version == 1 else {}
        method, path = ("POST", PATIENT) if version == 1 else ("PUT", f"{PATIENT}/{logical_id}")
        self.call(method, path, body, 201 if version == 1 else 200, ETag=f'W/"{version}"', **place)

    def merge(self, source: str, survivor: str) -> None:
        """Let the service merge two records."""
        sides = (("source-patient", source), ("target-patient", survivor))
        parameter = [{"name": name, "valueReference": {"reference": f"Patient/{one}"}} for name, one in sides]
        self.call("POST", f"{PATIENT}/$merge", {"parameter": parameter}, 200)
        self.patients[source] |= {"active": False, "link": [link(survivor, "replaced-by")]}
        self.patients[survivor] |= {"link": [link(source, "replaces")]}


def link(other: str, kind: str) -> dict[str, Any]:
    """Return a Patient.link."""
    return {"other": {"reference": f"Patient/{other}"}, "type": kind}


def patient_of(record: Record) -> dict[str, Any]:
    """Return a record as a FHIR Patient."""
    facts = record.facts
    return {
        "resourceType": "Patient",
        "active": facts["active"] == "true",
        "identifier": [
            {"system": SYSTEM, "value": record.number},
            *({"system": SYSTEM, "value": number, "use": "old"} for number in sorted(record.old_numbers)),
        ],
        "name": [{"family": facts["family"], "given": facts["given"].split(" ")}],
        "birthDate": facts["birthDate"],
        "gender": facts["gender"],
        "telecom": [{"system": "phone", "value": f"+1 503 {facts['phone']}"}],
        "address": [{"line": [facts["street"]], "city": facts["city"]}],
    }


@pytest.fixture
def story() -> Story:
    """Two registrations of one person, an update, a merge, and a late use of the old number."""
    author, told = Author(7), Story()
    person = author.person()
    first, second = person.number, author.number()
    messages = [
        author.event("A28", 0, person, first),
        author.event("A28", 0, person, second),
        author.event("A08", 0, person, second),
        author.merge(0, person, first, second),
        author.event("A08", 0, person, first),
    ]
    for message in messages:
        told.say(message)
        records = fold(row.raw for row in told.rows)
        if b"A40" in message.raw:
            told.merge("p1", "p2")
            told.write("p2", records[second])
            continue
        record = head(records, first if message.raw.find(first.encode()) > 0 else second)
        assert record is not None
        told.write("p1" if record.number == first else "p2", record)
        for logical_id, patient in told.patients.items():
            patient.setdefault("link", [link("p1", "replaces")] if len(told.rows) == 5 and logical_id == "p2" else [])
    return told


def test_an_honest_history_is_valid(story: Story) -> None:
    """What went right is found right, and counted."""
    judgement = judge(story.history())
    assert not judgement.violations, judgement.report()
    assert judgement.verdict is Verdict.VALID
    assert judgement.counts["merges"] == 1
    assert judgement.counts["patients"] == 2


def test_an_empty_history_proves_nothing() -> None:
    """A run without answers is no pass."""
    assert judge(History([], [], [], [], {})).verdict is Verdict.UNKNOWN


def test_a_history_without_a_fault_proves_nothing(story: Story) -> None:
    """A run in which no fault fired is no pass."""
    story.faults = 0
    assert judge(story.history()).verdict is Verdict.UNKNOWN


def _lose(story: Story) -> None:
    del story.rows[2]


def _alter(story: Story) -> None:
    story.rows[2] = replace(story.rows[2], raw=story.rows[2].raw + b"ZZZ|1\r")


def _leave(story: Story) -> None:
    story.rows[2] = replace(story.rows[2], state="waiting")


def _hold(story: Story) -> None:
    story.rows[2] = replace(story.rows[2], state="held", reason="engine-error")


def _refuse(story: Story) -> None:
    story.sent[2].code = "AE"


def _make_up(story: Story) -> None:
    story.patients["p2"]["telecom"][0]["value"] = "+1 503 7777777"
    story.call("PUT", f"{PATIENT}/p2", story.patients["p2"], 200, ETag='W/"9"')


def _journal_twice(story: Story) -> None:
    story.rows.append(replace(story.rows[2], seq=9))


def _create_twice(story: Story) -> None:
    story.patients["p3"] = story.patients["p2"] | {"id": "p3"}
    body = story.calls[1].json
    story.call("POST", PATIENT, body, 201, ETag='W/"1"', Location=f"http://service{PATIENT}/p3")


def _merge_twice(story: Story) -> None:
    story.calls.append(replace(story.calls[3], order=9))


def _swap_versions(story: Story) -> None:
    first, second = story.calls[1], story.calls[2]
    story.calls[2] = replace(second, answer_headers=dict(second.answer_headers) | {"ETag": 'W/"1"'})
    story.calls[1] = replace(first, answer_headers=dict(first.answer_headers) | {"ETag": 'W/"2"'})


def _swap_rows(story: Story) -> None:
    story.rows[1], story.rows[2] = replace(story.rows[2], seq=2), replace(story.rows[1], seq=3)


def _unmerge(story: Story) -> None:
    story.patients["p1"] |= {"active": True, "link": []}


def _merge_the_wrong_way(story: Story) -> None:
    story.patients["p1"] |= {"active": True, "link": [link("p2", "replaces")]}
    story.patients["p2"] |= {"active": False, "link": [link("p1", "replaced-by")]}


def _write_to_the_merged(story: Story) -> None:
    story.call("PUT", f"{PATIENT}/p1", story.calls[0].json, 200, ETag='W/"9"')


def _forget_an_update(story: Story) -> None:
    story.patients["p2"]["telecom"] = story.calls[2].json["telecom"]


def _keep_the_old_number(story: Story) -> None:
    story.patients["p2"]["identifier"].append(story.patients["p1"]["identifier"][0])


def _lose_the_old_number(story: Story) -> None:
    story.patients["p2"]["identifier"] = [one for one in story.patients["p2"]["identifier"] if one.get("use") != "old"]


def _repeat_unread(story: Story) -> None:
    first = story.calls[0]
    story.calls.insert(0, replace(first, order=-1, status=0, told=0))


def _leave_an_intent_open(story: Story) -> None:
    story.attempts[-1] = replace(story.attempts[-1], status=None)


def _superseded(story: Story, by: int) -> None:
    notes = orjson.dumps([f"superseded-by {by}"]).decode()
    story.rows[2] = replace(story.rows[2], state="filtered", reason="superseded", notes=notes)


def _supersede_past_a_merge(story: Story) -> None:
    _superseded(story, 5)


def _supersede_by_another_event(story: Story) -> None:
    _superseded(story, 4)


def _supersede_by_nothing(story: Story) -> None:
    _superseded(story, 9)


def _apply_what_was_refused(story: Story) -> None:
    story.sent[2].code = "AE"
    story.sent[2].message = replace(story.sent[2].message, expected="AE")


@pytest.mark.parametrize(
    ("spoil", "invariant"),
    [
        pytest.param(_lose, "I1", id="an-accepted-message-is-lost"),
        pytest.param(_alter, "I1", id="its-bytes-are-others"),
        pytest.param(_leave, "I2", id="work-is-left-over"),
        pytest.param(_hold, "I2", id="an-entry-is-held-for-no-reason"),
        pytest.param(_refuse, "I2", id="a-good-message-is-refused"),
        pytest.param(_make_up, "I3", id="an-effect-of-no-message"),
        pytest.param(_journal_twice, "I4", id="a-resend-makes-a-second-entry"),
        pytest.param(_create_twice, "I4", id="a-patient-is-created-twice"),
        pytest.param(_merge_twice, "I4", id="a-merge-is-done-twice"),
        pytest.param(_swap_versions, "I5", id="an-older-message-is-written-last"),
        pytest.param(_swap_rows, "I5", id="the-journal-turns-a-line-round"),
        pytest.param(_unmerge, "I6", id="a-merge-is-missing"),
        pytest.param(_merge_the_wrong_way, "I6", id="a-merge-is-the-wrong-way-round"),
        pytest.param(_write_to_the_merged, "I6", id="a-merged-record-is-written-to"),
        pytest.param(_forget_an_update, "I7", id="an-update-is-missing"),
        pytest.param(_keep_the_old_number, "I7", id="the-old-number-stays-current"),
        pytest.param(_lose_the_old_number, "I7", id="the-old-number-is-lost"),
        pytest.param(_apply_what_was_refused, "I8", id="a-refused-message-takes-effect"),
        pytest.param(_repeat_unread, "I9", id="a-create-is-repeated-without-a-read"),
        pytest.param(_leave_an_intent_open, "I9", id="an-intent-has-no-outcome"),
        pytest.param(_supersede_past_a_merge, "I14", id="an-update-is-superseded-past-a-merge"),
        pytest.param(_supersede_by_another_event, "I14", id="an-update-is-superseded-by-a-merge"),
        pytest.param(_supersede_by_nothing, "I14", id="an-update-is-superseded-by-nothing"),
    ],
)
def test_a_seeded_wrong_history_is_caught(story: Story, spoil: Callable[[Story], None], invariant: str) -> None:
    """Each way to go wrong is found under its own invariant."""
    spoil(story)
    judgement = judge(story.history())
    assert judgement.verdict is Verdict.INVALID
    assert any(violation.startswith(invariant) for violation in judgement.violations), judgement.violations


def _encounters(story: Story) -> list[dict[str, Any]]:
    """Return the visits of a story as the service would have them after its merge."""
    return [
        {
            "identifier": [{"system": VISITS, "value": number}],
            "status": visit.status,
            "class": {"code": visit.kind},
            "location": [{"location": {"display": visit.place}}],
            "subject": {"reference": "Patient/p2"},
        }
        for number, visit in visits(row.raw for row in story.rows).items()
    ]


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(lambda found: found[0].update(status="planned"), id="another-status"),
        pytest.param(lambda found: found[0].update(subject={"reference": "Patient/p1"}), id="of-the-merged-record"),
        pytest.param(lambda found: found.append(found[0]), id="kept-twice"),
        pytest.param(lambda found: found.pop(), id="lost"),
    ],
)
def test_a_wrong_visit_is_found(story: Story, spoil: Callable[[list[dict[str, Any]]], Any]) -> None:
    """Visits that are as the messages say are right; each that is not is caught under I7."""
    found = _encounters(story)
    assert len(found) > 1
    assert not judge(replace(story.history(), visits=found)).violations
    spoil(found)
    violations = judge(replace(story.history(), visits=found)).violations
    assert [line[:8] for line in violations] == ["I7 visit"]
