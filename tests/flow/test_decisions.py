"""Holds that wait for a person: a release is the decision, for what was held and for nothing else."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.flow.operator import PERSON, configured, done, ended, finished, message, sent, started
from tests.flow.rig import Rig, running

VISIT = "PV1|1|I|3W^312^A^RVB||||||||||||||||V-1^^^RVB{end}\r"


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    """A running engine."""
    async with running(tmp_path) as made:
        await started(made)
        yield made


def somebody_else(control_id: str, number: str, **given: Any) -> bytes:
    """Return a message about a person of another name and birth date."""
    return message(control_id, number, family="Other", born="19500101", **given).replace(b"Marisol", b"Ana")


def merging(survivor: str, source: str) -> str:
    """Return a further pair of an A40."""
    return PERSON.format(number=survivor, family="Quintero", born="19840229", phone="") + f"MRG|{source}^^^RVB^MR\r"


async def active(rig: Rig) -> int:
    """Return how many patients are active at the server."""
    return sum(patient.get("active", True) for patient in (await rig.patients()).values())


async def test_a_merge_that_was_held_is_made_once_it_is_released(rig: Rig) -> None:
    """A retry is held again, and so is a replay; a release merges, and says before that it would."""
    await sent(
        rig,
        message("C1", "RB-1", event="A28"),
        somebody_else("C2", "RB-2", event="A28"),
        message("C3", "RB-1", event="A40", more="MRG|RB-2^^^RVB^MR\r"),
    )
    await rig.until(ended("delivered", "delivered", "held"))
    await done(rig, "messages.retry", entry=3)
    await rig.until(ended("delivered", "delivered", "held", reasons=["created", "created", "merge-conflict"]))
    plan = await done(rig, "lanes.plan", reason="merge-conflict", retry=True)
    assert [one["reason"] for one in plan["again"]] == ["merge-conflict"]
    assert (await done(rig, "lanes.plan", reason="merge-conflict"))["again"] == []
    await done(rig, "messages.release", entry=3)
    await rig.until(ended("delivered", "delivered", "delivered", reasons=["created", "created", "merged"]))
    shown = await done(rig, "messages.facts", entry=3)
    assert shown["deliveries"][0]["notes"][0] == "merge-conflict"
    assert await active(rig) == 1


async def test_a_decision_outlives_a_kill_and_a_server_that_is_down(rig: Rig) -> None:
    """Released while the server is down, carried out after both came back."""
    await sent(
        rig,
        message("C1", "RB-1", event="A28"),
        somebody_else("C2", "RB-2", event="A28"),
        message("C3", "RB-1", event="A40", more="MRG|RB-2^^^RVB^MR\r"),
    )
    await rig.until(ended("delivered", "delivered", "held"))
    await rig.service.stop()
    await done(rig, "messages.release", entry=3)
    await rig.engine.kill()
    await rig.service.start()
    await started(rig)
    await rig.until(ended("delivered", "delivered", "delivered", reasons=["created", "created", "merged"]))


async def test_of_several_pairs_those_that_were_held_are_decided(rig: Rig) -> None:
    """The hold names which pairs it is about; one that turns into a conflict later waits for a decision of its own."""
    await sent(
        rig,
        message("C1", "RB-1", event="A28", family="Quintero"),
        somebody_else("C2", "RB-2", event="A28"),
        message("C3", "RB-3", event="A28", family="Quintero"),
        message("C4", "RB-4", event="A28", family="Quintero"),
        message("C5", "RB-1", event="A40", family="Quintero", more="MRG|RB-2^^^RVB^MR\r" + merging("RB-3", "RB-4")),
    )
    await rig.until(ended(*["delivered"] * 4, "held"))
    assert (await done(rig, "messages.facts", entry=5))["deliveries"][0]["notes"][0] == "merge-conflict 1"
    run = await finished(rig, (await done(rig, "lanes.release", reason="merge-conflict"))["run"])
    assert run["counts"] == {"delivered": 1}
    assert await active(rig) == 2


async def test_a_visit_that_is_over_is_opened_again_once_it_is_released(rig: Rig) -> None:
    """As `visit_reuse: hold` asks."""
    await configured(rig, visit_reuse="hold")
    over = VISIT.format(end="|" * 26 + "20260301080000")
    await sent(
        rig,
        message("C1", "RB-1", event="A01", more=VISIT.format(end="")),
        message("C2", "RB-1", event="A03", more=over, at="20260302080000"),
        message("C3", "RB-1", event="A01", more=VISIT.format(end=""), at="20260303080000"),
    )
    await rig.until(ended("delivered", "delivered", "held"))
    assert rig.rows()[2].reason == "visit-reused"
    await done(rig, "messages.release", entry=3)
    await rig.until(ended("delivered", "delivered", "delivered"))
    (visit,) = await rig.visits(await rig.patients())
    assert visit["status"] == "in-progress"


async def test_a_record_that_seemed_another_persons_is_written_once_it_is_released(rig: Rig) -> None:
    """As `another_person: hold` asks."""
    await configured(rig, another_person="hold")
    await sent(rig, message("C1", "RB-1", event="A28"), somebody_else("C2", "RB-1"))
    await rig.until(ended("delivered", "held", reasons=["created", "overlay-suspected"]))
    await done(rig, "messages.release", entry=2)
    await rig.until(ended("delivered", "delivered"))
    (body,) = await rig.numbered("RB-1")
    assert body["name"][0]["family"] == "Other"
