"""Somebody brought in unknown, through the whole engine: held until a later message says who it is, then in order."""

from tests.flow.feed import FeedMessage
from tests.flow.rig import Rig, Row


def told(at: int, number: str, event: str, pid: str) -> FeedMessage:
    """Return a message of one patient; `pid` is PID from its fifth field on."""
    name = f"U{number}{at}"
    head = f"MSH|^~\\&|EMERG|RIVERBEND|ADTENGINE|HUB|2026030206{at:02d}00||ADT^{event}|{name}|P|2.5.1"
    raw = "\r".join((head, f"EVN||2026030206{at:02d}00", f"PID|1||{number}^^^RVB^MR||{pid}", ""))
    return FeedMessage(name, 0, raw.encode(), "")


def ends(rows: list[Row]) -> list[tuple[str, str]]:
    """Return how entries ended."""
    return [(row.state, row.reason) for row in rows]


async def test_the_lane_of_an_unknown_patient_runs_on_once_a_message_says_who_it_is(rig: Rig) -> None:
    """A record needs a birth date: the first message that brings one lets all run, in their order."""
    await rig.engine.start()
    await rig.sender([told(1, "T1", "A04", "UNKNOWN^TRAUMA|||U")], 1).run()
    assert ends(await rig.until(lambda rows: [row.state for row in rows] == ["held"])) == [("held", "missing-required")]
    await rig.sender([told(2, "T1", "A08", "DOE^JANE|||F")], 1).run()
    await rig.until(lambda rows: [row.state for row in rows] == ["held", "waiting"])
    await rig.sender([told(3, "T1", "A08", "Marlowe^Iris||19810412|F")], 1).run()
    rows = await rig.until(lambda rows: [row.state for row in rows] == ["delivered"] * 3)
    assert ends(rows) == [("delivered", "created"), ("delivered", "updated"), ("delivered", "updated")]
    assert "completed-by-later" in rows[0].notes
    (patient,) = await rig.numbered("T1")
    assert patient["name"] == [{"family": "Marlowe", "given": ["Iris"]}]
    assert (patient["birthDate"], patient["gender"]) == ("1981-04-12", "female")


async def test_another_patient_does_not_say_who_an_unknown_one_is(rig: Rig) -> None:
    """Nobody else's demographics are taken: who stays unknown stays held."""
    await rig.engine.start()
    feed = [told(1, "T2", "A04", "UNKNOWN^TRAUMA|||U"), told(2, "T3", "A28", "Marlowe^Iris||19810412|F")]
    await rig.sender(feed, 1).run()
    rows = await rig.until(lambda rows: [row.state for row in rows] == ["held", "delivered"])
    assert ends(rows) == [("held", "missing-required"), ("delivered", "created")]
    assert await rig.numbered("T2") == []
