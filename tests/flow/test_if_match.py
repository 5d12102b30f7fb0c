"""Whether the service honours If-Match is tried once, kept in the journal, and told offline."""

import asyncio

import orjson

from tests.deliver.fake_fhir import FakeFhir
from tests.flow.feed import FeedMessage
from tests.flow.rig import SECRET, Rig, channel_file
from tests.flow.test_brakes import person, the, up
from tests.interchange.nursery import ran


def again(name: str, street: bytes) -> FeedMessage:
    """Return a later message of the first person, with an address."""
    raw = person(1, name).raw.replace(b"|F\r", b"|F|||%s\r" % street)
    return FeedMessage(name, 1, raw, "")


def doctor(rig: Rig) -> dict[str, str]:
    """Return what the doctor says of the service."""
    arguments = ("doctor", "--json", "--channels", "channels", "--data", "data")
    done = ran(*arguments, folder=rig.folder, environment={"ENGINE_SECRET": SECRET})
    found: dict[str, str] = {one["what"]: one for one in orjson.loads(done.stdout)}["destination interchange"]
    return found


def trials(rig: Rig) -> int:
    """Return how often an update was sent with a version that never was."""
    return sum(call.headers.get("If-Match") == 'W/"0"' for call in rig.proxy.calls)


async def test_the_shipped_service_has_nothing_to_mend(rig: Rig) -> None:
    """Tried with the first update and never again, over a restart; whoever asks offline hears what came of it."""
    before = await asyncio.to_thread(doctor, rig)
    assert before["standing"] == "ok", before
    assert "If-Match is tested with the first update" in before["found"]
    await up(rig)
    await rig.sender([person(1), again("U1", b"1 Elm St"), again("U2", b"2 Elm St")], 1).run()
    await rig.drained()
    assert trials(rig) == 1
    assert (await the(rig, "destinations.list"))["lacks"] == []
    assert await rig.engine.stop() == 0
    assert "honours If-Match, as tested" in (await asyncio.to_thread(doctor, rig))["found"]
    await up(rig)
    await rig.sender([again("U3", b"3 Elm St")], 1).run()
    await rig.drained()
    assert trials(rig) == 1


async def test_a_server_that_ignores_it_is_named(rig: Rig) -> None:
    """The log says so once, `channels list` and the doctor name it."""
    server = FakeFhir()
    server.honours_if_match, server.software = False, {"name": "Careless", "version": "1"}
    await server.start()
    channel = channel_file(rig.proxy.url)
    channel["destinations"][0] |= {"base_url": server.base, "auth": {"type": "none"}}
    (rig.folder / "channels" / "riverbend-adt.yaml").write_bytes(orjson.dumps(channel))
    await up(rig)
    await rig.sender([person(1), again("U1", b"1 Elm St"), again("U2", b"2 Elm St")], 1).run()
    await rig.drained()
    line = await rig.engine.line("destination ignores If-Match")
    assert (line["destination"], line["level"]) == ("interchange", "warning")
    assert (await the(rig, "channels.list"))["lacks"] == {"interchange": ["no-if-match"]}
    shown = await asyncio.to_thread(ran, "channels", "list", "--data", "data", folder=rig.folder)
    assert "interchange lacks no-if-match" in shown.stdout
    assert await rig.engine.stop() == 0
    assert sum(one["event"] == "destination ignores If-Match" for one in rig.engine.lines) == 1
    assert "ignores If-Match" in (await asyncio.to_thread(doctor, rig))["found"]
    await server.stop()
