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
    whys = [(one["entry"], one["decision"] and one["decision"]["what"], one["merged_by"]) for one in closed["entries"]]
    assert whys == [(10, "different", None), (2, None, MERGE)]


@pytest.mark.smoke
async def test_a_merge_closes_the_possible_duplicate(rig: Rig) -> None:
    """Registered twice, merged by an A40: closed, with the entry of the merge; one who was not merged stays open."""
    await rig.engine.start()
    once = event("A28^ADT_A05", "T1", "RB-70", "170000", name="Castellan^Hugo")
    other = once.replace(b"Castellan", b"Alderton")
    for number, one in enumerate((once, once, other, other), 70):
        sent = one.replace(b"RB-70", f"RB-{number}".encode()).replace(b"T1", f"T{number}".encode())
        await send_messages(*await rig.address(), [sent])
    await rig.until(lambda rows: [row.state for row in rows] == ["delivered"] * 4)
    opened = await done(rig, "duplicates.list", show="open")
    assert [(one["entry"], one["merged_by"]) for one in opened["entries"]] == [(4, None), (2, None)]
    await done(rig, "duplicates.decide", entry=2, decision="sent")
    merge = event("A40^ADT_A39", "T9", "RB-70", "180000", "MRG|RB-71^^^RVB^MR\r", name="Castellan^Hugo")
    await send_messages(*await rig.address(), [merge])
    await rig.until(lambda rows: [row.state for row in rows] == ["delivered"] * 5)
    lists = {show: await done(rig, "duplicates.list", show=show) for show in ("open", "sent", "closed")}
    assert {show: [(one["entry"], one["merged_by"]) for one in found["entries"]] for show, found in lists.items()} == {
        "open": [(4, None)],
        "sent": [],
        "closed": [(2, 5)],
    }
    assert (await done(rig, "duplicates.show", entry=2))["merged_by"] == 5
