"""What operators do with single entries: judged anew, edited, rehearsed, retried, resolved; each in its place."""

import asyncio

import orjson
import pytest

from tests.flow.operator import alike, asked, configured, done, ended, merged, message, refused, sent, started
from tests.flow.proxy import Fault
from tests.flow.rig import Rig, destination

pytestmark = pytest.mark.parametrize("journal", ["sqlite", "postgresql"], indirect=True)


async def test_a_refused_message_is_judged_anew_once_its_channel_is_mended(rig: Rig) -> None:
    """Refused as before until then; taken in, it goes to its old place, and a resend is answered positively."""
    await started(rig)
    raw = message("C1", "RB-1", mode="T", phone="5550101")
    assert [answer.code for answer in await sent(rig, raw)] == ["AR"]
    assert "refused" not in await refused(rig, "messages.replay", entry=1)
    assert "processing-id" in await refused(rig, "messages.replay", entry=1)
    await configured(rig, processing_ids=["P", "T"])
    assert await done(rig, "messages.replay", entry=1) == {"destinations": 1}
    await rig.until(ended("delivered", reasons=["created"]))
    assert (await done(rig, "messages.show", entry=1))["flags"] == ["judged-anew"]
    assert [answer.code for answer in await sent(rig, raw)] == ["AA"]
    assert len(rig.rows()) == 1
    await sent(rig, message("C2", "RB-1"))
    await rig.until(ended("delivered", "delivered"))
    assert "--force" in await refused(rig, "messages.replay", entry=1)


async def test_a_refused_message_that_was_overtaken_needs_force(rig: Rig) -> None:
    """Its patient has newer data: by force it goes over them, and each step is told."""
    await started(rig)
    await sent(rig, message("C1", "RB-1", mode="T", phone="5550101"), message("C2", "RB-1", phone="5550102"))
    await rig.until(ended("rejected", "delivered"))
    await configured(rig, processing_ids=["P", "T"])
    told = await done(rig, "messages.rehearse", entry=1)
    assert [one["overtaken"] for one in told["destinations"]] == [True]
    assert "--force" in await refused(rig, "messages.replay", entry=1)
    await done(rig, "messages.replay", entry=1, force=True)
    await rig.until(ended("delivered", "delivered"))
    (replayed,) = (await done(rig, "messages.show", entry=1))["lineage"]["replays"]
    assert (replayed["act"], replayed["forced"], replayed["before"]["reason"]) == ("judged-anew", True, "processing-id")
    (body,) = (await rig.patients()).values()
    assert body["telecom"][0]["value"].endswith("5550101")


async def test_words_are_found_in_the_set_of_the_channel(rig: Rig) -> None:
    """A name as delivery writes it, of a channel whose MSH-18 is empty."""
    await started(rig)
    await configured(rig, charset="8859/2")
    await sent(rig, message("C1", "RB-1", family="Dvořák").decode().encode("iso8859-2"))
    await rig.until(ended("delivered"))
    (body,) = (await rig.patients()).values()
    assert body["name"][0]["family"] == "Dvořák"
    found = await done(rig, "messages.search", text="dvorak")
    assert [row["entry"] for row in found["entries"]] == [1]


async def test_a_self_merge_stays_refused_and_a_fragment_is_never_judged(rig: Rig) -> None:
    """However often it is replayed; nothing is sent."""
    await started(rig)
    merge = message("C1", "RB-1", event="A40", more="MRG|RB-1^^^RVB^MR\r")
    assert [answer.code for answer in await sent(rig, merge)] == ["AE"]
    assert "self-merge" in await refused(rig, "messages.replay", entry=1)
    host, port = await rig.address()
    _, writer = await asyncio.open_connection(host, port)
    writer.write(b"\x0b" + message("C2", "RB-1")[:120] + b"\x0b" + message("C3", "RB-1") + b"\x1c\r")
    await writer.drain()
    rows = await rig.until(lambda rows: len(rows) == 3 and rows[2].state == "delivered")
    writer.close()
    assert rows[1].reason == "torn"
    assert "send it again" in await refused(rig, "messages.replay", entry=2)
    told = await done(rig, "messages.rehearse", entry=1)
    assert (told["refused"]["reason"], told["destinations"]) == ("self-merge", [])


async def test_an_entry_is_edited_rehearsed_and_delivered(rig: Rig) -> None:
    """A failed message gets what it lacks: seen before, then delivered; the original ends."""
    await started(rig)
    await sent(rig, message("C1", "RB-1", event="A28", born=""), message("C2", "RB-9"))
    await rig.until(ended("held", "delivered"))
    change = {"PID-7": "19840229"}
    told = await done(rig, "messages.rehearse", entry=1, set=change)
    assert told["differences"] == [{"path": "PID-7", "before": None, "after": "19840229"}]
    (place,) = told["destinations"]
    assert (place["verdict"], place["reason"], [call["method"] for call in place["calls"]]) == (
        "delivered", "created", ["POST"]
    )  # fmt: skip
    assert {one["path"] for one in place["differences"]} >= {"birthDate", "name"}
    assert [row.state for row in rig.rows()] == ["held", "delivered"]
    made = await done(rig, "messages.edit", entry=1, set=change, discard_original=True, reason="typo at the desk")
    assert (made["entry"], made["original"], made["next_step"]) == (3, "discarded", "")
    assert made["differences"] == told["differences"]
    await rig.until(ended("discarded", "delivered", "delivered"))
    shown = await done(rig, "messages.show", entry=3)
    assert (shown["parent"], "19840229" in shown["message"]) == (1, True)
    assert shown["lineage"]["edit"]["differences"] == told["differences"]
    assert (await done(rig, "messages.show", entry=1))["lineage"]["children"] == [3]
    assert len(await rig.numbered("RB-1")) == 1


TABLES = ("delivery", "plan", "attempt", "answer", "queue", "known", "owned", "merged", "applied", "replayed", "edit")


async def test_a_rehearsal_leaves_nothing_in_the_journal(rig: Rig) -> None:
    """Of creates, updates, merges and holds: every table is as it was, and the server saw reads only."""
    await started(rig)
    merge = message("C3", "RB-1", event="A40", more="MRG|RB-2^^^RVB^MR\r")
    born = message("C4", "RB-4", event="A28", born="")
    await sent(rig, message("C1", "RB-1", event="A28"), message("C2", "RB-2", event="A28"), merge, born)
    rows = await rig.until(ended("delivered", "delivered", "delivered", "held"))

    def held() -> list[list[object]]:
        return [rig._query(f"SELECT * FROM {table}") for table in TABLES]  # noqa: S608 - constants

    before, calls, patients = held(), len(rig.proxy.calls), await rig.patients()
    for row in rows:
        await done(rig, "messages.rehearse", entry=row.seq)
        await done(rig, "messages.rehearse", entry=row.seq, set={"PID-8": "M", "PID-5.1": "Other"})
    assert held() == before
    assert {call.method for call in rig.proxy.calls[calls:]} <= {"GET"}
    assert await rig.patients() == patients


async def test_an_edit_waits_behind_its_original(rig: Rig) -> None:
    """Held, the original stays before it until somebody releases or discards it; the answer says so."""
    await started(rig)
    for _ in range(2):
        await alike(rig)
    await sent(rig, message("C1", "RB-1", event="A28", family="Alike"))
    await rig.until(ended("held"))
    made = await done(rig, "messages.edit", entry=1, set={"PID-5.1": "Unlike"})
    assert (made["entry"], made["original"]) == (2, "held")
    assert "discard it" in made["next_step"]
    await rig.until(ended("held", "waiting"))
    await done(rig, "messages.discard", entry=1, reason="edited")
    await rig.until(ended("discarded", "delivered"))


async def test_an_edit_is_judged_as_what_comes_in(rig: Rig) -> None:
    """What the door would refuse, what differs in nothing, what cannot be set: refused, and nothing is recorded."""
    await started(rig)
    await sent(rig, message("C1", "RB-1"))
    await rig.until(ended("delivered"))
    assert "no-identity" in await refused(rig, "messages.edit", entry=1, set={"PID-3": ""})
    assert "nothing differs" in await refused(rig, "messages.edit", entry=1, set={"PID-8": "F"})
    assert "no segment" in await refused(rig, "messages.edit", entry=1, set={"PV1-2": "I"})
    assert "whole message" in await refused(rig, "messages.edit", entry=1)
    assert len(rig.rows()) == 1
    text = message("C1", "RB-1", phone="5550177").decode().replace("\r", "\n")
    made = await done(rig, "messages.edit", entry=1, message=text)
    assert made["differences"] == [{"path": "PID-13.7", "before": "5550100", "after": "5550177"}]
    await rig.until(ended("delivered", "delivered"))
    assert "--force" in await refused(rig, "messages.edit", entry=1, set={"PID-8": "M"})


async def test_what_waits_for_its_next_try_is_tried_now(rig: Rig) -> None:
    """A server that refuses for a while makes it wait long; a retry does not."""
    await started(rig)
    await configured(rig, destinations=[_slow(rig)])
    rig.proxy.script = lambda call: Fault(status=503) if call.writes else None
    await sent(rig, message("C1", "RB-1"))
    await rig.until(lambda rows: bool(rig.attempts()) and rows[0].state == "received")
    await asyncio.sleep(0.3)
    rig.proxy.script = lambda _call: None
    assert await done(rig, "messages.retry", entry=1) == {"destinations": 1}
    await rig.until(ended("delivered"))
    assert "neither" in await refused(rig, "messages.retry", entry=1)


def _slow(rig: Rig) -> dict[str, object]:
    content = orjson.loads((rig.folder / "channels" / "riverbend-adt.yaml").read_bytes())
    first: dict[str, object] = content["destinations"][0]
    return first | {"retry": {"first_seconds": 3600, "max_seconds": 3600}, "name": "slow"}


async def test_an_ambiguous_patient_is_resolved_by_choosing(rig: Rig) -> None:
    """The matches are shown, one is chosen and checked, and the entry and what follows go to that record."""
    await started(rig)
    first, second = [await alike(rig) for _ in range(2)]
    await sent(rig, message("C1", "RB-7", event="A28", family="Alike"))
    await rig.until(ended("held", reasons=["multiple-matches"]))
    asked = await done(rig, "messages.matches", entry=1)
    assert {one["patient"] for one in asked["matches"]} == {first, second}
    assert {one["name"] for one in asked["matches"]} == {"Alike, Marisol"}
    other = await alike(rig, family="Else")
    assert "neither carries" in await refused(rig, "messages.resolve", entry=1, patient=other)
    assert "no Patient" in await refused(rig, "messages.resolve", entry=1, patient="0" * 24)
    assert await done(rig, "messages.resolve", entry=1, patient=second) == {"destinations": 1}
    await rig.until(ended("delivered"))
    await sent(rig, message("C2", "RB-7", family="Alike", phone="5550188"))
    await rig.until(ended("delivered", "delivered"))
    assert [body["id"] for body in await rig.numbered("RB-7")] == [second]
    assert "not held" in await refused(rig, "messages.matches", entry=1)


async def test_one_record_that_is_left_is_said_and_a_release_takes_it(rig: Rig) -> None:
    """Of two, nothing is said; once they were merged there, the next step is the release, and it is delivered."""
    await started(rig)
    first, second = [await alike(rig) for _ in range(2)]
    await sent(rig, message("C1", "RB-7", event="A28", family="Alike"))
    await rig.until(ended("held", reasons=["multiple-matches"]))
    assert (await done(rig, "messages.matches", entry=1))["next_step"] == ""
    await merged(rig, first, second)
    told = (await done(rig, "messages.matches", entry=1))["next_step"]
    assert told == "one record is left: release the entry (adt-engine messages release 1)"
    assert [row.state for row in rig.rows()] == ["held"]
    assert await done(rig, "messages.release", entry=1) == {"destinations": 1}
    await rig.until(ended("delivered"))
    assert [body["id"] for body in await rig.numbered("RB-7")] == [second]


async def test_no_release_is_named_where_it_would_be_held_again(rig: Rig) -> None:
    """One record all along, which a person must judge: no release is named until it is gone."""
    await started(rig)
    policy = destination(rig.proxy.url, on_demographic_match="hold")
    await configured(rig, destinations=[policy])
    only = await alike(rig, identifier=[{"system": "https://elsewhere.example", "value": "9"}])
    await sent(rig, message("C1", "RB-7", event="A28", family="Alike"))
    await rig.until(ended("held", reasons=["demographic-match"]))
    told = await done(rig, "messages.matches", entry=1)
    assert ([one["patient"] for one in told["matches"]], told["next_step"]) == ([only], "")
    body = await asked(rig, "GET", f"Patient/{only}")
    await asked(rig, "PUT", f"Patient/{only}", body | {"name": [{"family": "Else", "given": ["Marisol"]}]})
    told = await done(rig, "messages.matches", entry=1)
    assert told["next_step"] == "no record is left: release the entry (adt-engine messages release 1)"
    await done(rig, "messages.release", entry=1)
    await rig.until(ended("delivered", reasons=["created"]))
