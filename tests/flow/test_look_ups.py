"""Look-ups from end to end: asked for after the delivery, at least once through kills, and never in the way of it."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp
import orjson
import pytest

from tests.deliver.fake_fhir import FakeFhir
from tests.flow.feed import Author, FeedMessage
from tests.flow.proxy import Call, Fault
from tests.flow.rig import POLL_SECONDS, Rig, running, service_file, write

OPERATION = "/fhir/DocumentReference/$p360-retrieve"
STATEMENT = orjson.dumps(
    {
        "resourceType": "CapabilityStatement",
        "fhirVersion": "3.0.2",
        "rest": [{"mode": "server", "operation": [{"name": "p360-retrieve"}]}],
    }
)
JSON = {"Content-Type": "application/fhir+json"}
HANDLE = "http://127.0.0.1/fhir/RequestResult/1"
ACCEPTED = Fault(status=202, headers={"Content-Location": HANDLE})
LOOK_UPS = "SELECT seq, state, reason, codes, patient, handle, tries FROM follow_up WHERE kind = 'lookup' ORDER BY seq"
Script = Callable[[Call], Fault | None]


def looking_up(answer: Fault) -> Script:
    """Return a script by which the service states the operation, and answers it so."""
    answers = {"/fhir/metadata": Fault(status=200, headers=JSON, body=STATEMENT), OPERATION: answer}
    return lambda call: answers.get(call.path)


def asked(rig: Rig) -> list[str]:
    """Return for whom the operation was asked, in order."""
    return [call.query.removeprefix("patient=") for call in rig.proxy.calls if call.path == OPERATION]


def look_ups(rig: Rig) -> list[tuple[Any, ...]]:
    """Return the look-ups in the journal."""
    return rig._query(LOOK_UPS)


def admissions(seed: int, number: int, trigger: str = "A01", prefix: str = "RB") -> list[FeedMessage]:
    """Return admissions of so many people, that happen now."""
    author = Author(seed, prefix, 1_000_000 if prefix == "RB" else 2_000_000)
    author._at = datetime.now(UTC)
    return [author.event(trigger, family, author.person()) for family in range(number)]


async def ended(rig: Rig, number: int, state: str = "accepted") -> list[tuple[Any, ...]]:
    """Wait until so many look-ups have ended so, and return all."""
    await rig.until(lambda _rows: sum(one[1] == state for one in look_ups(rig)) == number)
    return look_ups(rig)


async def test_who_is_admitted_is_looked_up(tmp_path: Path, seed: int) -> None:
    """After the delivery the service is asked on the base that states it; the handle stands with the entry."""
    async with running(tmp_path, lookup_on=["A01"]) as rig:
        rig.proxy.script = looking_up(ACCEPTED)
        await rig.engine.start()
        feed = [*admissions(seed, 3), *admissions(seed, 1, "A28", "XX")]
        await rig.sender(feed, 2).run()
        await rig.drained()
        found = await ended(rig, 3)
        ids = {patient for _seq, _state, _reason, _codes, patient, _handle, _tries in found}
        assert ids == {f"Patient/{one}" for one in asked(rig)}
        assert len(ids) == len(asked(rig)) == 3
        assert ids <= {f"Patient/{one}" for one in await rig.patients()}
        assert {one[5] for one in found} == {HANDLE}
        (call, *_) = [call for call in rig.proxy.calls if call.path == OPERATION]
        assert (call.method, call.headers["Prefer"], call.body) == ("POST", "respond-async", b"")
        shown = (await rig.ask("messages.show", entry=found[0][0]))["done"]
        assert shown["deliveries"][0]["lookup"]["state"] == "accepted"
        assert shown["deliveries"][0]["lookup"]["handle"] == HANDLE
        # Nobody asks for who is protected (PD1-12), or for what happened long ago.
        protected = admissions(seed, 1, prefix="PR")[0]
        raw = protected.raw.replace(b"\rPV1|", b"\rPD1||||||||||||Y\rPV1|")
        author = Author(seed, "OL", 3_000_000)
        await rig.sender([replace(protected, raw=raw), author.event("A01", 9, author.person())], 1).run()
        await rig.drained()
        notes = [row.notes for row in rig.rows()][-2:]
        assert "lookup-restricted" in notes[0]
        assert "lookup-too-old" in notes[1]
        assert len(look_ups(rig)) == 3
        # A replay changes nothing, and looks nobody up.
        assert "error" not in await rig.ask("messages.replay", entry=found[0][0])
        await rig.drained()
        assert len(asked(rig)) == 3


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(Fault(status=404), id="404"),
        pytest.param(Fault(status=501), id="501"),
        pytest.param(Fault(status=500), id="500"),
        pytest.param(Fault(drop=True), id="line-breaks"),
        pytest.param(Fault(status=200, wait_seconds=60), id="hangs"),
    ],
)
async def test_an_operation_that_fails_for_ever_disturbs_nothing(tmp_path: Path, seed: int, answer: Fault) -> None:
    """All is delivered, nobody is held, the destination stays ready, and the failure stands with the entry."""
    async with running(tmp_path, lookup_on=["A01", "A08"]) as rig:
        rig.proxy.script = looking_up(answer)
        await rig.engine.start()
        feed = admissions(seed, 30)
        await rig.sender(feed, 4).run()
        await rig.drained()
        assert {row.state for row in rig.rows()} == {"delivered"}
        await rig.until(lambda _rows: len(asked(rig)) >= 4)
        found = (await rig.ask("destinations.list"))["done"]
        assert "'ready'" in str(found)
        (*_, last) = admissions(seed, 1, "A28", "XX")
        await rig.sender([last], 1).run()
        await rig.drained()
        assert await rig.engine.stop() == 0
        states = {one[1] for one in look_ups(rig)}
        assert states <= ({"refused"} if answer.status in {404, 501} else {"waiting"})
        assert len(look_ups(rig)) == 30


@pytest.mark.parametrize(
    ("point", "requests"),
    [
        pytest.param("F15:kill:1", 1, id="before-the-delivery-is-committed"),
        pytest.param("F17:kill:1", 1, id="between-delivery-and-look-up"),
        pytest.param("F37:kill:1", 2, id="between-answer-and-its-outcome"),
    ],
)
async def test_killed_around_a_look_up_it_is_asked_for_all_the_same(
    tmp_path: Path, seed: int, point: str, requests: int
) -> None:
    """SIGKILL between delivery and look-up, or before its outcome is written: it is asked for at least once."""
    async with running(tmp_path, lookup_on=["A01"]) as rig:
        rig.proxy.script = looking_up(ACCEPTED)
        await rig.engine.spawn(ENGINE_FAULT=point)
        sender = rig.sender(admissions(seed, 1), 1)
        await sender.run()
        await rig.engine.ended(30)
        assert [one[1] for one in look_ups(rig)] == ([] if point.startswith("F15") else ["waiting"])
        await rig.engine.start()
        await rig.drained()
        (found,) = await ended(rig, 1)
        assert found[3:] == ("[]", f"Patient/{asked(rig)[0]}", HANDLE, 1)
        assert asked(rig) == [asked(rig)[0]] * requests
        assert len(await rig.patients()) == 1


@contextlib.asynccontextmanager
async def beside(folder: Path, **tenant: Any) -> AsyncIterator[Rig]:
    """Give a rig whose channel looks up after A01 to A03, and whose service's tenant has these keys."""
    async with running(folder, lookup_on=["A01", "A02", "A03"]) as rig:
        await rig.service.kill()
        text = service_file(rig.service_port) | {"tenants": {"riverbend": tenant}, "test_hooks": True}
        write(rig.folder / "service.yaml", text)
        await rig.service.start()
        await rig.engine.start()
        yield rig


async def asked_for(rig: Rig, seed: int) -> list[str]:
    """Send A01, A02 and A03 of three people; return the handles of their look-ups."""
    author = Author(seed)
    author._at = datetime.now(UTC)
    feed = [author.event(trigger, family, author.person()) for family, trigger in enumerate(("A01", "A02", "A03"))]
    await rig.sender(feed, 1).run()
    await rig.drained()
    found = await ended(rig, 3)
    assert {one[2] for one in found} == {""}
    return [one[5] for one in found]


async def told(rig: Rig, handle: str) -> tuple[int, dict[str, Any]]:
    """Wait until the service says how a look-up ended; return the status and what it counts."""
    assert handle.startswith(f"http://127.0.0.1:{rig.service_port}/fhir/RequestResult/")
    headers = {"Authorization": f"Bearer {await rig._new_token()}"}
    async with aiohttp.ClientSession(headers=headers) as session, asyncio.timeout(60):
        while True:
            async with session.get(handle) as answer:
                status, text = answer.status, await answer.read()
            if status != 202:
                break
            await asyncio.sleep(POLL_SECONDS)
    parts = orjson.loads(text).get("parameter", ())
    return status, {part["name"]: part.get("valueCode", part.get("valueInteger")) for part in parts}


async def connections(rig: Rig) -> int:
    """Return how many connections to other machines the service has begun to open."""
    url = f"http://127.0.0.1:{rig.service_port}/_test/outbound"
    async with aiohttp.ClientSession() as session, session.get(url) as answer:
        return int((await answer.json())["connections"])


async def test_a_look_up_in_mocked_mode_asks_only_the_mocks(tmp_path: Path, seed: int) -> None:
    """C-524: A01, A02 and A03 in a sandbox look the patient up among invented sources; nothing goes out."""
    async with beside(tmp_path) as rig:
        for handle in await asked_for(rig, seed):
            status, counted = await told(rig, handle)
            assert (status, counted["status"]) == (200, "completed")
            assert counted["documentsImported"] > 0
        for patient in await rig.patients():
            chart = await rig.get(f"/Patient/{patient}/$everything?_count=200")
            assert {"DocumentReference", "Condition"} <= {one["resource"]["resourceType"] for one in chart["entry"]}
        assert await connections(rig) == 0


async def test_a_look_up_in_real_mode_calls_the_connector(tmp_path: Path, seed: int) -> None:
    """C-525: with network_mode real the connector is called for each of them; it knows nobody, and nobody is harmed."""
    other = await FakeFhir().start()
    connectors = {"pine-ridge": {"type": "fhir", "url": other.base}}
    try:
        async with beside(tmp_path, network_mode="real", connectors=connectors) as rig:
            for handle in await asked_for(rig, seed):
                status, counted = await told(rig, handle)
                assert (status, counted["status"], counted["organizationsTotal"]) == (200, "completed", 1)
                assert counted["documentsFound"] == 0
            assert len([request for request in other.requests if request.startswith("POST Patient/$match")]) == 3
            assert await connections(rig) > 0
            assert {row.state for row in rig.rows()} == {"delivered"}
    finally:
        await other.stop()
