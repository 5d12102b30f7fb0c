"""A server that goes back to a backup: the ids and versions that it gave are others' then, and nobody's record is hit.

The server is real and over HTTP; it gives ids in sequence, as most do, or at random. What it kept is put back under it
without a word (the engine was idle), or it is stopped and started again.
"""

import asyncio
import random

import orjson
import pytest

from engine.deliver.verdict import CONFIRMED, MERGED_AWAY, KnownIdentifier, VerdictKind
from engine.deliver.wire.server import HANGING_SECONDS, QUIET_SECONDS, Continuity
from engine.fhir.plan import Identity, Upsert
from tests.deliver.conftest import MRN, Site
from tests.deliver.fake_chart import FakeChart
from tests.deliver.fake_fhir import Step
from tests.deliver.resources.test_resource_upsert import plan

WALLY = {
    "name": [{"family": "Wallace", "given": ["Wally"]}],
    "gender": "male",
    "birthDate": "1950-01-01",
}
MANY = 12


@pytest.fixture(params=["sequence", "random"])
async def restored(request):
    """A server that gives its ids in sequence, or at random."""
    fake = await FakeChart().start()
    fake.software = {"name": "restored"}
    if request.param == "random":
        fake.random_ids = random.Random(7)
    yield fake
    await fake.stop()


@pytest.fixture
async def feed(restored):
    """A destination for it, of which it is known that it honours If-Match."""
    site = Site(restored.base).open(if_none_exist="identifier", bundle="off")
    await site.destination.check()
    site.destination._server.prove(if_match=True)
    yield site
    await site.close()


async def gone_back(server, feed, how, backup):
    """Let a server go back to a backup: while the feed is idle, or by a restart that the engine can see."""
    if how == "idle":
        feed.ticks += QUIET_SECONDS * 2
        server.restore(backup)
    else:
        await server.restart(backup)


def other(server, identifier, number="W"):
    """Let another system make a record for Wally; returns its id."""
    before = set(server.patients)
    server._create({"resourceType": "Patient", "active": True, "identifier": [identifier(number)], **WALLY}, None)
    (made,) = set(server.patients) - before
    return made


def untouched(server, logical_id, identifier):
    """Say whether Wally's record is as Wally's system wrote it."""
    body = server.patients[logical_id]
    said = {name: body.get(name) for name in (*WALLY, "identifier", "telecom")}
    return said == {**WALLY, "identifier": [identifier("W")], "telecom": None} and body["meta"]["versionId"] == "1"


def of(server, number):
    """Return the one record with a number."""
    (found,) = [one for one in server.patients.values() if number in {i["value"] for i in one["identifier"]}]
    return found


@pytest.mark.parametrize("how", ["idle", "restarted"])
async def test_another_persons_record_is_never_written_upon(feed, restored, patient, identifier, how):
    """Kim's id and version are Wally's after the server went back: Kim gets a record anew, and Wally's stays."""
    backup = restored.snapshot()
    await feed.send(Upsert(patient("K")))
    await gone_back(restored, feed, how, backup)
    wally = other(restored, identifier)
    verdict = await feed.send(Upsert(patient("K", telecom=[{"value": "7"}])))
    assert (verdict.kind, verdict.reason) == (VerdictKind.DELIVERED, "created")
    assert untouched(restored, wally, identifier)
    assert of(restored, "K")["telecom"] == [{"value": "7"}]


async def test_a_node_that_takes_over_believes_no_id(feed, restored, patient, identifier):
    """What another node wrote down of ids is read first, and counts only where the record bears the number."""
    backup = restored.snapshot()
    await feed.send(Upsert(patient("K")))
    restored.restore(backup)
    wally = other(restored, identifier)
    await feed.again()
    assert (await feed.send(Upsert(patient("K", telecom=[{"value": "7"}])))).reason == "created"
    assert untouched(restored, wally, identifier)


async def test_under_load_everybody_keeps_their_own(feed, restored, patient, identifier):
    """The server goes back amidst a burst, and another system is quick: no record has two people's content."""
    await asyncio.gather(*(feed.send(Upsert(patient(f"a{number}"))) for number in range(MANY)))
    backup = restored.snapshot()
    await asyncio.gather(*(feed.send(Upsert(patient(f"b{number}", given=f"B{number}"))) for number in range(MANY)))

    async def busy(number):
        for turn in range(8):
            told = Upsert(patient(f"b{number}", given=f"B{number}", telecom=[{"value": f"b{number} {turn}"}]))
            await feed.send(told)

    async def falls_back():
        await asyncio.sleep(0)
        await restored.restart(backup)
        for number in range(MANY):
            other(restored, identifier, f"w{number}")

    await asyncio.gather(falls_back(), *(busy(number) for number in range(MANY)))
    for body in restored.patients.values():
        (number,) = [one["value"] for one in body["identifier"]]
        phone = (body.get("telecom") or [{"value": f"{number} "}])[0]["value"]
        assert phone.startswith(f"{number} "), (number, phone)
        if number.startswith("w"):
            assert {name: body.get(name) for name in WALLY} == WALLY


@pytest.mark.parametrize("how", ["idle", "restarted"])
async def test_another_persons_visit_is_never_written_upon(feed, restored, how):
    """A visit's id is another visit's after the server went back: each keeps its own."""
    await feed.deliver(plan("A01", "1", "V0"))
    backup = restored.snapshot()
    await feed.deliver(plan("A01", "1", "V1"))
    await gone_back(restored, feed, how, backup)
    theirs = Site(restored.base).open(if_none_exist="identifier", bundle="off")
    await theirs.deliver(plan("A01", "2", "V2"))
    before = {name: body for name, body in restored.chart.items() if name.startswith("Encounter/")}
    verdict = await feed.deliver(plan("A03", "1", "V1"))
    await theirs.close()
    assert verdict.kind is VerdictKind.DELIVERED
    assert len(before) == 2
    assert {name: restored.chart[name] for name in before} == before
    (mine,) = [one for one in restored.of("Encounter") if one["identifier"][0]["value"] == "V1"]
    assert mine["status"] == "finished"
    assert of(restored, "1")["id"] == mine["subject"]["reference"].partition("/")[2]


@pytest.mark.parametrize("how", ["restarted", "taken over"])
async def test_a_visit_refers_to_its_own_places(feed, restored, how):
    """What a visit refers to is read by its id, and counts only where it bears its number."""
    await feed.deliver(plan("A01", "1", "V1"))
    backup = restored.snapshot()
    await feed.deliver(plan("A02", "1", "V1", place="4W^1^B^RVB"))
    if how == "restarted":
        await restored.restart(backup)
    else:
        restored.restore(backup)
        await feed.again()
    theirs = Site(restored.base).open(if_none_exist="identifier", bundle="off")
    await theirs.deliver(plan("A01", "2", "V2", place="9E^901^A^RVB"))
    await theirs.close()
    assert (await feed.deliver(plan("A02", "1", "V1", place="4W^1^B^RVB"))).kind is VerdictKind.DELIVERED
    (mine,) = [one for one in restored.of("Encounter") if one["identifier"][0]["value"] == "V1"]
    bed = restored.chart[mine["location"][-1]["location"]["reference"]]
    assert "4W" in bed["identifier"][0]["value"], bed


@pytest.mark.parametrize("step", ["POST Patient/$merge", "GET Patient/"])
async def test_a_merge_takes_nobody_else(feed, restored, patient, identifier, merging, step):
    """The server goes back between two steps of a merge, and both ids are other people's: those are not merged."""
    backup = restored.snapshot()
    await feed.send(Upsert(patient("1")))
    await feed.send(Upsert(patient("2")))
    method, _, path = step.partition(" ")
    others = []

    def fall_back(asked, at):
        if not others and asked == method and at.startswith(path):
            restored.restore(backup)
            others.extend((other(restored, identifier, "W"), other(restored, identifier, "V")))

    restored.before = fall_back
    whole = {"family": "Quintero", "given": "Marisol", "gender": "female", "birthDate": "1984-02-29"}
    verdict = await feed.send(merging("2", "1", **whole), replay=True)
    assert len(others) == 2
    assert verdict.kind is not VerdictKind.REJECTED
    for logical_id, number in zip(others, ("W", "V"), strict=True):
        body = restored.patients[logical_id]
        assert ([one["value"] for one in body["identifier"]], body.get("link"), body["active"]) == (
            [number],
            None,
            True,
        )


async def test_a_merge_goes_on_after_a_restart_in_its_midst(feed, restored, patient, merging):
    """A server that was restarted between preview and merge has lost nothing: the merge is made by the same try."""
    await feed.send(Upsert(patient("1")))
    await feed.send(Upsert(patient("2")))
    restored.script.append(Step("POST", 200, path="$merge", body=b"{}"))
    breaks = feed.destination._server.continuity

    def lose(method, path):
        if method == "POST" and "$merge" in path and not breaks.breaks:
            breaks.broken()

    restored.before = lose
    assert (await feed.send(merging("2", "1"))).reason == "merged"
    survivor = of(restored, "1")
    (gone,) = (one for one in restored.patients if one != survivor["id"])
    assert [one for one in restored.effects if one.startswith("merge")] == [f"merge {gone} into {survivor['id']}"]


async def test_a_survivors_id_that_is_somebody_elses_proves_no_merge(feed, restored, patient, identifier, merging):
    """The journal knows whom a number was merged into by id; that record is Wally's now, and gets nothing."""
    backup = restored.snapshot()
    await feed.send(Upsert(patient("1")))
    await feed.send(Upsert(patient("2")))
    assert (await feed.send(merging("2", "1"))).reason == "merged"
    restored.restore(backup)
    wally = other(restored, identifier)
    await feed.again()
    verdict = await feed.send(Upsert(patient("2", telecom=[{"value": "7"}])))
    assert (verdict.kind, verdict.reason) == (VerdictKind.HELD, "survivor-missing")
    assert untouched(restored, wally, identifier)


async def test_a_stale_search_and_a_survivors_id_prove_nothing(feed, restored, patient, identifier, merging):
    """A search answers an old number with the id of its survivor, which is Wally's now: held, and Wally's stays."""
    backup = restored.snapshot()
    await feed.send(Upsert(patient("1")))
    await feed.send(Upsert(patient("2")))
    await feed.send(merging("2", "1"))
    restored.restore(backup)
    wally = other(restored, identifier)
    restored.script.append(
        Step("GET", 200, path="Patient", body=orjson.dumps(restored._bundle([restored.patients[wally]])))
    )
    await feed.again()
    number = Identity(MRN, "2")
    feed.memory.identities[number] = KnownIdentifier(number, "t", MERGED_AWAY, wally)
    verdict = await feed.send(Upsert(patient("2", telecom=[{"value": "7"}])))
    assert (verdict.kind, verdict.reason) == (VerdictKind.HELD, "identity-unproven")
    assert untouched(restored, wally, identifier)


async def test_nobody_elses_record_is_deleted(feed, restored, patient, identifier):
    """A29 where persons are deleted: what is remembered is read first, and another's chart is left alone."""
    restored.deletes = True
    await feed.again(deleted_person="delete")
    backup = restored.snapshot()
    await feed.send(Upsert(patient("K")))
    restored.restore(backup)
    wally = other(restored, identifier)
    verdict = await feed.send(Upsert(patient("K"), inactivate=True))
    assert verdict.reason == "nothing-to-delete"
    assert untouched(restored, wally, identifier)


async def test_what_others_show_tells_of_all(feed, restored, patient, identifier):
    """One record that went back to an earlier version is enough: nothing else is remembered from then on."""
    await feed.send(Upsert(patient("A")))
    backup = restored.snapshot()
    await feed.send(Upsert(patient("A", telecom=[{"value": "1"}])))
    await feed.send(Upsert(patient("K")))
    restored.restore(backup)
    wally = other(restored, identifier)
    await feed.send(Upsert(patient("A", telecom=[{"value": "2"}])))
    assert (await feed.send(Upsert(patient("K", telecom=[{"value": "7"}])))).reason == "created"
    assert untouched(restored, wally, identifier)


async def test_what_is_not_there_any_more_tells_of_all(feed, restored, patient, identifier):
    """A record that was written and is 404 now is enough, too."""
    backup = restored.snapshot()
    await feed.send(Upsert(patient("K")))
    await feed.send(Upsert(patient("L")))
    restored.restore(backup)
    wally = other(restored, identifier)
    assert (await feed.send(Upsert(patient("L", telecom=[{"value": "2"}])))).reason == "created"
    assert (await feed.send(Upsert(patient("K", telecom=[{"value": "7"}])))).reason == "created"
    assert untouched(restored, wally, identifier)


async def test_a_failure_within_a_burst_tells_of_all(feed, restored, patient, identifier):
    """A gateway answers 502 while the server behind it is put back: nothing is remembered from then on."""
    backup = restored.snapshot()
    await feed.send(Upsert(patient("K")))
    restored.script.append(Step("GET", 502))
    assert (await feed.send(Upsert(patient("L")))).kind is VerdictKind.RETRY
    restored.restore(backup)
    wally = other(restored, identifier)
    assert (await feed.send(Upsert(patient("K", telecom=[{"value": "7"}])))).reason == "created"
    assert untouched(restored, wally, identifier)


@pytest.mark.parametrize("replay", [False, True])
async def test_a_choice_ends_once_it_was_written(feed, restored, patient, identifier, replay):
    """An operator chose a record without the number, and it got it: without it later, it is another one's."""
    chosen = other(restored, identifier, "X")
    number = Identity(MRN, "K")
    feed.memory.identities[number] = KnownIdentifier(number, chosen, CONFIRMED)
    before = dict(restored.patients[chosen])
    assert (await feed.send(Upsert(patient("K")), replay=replay)).reason == "created"
    assert restored.patients[chosen] == before


async def test_a_burst_costs_one_request_a_message(feed, restored, patient):
    """Within a burst nothing is read before it is written; after a pause, and after its time, it is."""
    await feed.send(Upsert(patient("K")))
    for turn, pause, asked in ((1, 0.0, ["PUT"]), (2, QUIET_SECONDS * 2, ["GET", "PUT"]), (3, 0.0, ["PUT"])):
        feed.ticks += pause
        before = len(restored.requests)
        await feed.send(Upsert(patient("K", telecom=[{"value": str(turn)}])))
        assert [request.partition(" ")[0] for request in restored.requests[before:]] == asked
    for _ in range(100):
        feed.ticks += QUIET_SECONDS
        await feed.send(Upsert(patient("L", telecom=[{"value": str(feed.ticks)}])))
    before = len(restored.requests)
    await feed.send(Upsert(patient("K", telecom=[{"value": "late"}])))
    assert [request.partition(" ")[0] for request in restored.requests[before:]] == ["GET", "PUT"]


def test_a_server_is_quiet_after_a_while():
    """Doubted soon with nothing under way, later with a request that hangs, and at once where one finds no answer."""
    now, told = [0.0], []
    one = Continuity(lambda: now[0], lambda: told.append("forget"), lambda: told.append("doubt"))
    one.sent()
    one.answered()
    now[0] = QUIET_SECONDS
    one.check()
    assert told == []
    one.sent()
    now[0] = HANGING_SECONDS
    one.check()
    assert told == []
    now[0] += QUIET_SECONDS
    one.check()
    assert told == ["doubt"]
    one.unanswered()
    assert (told, one.breaks) == (["doubt", "forget"], 1)
