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
    whys = [(one["entry"], one["decision"] and one["decision"]["what"], one["settled"]) for one in closed["pairs"]]
    assert whys == [(10, "different", None), (2, None, {"how": "merged", "entry": MERGE})]


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
    assert [(one["entry"], one["this"], one["that"]) for one in opened["pairs"]] == [(4, 4, 3), (2, 2, 1)]
    assert (opened["new"], await done(rig, "duplicates.count")) == (2, {"count": 2, "more": False})
    await done(rig, "duplicates.decide", entry=2, decision="sent")
    merge = event("A40^ADT_A39", "T9", "RB-70", "180000", "MRG|RB-71^^^RVB^MR\r", name="Castellan^Hugo")
    await send_messages(*await rig.address(), [merge])
    await rig.until(lambda rows: [row.state for row in rows] == ["delivered"] * 5)
    lists = {show: await done(rig, "duplicates.list", show=show) for show in ("open", "sent", "closed")}
    assert {show: [(one["entry"], one["settled"]) for one in found["pairs"]] for show, found in lists.items()} == {
        "open": [(4, None)],
        "sent": [],
        "closed": [(2, {"how": "merged", "entry": 5})],
    }
    assert {found["new"] for found in lists.values()} == {1}
    shown = await done(rig, "duplicates.show", entry=2)
    assert (shown["settled"], shown["status"]) == ({"how": "merged", "entry": 5}, "closed")
    (there,) = shown["destinations"]
    assert [there["mine"]["merged"], there["others"][0]["merged"], there["settled"]] == [True, False, "merged"]


async def test_a_link_or_its_undoing_closes_the_pair(rig: Rig) -> None:
    """An A24 says that both are one person, an A37 that they are two: closed by that message, the last one counts."""
    await rig.engine.start()
    once = event("A28^ADT_A05", "T1", "RB-80", "170000", name="Castellan^Hugo")
    for number in (80, 81):
        sent = once.replace(b"RB-80", f"RB-{number}".encode()).replace(b"T1", f"T{number}".encode())
        await send_messages(*await rig.address(), [sent])
    other = "PID|2||RB-81^^^RVB^MR||Castellan^Hugo||19840229|F\r"
    for number, (trigger, how) in enumerate((("A24", "linked"), ("A37", "unlinked")), 3):
        said = event(f"{trigger}^ADT_{trigger}", f"L{number}", "RB-80", "180000", other, name="Castellan^Hugo")
        await send_messages(*await rig.address(), [said])
        await rig.until(lambda rows, number=number: [row.state for row in rows] == ["delivered"] * number)
        (closed,) = (await done(rig, "duplicates.list", show="closed"))["pairs"]
        assert closed["settled"] == {"how": how, "entry": number}
    assert (await done(rig, "duplicates.count"))["count"] == 0
