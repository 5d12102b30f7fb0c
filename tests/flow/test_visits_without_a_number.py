"""Visits without a number, through the whole engine: over MLLP, with its journal, over starts and a kill."""

import asyncio
from typing import Any

from tests.flow.feed import FeedMessage
from tests.flow.rig import Rig


def told(
    at: int, event: str, visit: str, begin: str = "202603020755", number: str = "W1", mrg: str = ""
) -> FeedMessage:
    """Return a message about a visit; `visit` is PV1-19."""
    name, when = f"W{at}", f"2026030208{at:02d}00"
    head = f"MSH|^~\\&|EMERG|RIVERBEND|ADTENGINE|HUB|{when}||ADT^{event}|{name}|P|2.5.1"
    pid = f"PID|1||{number}^^^RVB^MR||Marlowe^Iris||19810412|F"
    pv1 = "PV1|1|I|3W^312^A" + "|" * 16 + visit + "|" * 25 + begin
    raw = "\r".join((head, f"EVN||{when}", pid, *((mrg,) if mrg else ()), pv1, ""))
    return FeedMessage(name, 0, raw.encode(), "")


async def delivered(rig: Rig, *messages: FeedMessage) -> list[str]:
    """Send messages and return what was noted of each, once all that was ever sent is delivered."""
    before = len(rig.rows())
    await rig.sender(messages, 1).run()
    rows = await rig.until(
        lambda rows: len(rows) == before + len(messages) and all(row.state == "delivered" for row in rows)
    )
    return [row.notes for row in rows[before:]]


async def visits(rig: Rig, number: str = "W1") -> list[dict[str, Any]]:
    """Return the visits of a patient as the service has them."""
    (patient,) = await rig.numbered(number)
    return await rig.visits([patient["id"]])


async def test_a_stay_whose_messages_have_a_number_now_and_then(rig: Rig) -> None:
    """Whatever comes with a number and without, before and after a start of the engine and a merge, is one visit."""
    await rig.engine.start()
    made, joined = await delivered(rig, told(1, "A01", ""), told(2, "A08", "V1"))
    assert "temporary-visit" in made
    assert "visit-numbered" in joined
    await rig.engine.stop()
    await rig.engine.start()
    await delivered(rig, told(3, "A02", ""), told(4, "A08", "V1"))
    merge = told(5, "A40", "", "", "W2", "MRG|W1^^^RVB^MR")
    await delivered(rig, merge, told(6, "A03", "", number="W2"))
    (visit,) = await visits(rig, "W2")
    numbers = [(one["value"], one.get("use")) for one in visit["identifier"]]
    assert (visit["status"], numbers) == ("finished", [("W1@2026-03-02T12:55Z", "temp"), ("V1", None)])


async def test_a_visit_that_was_merged_away_is_not_opened_again(rig: Rig) -> None:
    """What comes without a number goes to the visit that it was merged into, over a second merge and a start, too."""
    await rig.engine.start()
    mrg, again = "MRG|W1^^^RVB^MR||||V1", "MRG|W1^^^RVB^MR||||V2"
    await delivered(rig, told(1, "A01", ""), told(2, "A08", "V1"), told(3, "A01", "V2", "202603020830"))
    await delivered(rig, told(4, "A42", "V2", "202603020830", mrg=mrg))
    told_again, updated = await delivered(rig, told(5, "A01", ""), told(6, "A08", ""))
    assert (told_again, updated) == ("[]", "[]")
    assert {visit["status"] for visit in await visits(rig) if "partOf" in visit} == {"entered-in-error"}
    await delivered(rig, told(7, "A01", "V3", "202603020900"), told(8, "A42", "V3", "202603020900", mrg=again))
    await rig.engine.stop()
    await rig.engine.start()
    await delivered(rig, told(9, "A03", ""))
    found = await visits(rig)
    assert sorted((one["status"], "partOf" in one) for one in found) == [
        ("entered-in-error", True), ("entered-in-error", True), ("finished", False)
    ]  # fmt: skip


async def test_an_engine_that_is_killed_makes_no_second_visit(rig: Rig) -> None:
    """The second write is the visit's: its answer is heard by nobody, and the next engine finds what it made."""
    await rig.engine.start(ENGINE_FAULT="F13:kill:2")
    sending = rig.sender([told(1, "A01", "")], 1)
    task = asyncio.create_task(sending.run())
    await rig.engine.ended()
    await rig.engine.start()
    await task
    await rig.until(lambda rows: [row.state for row in rows] == ["delivered"])
    (visit,) = await visits(rig)
    assert [one["use"] for one in visit["identifier"]] == ["temp"]
