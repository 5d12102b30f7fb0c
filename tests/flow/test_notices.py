"""Notices from end to end: sent after the delivery, at least once through kills, and never in the way of it."""

import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.flow.feed import Author
from tests.flow.proxy import Call, Fault
from tests.flow.rig import Rig, channel_file, destination, running, write

OPERATION = "/fhir/R4/$process-message"
NOTICES = "SELECT seq, state, reason, codes, patient, visit, tries FROM follow_up WHERE kind = 'notice' ORDER BY seq"
TAKEN = Fault(status=200)
SETTLED = frozenset({"accepted", "refused", "given-up"})
Script = Callable[[Call], Fault | None]


def taking(answer: Fault) -> Script:
    """Return a script by which the destination answers every notice so."""
    return lambda call: answer if call.path == OPERATION else None


@contextlib.asynccontextmanager
async def notified(folder: Path, answer: Fault = TAKEN, **settings: Any) -> AsyncIterator[Rig]:
    """Give a rig whose destination is to be told of events, and answers so; the test starts the engine."""
    async with running(folder) as rig:
        settings = {"notify": "admin-notify"} | settings
        told = {"destinations": [destination(rig.proxy.url, **settings)]}
        write(rig.folder / "channels" / "riverbend-adt.yaml", channel_file(rig.proxy.url) | told)
        rig.proxy.script = taking(answer)
        yield rig


def sent(rig: Rig) -> list[dict[str, Any]]:
    """Return the message Bundles that were sent, in order."""
    return [call.json for call in rig.proxy.calls if call.path == OPERATION]


def event_of(bundle: dict[str, Any]) -> str:
    """Return the trigger event that a message Bundle tells."""
    return str(bundle["entry"][0]["resource"]["reason"]["coding"][0]["code"])


def notices(rig: Rig) -> list[tuple[Any, ...]]:
    """Return the notices in the journal."""
    return rig._query(NOTICES)


async def ended(rig: Rig, number: int) -> list[tuple[Any, ...]]:
    """Wait until so many notices have ended, and return all."""
    await rig.until(lambda _rows: sum(notice[1] in SETTLED for notice in notices(rig)) == number)
    return notices(rig)


async def test_the_destination_is_told_of_each_event(tmp_path: Path, seed: int) -> None:
    """Of stays with their visit, of a merge with the survivor, in the order of the events, with what is stored then."""
    async with notified(tmp_path) as rig:
        await rig.engine.start()
        author = Author(seed)
        person, old = author.person(), author.number()
        feed = [author.event(trigger, 1, person) for trigger in ("A01", "A02", "A03")]
        feed += [author.event("A28", 1, person, old), author.merge(1, person, old, person.number)]
        await rig.sender(feed, 1).run()
        await rig.drained()
        found = await ended(rig, len(feed))
        assert {one[1] for one in found} == {"accepted"}
        bundles = {event_of(one): one for one in sent(rig)}
        assert [bundle for bundle in bundles if bundle != "A28"] == ["A01", "A02", "A03", "A40"]
        assert "A28" in bundles
        assert len({bundle["identifier"]["value"] for bundle in bundles.values()}) == len(feed)
        (survivor,) = [one for one in await rig.numbered(person.number) if one["active"]]
        base = f"{rig.proxy.url}/fhir/R4"
        for trigger in ("A01", "A02", "A03"):
            header, patient, visit = (one["resource"] for one in bundles[trigger]["entry"])
            assert [one["fullUrl"] for one in bundles[trigger]["entry"]][1:] == [
                f"{base}/Patient/{survivor['id']}",
                f"{base}/Encounter/{visit['id']}",
            ]
            assert header["focus"] == [
                {"reference": f"Patient/{survivor['id']}"},
                {"reference": f"Encounter/{visit['id']}"},
            ]
            assert patient["name"] == survivor["name"]
            assert visit["subject"]["reference"].endswith(f"Patient/{survivor['id']}")
        merged = [one["resource"] for one in bundles["A40"]["entry"]]
        assert [one["resourceType"] for one in merged] == ["MessageHeader", "Patient"]
        assert merged[1]["id"] == survivor["id"]
        shown = (await rig.ask("messages.show", entry=found[0][0]))["done"]
        assert shown["deliveries"][0]["notice"]["state"] == "accepted"
        # A replay changes nothing and tells nobody; neither does what is loaded.
        assert "error" not in await rig.ask("messages.replay", entry=found[0][0], force=True)
        loaded = author.event("A08", 1, person)
        await rig.sender([replace(loaded, raw=loaded.raw.replace(b"|P|2.5.1", b"|P^I|2.5.1"))], 1).run()
        await rig.drained()
        assert len(notices(rig)) == len(sent(rig)) == len(feed)


@pytest.mark.parametrize(
    ("answer", "state"),
    [
        pytest.param(Fault(status=404), ("refused", "notice-unsupported"), id="404"),
        pytest.param(Fault(status=422), ("refused", "notice-refused"), id="422"),
        pytest.param(Fault(status=500), ("waiting", "notice-failed"), id="500"),
        pytest.param(Fault(drop=True), ("waiting", "notice-failed"), id="line-breaks"),
        pytest.param(Fault(status=200, wait_seconds=60), ("waiting", ""), id="hangs"),
    ],
)
async def test_a_destination_that_takes_no_notices_gets_all_the_rest(
    tmp_path: Path, seed: int, answer: Fault, state: tuple[str, str]
) -> None:
    """All is delivered, nobody is held, the destination stays ready, and the failure stands with the entry."""
    async with notified(tmp_path, answer) as rig:
        await rig.engine.start()
        author = Author(seed)
        people = [author.person() for _ in range(10)]
        feed = [author.event(trigger, n, one) for trigger in ("A01", "A08", "A03") for n, one in enumerate(people)]
        await rig.sender(feed, 4).run()
        await rig.drained()
        assert {row.state for row in rig.rows()} == {"delivered"}
        await rig.until(lambda _rows: len(sent(rig)) >= 4)
        await rig.until(lambda _rows: any(notice[1:3] == state for notice in notices(rig)))
        assert "'ready'" in str((await rig.ask("destinations.list"))["done"])
        await rig.sender([author.event("A28", 99, author.person())], 1).run()
        await rig.drained()
        assert await rig.engine.stop() == 0
        assert {notice[1:3] for notice in notices(rig)} <= {state, ("waiting", "")}
        assert len(notices(rig)) == 31


@pytest.mark.parametrize(
    ("point", "promised", "requests"),
    [
        pytest.param("F15:kill:1", [], 1, id="before-the-delivery-is-committed"),
        pytest.param("F17:kill:1", ["waiting"], 1, id="between-delivery-and-notice"),
        pytest.param("F47:kill:1", ["waiting"], 1, id="before-it-is-sent"),
        pytest.param("F48:kill:1", ["waiting"], 2, id="between-answer-and-its-outcome"),
    ],
)
async def test_killed_around_a_notice_it_is_sent_all_the_same(
    tmp_path: Path, seed: int, point: str, promised: list[str], requests: int
) -> None:
    """SIGKILL anywhere between delivery and outcome: it is sent at least once, and each time as the same one."""
    async with notified(tmp_path) as rig:
        await rig.engine.spawn(ENGINE_FAULT=point)
        author = Author(seed)
        await rig.sender([author.event("A01", 1, author.person())], 1).run()
        await rig.engine.ended(30)
        assert [notice[1] for notice in notices(rig)] == promised
        await rig.engine.start()
        await rig.drained()
        ((_seq, state, reason, codes, patient, visit, tries),) = await ended(rig, 1)
        assert (state, reason, codes, tries) == ("accepted", "", "[]", 1)
        assert len(sent(rig)) == requests
        assert [one == sent(rig)[0] for one in sent(rig)] == [True] * requests
        assert [one["reference"] for one in sent(rig)[0]["entry"][0]["resource"]["focus"]] == [patient, visit]
        assert len(await rig.patients()) == 1


async def test_notices_that_are_turned_off_are_not_sent(tmp_path: Path, seed: int) -> None:
    """What waits when the key goes is given up; off is the default, and promises nothing."""
    async with notified(tmp_path, Fault(status=503)) as rig:
        await rig.engine.start()
        author = Author(seed)
        await rig.sender([author.event("A01", 1, author.person())], 1).run()
        await rig.until(lambda _rows: [notice[1] for notice in notices(rig)] == ["waiting"] and bool(sent(rig)))
        write(rig.folder / "channels" / "riverbend-adt.yaml", channel_file(rig.proxy.url))
        assert "error" not in await rig.ask("reload")
        (found,) = await ended(rig, 1)
        assert found[1:3] == ("given-up", "notice-turned-off")
        before = len(sent(rig))
        await rig.sender([author.event("A01", 2, author.person())], 1).run()
        await rig.drained()
        assert len(notices(rig)) == 1
        assert len(sent(rig)) == before
