"""The same messages on two channels: two feeds, each with entries, acknowledgements and deliveries of its own."""

from pathlib import Path
from typing import Any

import orjson

from engine.ops.sender.line import BlockAnswer, send_messages
from tests.flow.operator import message, started
from tests.flow.rig import Rig, channel_file, destination, running

CHART = (
    message("C1", "RB-1", event="A28"),
    message("C2", "RB-2", event="A28", phone="5550102"),
    message("C3", "RB-1", event="A01", more="PV1|1|I|3W^312^A^RVB||||1187^Osei^Ada||||||||||||V-1^^^RVB\r"),
    message("C4", "RB-1", event="A40", more="MRG|RB-2^^^RVB^MR\r"),
    message("C5", "RB-1", phone="5550199"),
)


async def beside(rig: Rig, **changes: Any) -> None:
    """Put a second channel beside the first one, and start the engine."""
    second = channel_file(rig.proxy.url) | {"channel": "second"} | changes
    (rig.folder / "channels" / "second.yaml").write_bytes(orjson.dumps(second))
    await started(rig)


async def given(rig: Rig, channel: str, *raws: bytes) -> list[BlockAnswer]:
    """Send messages to one of the channels."""
    heard = (line for line in rig.engine.lines if line.get("event") == "listening")
    ports = {one["channel"]: int(one["port"]) for one in heard}
    return await send_messages("127.0.0.1", ports[channel], raws)


async def ends(rig: Rig, count: int) -> list[tuple[str, str]]:
    """Wait until so many entries have ended, and return how, in order."""
    done = {"delivered", "filtered"}
    rows = await rig.until(lambda rows: len(rows) == count and {row.state for row in rows} <= done)
    return [(row.state, row.reason) for row in rows]


def writes(rig: Rig) -> int:
    """Return how many writes the server was asked for."""
    return sum(call.method != "GET" for call in rig.proxy.calls if call.path.startswith("/fhir/"))


async def test_a_second_channel_to_the_same_destination_changes_nothing_there(tmp_path: Path) -> None:
    """Both are entries, answered for themselves; what the second says is so already: no write, no second merge."""
    async with running(tmp_path) as rig:
        await beside(rig)
        for at, raw in enumerate(CHART):
            first = await given(rig, "riverbend-adt", raw)
            await ends(rig, 2 * at + 1)
            written, chart = writes(rig), await rig.patients()
            second = await given(rig, "second", raw)
            told = await ends(rig, 2 * at + 2)
            assert [one.code for one in (*first, *second)] == ["AA", "AA"]
            assert first[0].reply != second[0].reply
            assert told[-1][1] in {"unchanged", "already-merged"}
            assert (writes(rig), await rig.patients()) == (written, chart)
            assert (await given(rig, "second", raw))[0].reply == second[0].reply
        assert len(rig.rows()) == 2 * len(CHART)


async def test_both_at_once_make_one_chart(tmp_path: Path) -> None:
    """A lane is a patient at a destination, whichever channel speaks: they never run side by side."""
    async with running(tmp_path) as rig:
        await beside(rig)
        for raw in CHART:
            await given(rig, "riverbend-adt", raw)
            await given(rig, "second", raw)
        await ends(rig, 2 * len(CHART))
        active = [patient for patient in (await rig.patients()).values() if patient.get("active", True)]
        assert len(active) == 1
        assert len(await rig.visits([active[0]["id"]])) == 1


async def test_a_second_channel_delivers_to_its_own_destination(tmp_path: Path) -> None:
    """What the first has delivered to one server, the second delivers to its own."""
    async with running(tmp_path) as rig:
        await beside(rig, destinations=[destination(rig.proxy.url, name="archive")])
        await given(rig, "riverbend-adt", CHART[0])
        await given(rig, "second", CHART[0])
        await ends(rig, 2)
        names = rig._query("SELECT destination, state FROM delivery ORDER BY seq")
        assert names == [("interchange", "delivered"), ("archive", "delivered")]


async def test_a_shadow_beside_the_live_channel_rehearses_all_that_comes(tmp_path: Path) -> None:
    """Whichever hears a message first: the live one writes it, the shadow never does and never hides it."""
    async with running(tmp_path) as rig:
        await beside(rig, mode="shadow")
        await given(rig, "second", CHART[0])
        assert await ends(rig, 1) == [("filtered", "shadow")]
        await given(rig, "riverbend-adt", *CHART)
        await given(rig, "second", *CHART)
        told = await ends(rig, 2 * len(CHART))
        assert sorted(state for state, _reason in told) == ["delivered"] * 5 + ["filtered"] * 5
        assert len(await rig.numbered("RB-1")) == 1
