"""A patient, held work in bulk and duplicates on either journal: what the queries read, a file's or PostgreSQL's."""

from typing import Any

import pytest

from engine.ops.sender.line import send_messages
from tests.flow.rig import Rig
from tests.ops.web.conftest import message
from tests.ops.web.story import ENDED, HELD, HELD_TOO, MERGE, NIGHT, event

pytestmark = pytest.mark.parametrize("journal", ["sqlite", "postgresql"], indirect=True)


async def done(rig: Rig, name: str, /, **given: Any) -> Any:
    """Do an operation over the admin socket."""
    answer = await rig.ask(name, **given)
    assert "done" in answer, answer
    return answer["done"]


async def test_both_journals_answer_alike(rig: Rig) -> None:
    """Numbers, merge, holds and pages of one patient; a bulk discard; a decision in the trail."""
    await rig.engine.start()
    for one in NIGHT:
        await send_messages(*await rig.address(), [one])
    await rig.until(lambda rows: [row.state for row in rows] == ENDED)
    shown = await done(rig, "patients.show", entry=MERGE, limit=2)
    assert [one["value"] for one in shown["numbers"]] == ["RB-10", "RB-11"]
    assert [one["entry"] for one in shown["merges"]] == [MERGE]
    assert ([one["entry"] for one in shown["messages"]], shown["before"]) == ([5, 4], 4)
    held = await done(rig, "patients.show", entry=HELD)
    assert [(one["entry"], one["waiting"]) for one in held["held"]] == [(HELD, 1)]
    plan = await done(rig, "lanes.plan", entries=[HELD, HELD_TOO])
    assert (plan["count"], plan["tried"], len(plan["again"])) == (2, 2, 2)
    run = await done(rig, "lanes.discard", entries=[HELD_TOO], because="a test")
    while run["state"] != "done":
        run = await done(rig, "replays.progress", run=run["run"])
    assert run["counts"] == {"discarded": 1}
    run = await done(rig, "lanes.release", entries=[HELD])
    while run["state"] != "done":
        run = await done(rig, "replays.progress", run=run["run"])
    assert run["again"] == [{"entry": HELD, "reason": "missing-required"}]
    twice = event("A28^ADT_A05", "T1", "RB-70", "170000", name="Castellan^Hugo")
    await send_messages(*await rig.address(), [twice, twice.replace(b"RB-70", b"RB-71").replace(b"T1", b"T2")])
    await send_messages(*await rig.address(), [message("T3", "RB-72")])
    await rig.until(lambda rows: [row.state for row in rows[8:]] == ["delivered"] * 3)
    await done(rig, "duplicates.decide", entry=10, decision="different")
    closed = await done(rig, "duplicates.list", show="closed")
    assert [(one["entry"], one["decision"]["what"]) for one in closed["entries"]] == [(10, "different")]
