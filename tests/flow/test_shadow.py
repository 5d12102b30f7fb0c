"""A channel in shadow: everything is done but the writes; what would be done is kept, and never done later."""

import asyncio
from collections import Counter
from pathlib import Path

import orjson

from tests.flow.operator import configured, done, ended, message, refused, sent, started
from tests.flow.rig import Rig, running
from tests.ops.command import command

CHART = (
    message("C1", "RB-1", event="A28"),
    message("C2", "RB-2", event="A28", phone="5550102"),
    message("C3", "RB-1", event="A01", more="PV1|1|I|3W^312^A^RVB||||1187^Osei^Ada||||||||||||V-1^^^RVB\r"),
    message("C4", "RB-1", phone="5550199"),
    message("C5", "RB-1", event="A40", more="MRG|RB-2^^^RVB^MR\r"),
    message("C6", "RB-3", event="A28", born=""),
    message("C7", "RB-4", event="A28", born="19500101").replace(b"Marisol", b"Amara"),
)


def methods(rig: Rig) -> Counter[str]:
    """Return how often each method of FHIR was called."""
    return Counter(call.method for call in rig.proxy.calls if call.path.startswith("/fhir/"))


async def test_a_shadow_channel_never_writes(tmp_path: Path) -> None:
    """Creates, visits, updates, a merge and a hold are rehearsed: the server sees reads and nothing else."""
    async with running(tmp_path, mode="shadow") as rig:
        await started(rig)
        answers = await sent(rig, *CHART)
        assert {answer.code for answer in answers} == {"AA"}
        rows = await rig.until(ended(*["filtered"] * len(CHART)))
        assert {row.reason for row in rows} == {"shadow"}
        assert methods(rig).keys() == {"GET"}
        assert rig.attempts() == []
        assert await rig.patients() == {}
        shown = await done(rig, "messages.show", entry=3)
        told = shown["deliveries"][0]["plan"]["rehearsal"]
        assert (told["verdict"], told["reason"]) == ("delivered", "created")
        assert {"POST"} == {call["method"] for call in told["calls"]}
        assert {call["path"] for call in told["calls"]} >= {"Patient", "Encounter", "Practitioner", "Location"}
        notes = [(await done(rig, "messages.show", entry=at))["deliveries"][0]["notes"][0] for at in (1, 6)]
        assert notes == ["would-be-delivered created", "would-be-held missing-required"]


async def test_what_came_in_shadow_is_delivered_by_a_replay_alone(tmp_path: Path) -> None:
    """Not by going live, not by a bulk replay of what was delivered; somebody who asks for it gets it delivered."""
    async with running(tmp_path, mode="shadow") as rig:
        await started(rig)
        await sent(rig, CHART[0])
        await rig.until(ended("filtered"))
        assert "shadow" in await refused(rig, "messages.replay", entry=1)
        await configured(rig)
        assert (await done(rig, "replays.plan"))["count"] == 0
        await sent(rig, CHART[1])
        await rig.until(ended("filtered", "delivered"))
        assert [body["identifier"][0]["value"] for body in (await rig.patients()).values()] == ["RB-2"]
        await done(rig, "messages.replay", entry=1)
        await rig.until(ended("delivered", "delivered"))
        assert len(await rig.numbered("RB-1")) == 1


async def test_what_waits_while_the_channel_goes_live_stays_in_shadow(tmp_path: Path) -> None:
    """A server that answers nothing keeps the entry waiting; then the channel goes live, and it is still rehearsed."""
    async with running(tmp_path, mode="shadow") as rig:
        await started(rig)
        await rig.service.stop()
        await sent(rig, CHART[0])
        await asyncio.sleep(0.5)
        assert [row.state for row in rig.rows()] == ["received"]
        await configured(rig)
        await rig.service.start()
        await rig.until(ended("filtered"))
        await sent(rig, CHART[1])
        await rig.until(ended("filtered", "delivered"))
        assert methods(rig)["POST"] == 1


async def test_the_differences_are_summed_up(tmp_path: Path) -> None:
    """By kind and element with counts and an example each; values of patients only where they are asked for."""
    async with running(tmp_path) as rig:
        await started(rig)
        await sent(rig, CHART[0], CHART[6])
        await rig.until(ended("delivered", "delivered"))
        await configured(rig, mode="shadow")
        await sent(rig, *(message(f"S{at}", "RB-1", phone=f"555020{at}") for at in range(3)), CHART[5], CHART[4])
        await rig.until(ended("delivered", "delivered", *["filtered"] * 5))

        async def diff(*more: str) -> str:
            done = await command("mappings", "diff", "--server", *more, data=tmp_path / "data")
            assert done.returncode == 0
            return done.stdout

        told = orjson.loads(await diff("--json"))
        assert (told["messages"], told["differing"]) == (5, 5)
        groups = {(one["kind"], one["path"]): one for one in told["changes"]}
        assert groups["would end", "held missing-required"]["count"] == 1
        assert groups["would call", "PUT Patient"]["count"] >= 3
        assert groups["element changed", "Patient.telecom.value"]["count"] == 3
        assert "after" not in groups["element changed", "Patient.telecom.value"]
        text = await diff()
        assert "5550201" not in text
        assert "entry " in text
        assert "55502" in await diff("--values")
        assert orjson.loads(await diff("--json", "--event", "A28"))["messages"] == 1
