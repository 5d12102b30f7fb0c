"""The verdict on a patient: one sentence made of facts, what a person has to act on first."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from engine.ops.views.verdict import HeldFact, LastFact, PatientFacts, PlaceFact, verdict

NOW = datetime(2026, 3, 2, 6, 30, tzinfo=UTC)
NIGHT = datetime(2026, 3, 2, 2, 13, tzinfo=UTC)
EVENING = datetime(2026, 3, 1, 22, 27, tzinfo=UTC)
LAST = LastFact(40, "delivered", "", NIGHT, "AA")
CDIS = PlaceFact("cdis", delivered=14, last_at=NIGHT)
WELL = PatientFacts(14, NOW, LAST, places=(CDIS,), zone=UTC)
VISIT = HeldFact(2176, "cdis", "visit-of-another-patient", NIGHT, 3, visit="V12")
REQUIRED = HeldFact(6, "cdis", "missing-required", NIGHT, particulars=("birthDate",))


def waiting(**given: object) -> PatientFacts:
    """Return the facts of three messages on their way to a destination."""
    place = PlaceFact("cdis", delivered=11, under_way=3, oldest_at=NIGHT, last_at=EVENING)
    return replace(WELL, places=(replace(place, **given),))  # type: ignore[arg-type]  # fields of it


CASES = [
    pytest.param(
        replace(WELL, held=(VISIT,)), "held",
        "Held behind 2176 since 02:13: visit V12: the visit number belongs to another patient's visit; 3 messages wait",
        id="held, and others wait",
    ),
    pytest.param(
        replace(WELL, held=(REQUIRED,)), "held",
        "Held: message 6 since 02:13: the destination requires name, gender or birth date, which the message lacks "
        "(birthDate)",
        id="held alone, with what is missing",
    ),
    pytest.param(
        replace(WELL, held=(replace(REQUIRED, since=EVENING, behind=1), VISIT), places=(CDIS, PlaceFact("lab"))),
        "held",
        "Held at cdis behind 6 since 2026-03-01 22:27: the destination requires name, gender or birth date, which the "
        "message lacks (birthDate); 1 message waits; 2 messages are held in all",
        id="two held at one of two destinations, since yesterday",
    ),
    pytest.param(
        waiting(state="unreachable", reason="connection-refused"), "waiting",
        "Waiting: cdis does not answer: connection refused, 3 messages since 02:13", id="no answer",
    ),
    pytest.param(
        waiting(state="open", reason="http-503"), "waiting",
        "Waiting: cdis fails: HTTP 503, 3 messages since 02:13", id="fails",
    ),
    pytest.param(
        waiting(state="paused", reason="by-operator"), "waiting",
        "Waiting: cdis is paused: somebody paused it, 3 messages since 02:13", id="paused",
    ),
    pytest.param(
        waiting(state="failing", reason="token-refused"), "waiting",
        "Waiting: cdis cannot be used: its token server refuses our credentials, 3 messages since 02:13",
        id="cannot be used",
    ),
    pytest.param(
        waiting(state="removed"), "waiting",
        "Waiting: cdis is in no file any more, 3 messages since 02:13", id="a destination that was taken away",
    ),
    pytest.param(
        waiting(under_way=1, retry="timeout"), "waiting",
        "Waiting: cdis does not answer: no answer in time, 1 message since 02:13", id="one that is tried again",
    ),
    pytest.param(waiting(), "under-way", "Under way: 3 messages on the way to cdis since 02:13", id="on the way"),
    pytest.param(
        replace(WELL, last=LastFact(41, "rejected", "no-identity", NIGHT, "AE")), "refused",
        "Refused: the last message (41) was answered AE: no identifier of the patient in PID-3, or in MRG-1 of a merge",
        id="refused at the door",
    ),
    pytest.param(
        replace(WELL, last=LastFact(41, "rejected", "self-link", NIGHT, "AA", "cdis")), "refused",
        "Refused: the last message (41) was rejected for cdis: a link of a patient to itself", id="rejected there",
    ),
    pytest.param(
        replace(waiting(), last=LastFact(41, "rejected", "no-identity", NIGHT, "AE")), "refused",
        "Refused: the last message (41) was answered AE: no identifier of the patient in PID-3, or in MRG-1 of a merge",
        id="refused while others are on the way",
    ),
    pytest.param(
        replace(WELL, last=LastFact(41, "discarded", "somebody's words", NIGHT, "AA")), "undelivered",
        "Not delivered: the last message (41) was discarded; 14 before it at cdis", id="discarded, without the words",
    ),
    pytest.param(
        replace(WELL, last=LastFact(41, "filtered", "withdrawn-event", NIGHT, "AA"), places=()), "undelivered",
        "Not delivered: the last message (41) was filtered: A56 to A59, which have no meaning in any version of the "
        "standard",
        id="filtered",
    ),
    pytest.param(
        replace(WELL, places=()), "undelivered",
        "Not delivered: 14 messages, the last at 02:13, for no destination", id="no destination",
    ),
    pytest.param(WELL, "delivered", "Delivered: all 14 messages are at cdis, the last at 02:13", id="delivered"),
    pytest.param(
        replace(WELL, messages=1, places=(PlaceFact("cdis", delivered=1, last_at=NIGHT),)), "delivered",
        "Delivered: its one message is at cdis, at 02:13", id="one message",
    ),
    pytest.param(
        replace(WELL, places=(CDIS, replace(CDIS, destination="lab"))), "delivered",
        "Delivered: all 14 messages are at cdis and lab, the last at 02:13", id="two destinations",
    ),
    pytest.param(
        replace(WELL, places=(CDIS, PlaceFact("lab", delivered=2))), "delivered",
        "Delivered: all 14 messages are at cdis; 2 of 14 messages are at lab, the last at 02:13",
        id="one of them in part",
    ),
    pytest.param(
        replace(WELL, messages=17, at_door=1, places=(replace(CDIS, discarded=1, filtered=1),)), "delivered",
        "Delivered: 14 of 17 messages are at cdis, the last at 02:13; 1 refused, 1 discarded, 1 filtered",
        id="the rest",
    ),
    pytest.param(
        replace(WELL, messages=2000, more=True, places=(replace(CDIS, delivered=2000),)), "delivered",
        "Delivered: the newest 2,000 messages are at cdis, the last at 02:13", id="more than are counted",
    ),
    pytest.param(
        replace(WELL, places=(replace(CDIS, has_record=False),)), "missing",
        "Delivered: all 14 messages are at cdis, the last at 02:13; but cdis has no record of the patient now",
        id="delivered, and no record is there",
    ),
    pytest.param(
        PatientFacts(0, NOW), "nothing", "Nothing: no message of this patient is in the journal any more", id="nothing",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("facts", "kind", "sentence"), CASES)
def test_what_happened_is_one_sentence(facts: PatientFacts, kind: str, sentence: str) -> None:
    """The kind and the sentence, of each case."""
    found = verdict(facts)
    assert (found.kind, found.sentence) == (kind, sentence)


def test_a_hold_comes_before_all_else() -> None:
    """A destination that is down, and a refusal, are said once nothing is held."""
    down = waiting(state="unreachable", reason="timeout")
    refused = replace(down, last=LastFact(41, "rejected", "no-identity", NIGHT, "AE"))
    assert verdict(replace(refused, held=(VISIT,))).kind == "held"
    assert verdict(refused).kind == "waiting"


def test_a_record_that_could_not_be_read_is_not_missing() -> None:
    """Only a destination that answered says that it has none."""
    assert verdict(replace(WELL, places=(replace(CDIS, has_record=None),))).kind == "delivered"
    assert verdict(replace(WELL, now=NOW + timedelta(days=1))).sentence.endswith("the last at 2026-03-02 02:13")
