"""Storms of updates (`collapse`) through the whole engine: fewer writes, the same patients, nothing lost."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.crash.checker import History, Verdict, judge, stamp_of
from tests.flow.feed import FeedMessage, make_storms
from tests.flow.proxy import Call, Fault
from tests.flow.rig import Rig, channel_file, destination, write

pytestmark = pytest.mark.parametrize("journal", ["sqlite", "postgresql"], indirect=True)
COLLAPSE = {"events": ["A08", "A31"], "seconds": 0.5}


def collapsing(rig: Rig, **collapse: Any) -> None:
    """Let the rig's destination collapse storms."""
    own = destination(rig.proxy.url, collapse=COLLAPSE | collapse)
    write(rig.folder / "channels" / "riverbend-adt.yaml", channel_file(rig.proxy.url) | {"destinations": [own]})


def update(number: int, event: str = "A31") -> FeedMessage:
    """Return an update of one patient, with the phone number that names it."""
    stamp, at = f"{7_000_000 + number}", f"20260302100{number:03d}"[:14]
    head = f"MSH|^~\\&|REG|RVB|X|Y|{at}||ADT^{event}|C{number}|P|2.5.1\rEVN||{at}\r"
    pid = f"PID|1||RB-1^^^RVB^MR||Quintero^Marisol||19840229|F|||||^PRN^PH^^1^503^{stamp}\r"
    return FeedMessage(f"C{number}", 1, (head + pid).encode(), stamp)


async def stormed(rig: Rig, script: Callable[[Call], Fault | None]) -> tuple[list[tuple[str, str]], set[str]]:
    """Return how a patient's registration and five updates end where calls go wrong, and what was written of them."""
    collapsing(rig, seconds=1.5)
    rig.proxy.script = script
    await rig.engine.start()
    await rig.sender([update(0, "A28"), *map(update, range(1, 6))], 1).run()
    await rig.drained()
    assert await rig.engine.stop() == 0
    written = {stamp[-1] for call in rig.proxy.calls if call.took_effect for stamp in call.stamps}
    return [(row.state, row.reason) for row in rig.rows()], written


LEFT_OUT = ("filtered", "superseded")


async def test_a_newest_update_that_is_refused_takes_no_other_along(rig: Rig) -> None:
    """The older ones are delivered, collapsed without it; it is held in its turn, and names what to do."""
    rows, written = await stormed(rig, lambda call: Fault(status=422) if call.writes and is_newest(call) else None)
    assert [state for state, _ in rows[:2]] == ["delivered", "delivered"]
    assert rows[2:4] == [LEFT_OUT, LEFT_OUT]
    assert [rows[4][0], rows[5]] == ["delivered", ("held", "http-422")]
    assert written == {"0", "1", "4"}


@pytest.mark.parametrize("fault", [Fault(drop=True, after_commit=True), Fault(status=503), Fault(drop=True)])
async def test_a_newest_update_whose_answer_is_lost_is_found_out(rig: Rig, fault: Fault) -> None:
    """Nothing older is written before it is known what came of it; it is written once."""
    left = [fault]
    rows, written = await stormed(rig, lambda call: left.pop() if left and call.writes and is_newest(call) else None)
    assert rows[0][0] == "delivered"
    assert rows[1:5] == [LEFT_OUT] * 4
    assert (rows[5][0], left) == ("delivered", [])
    assert written == {"0", "5"}
    writes = [call for call in rig.proxy.calls if call.took_effect and is_newest(call)]
    assert len(writes) == 1


async def test_a_superseded_entry_names_the_other_and_is_replayed_with_care(rig: Rig) -> None:
    """Shown with the entry that was delivered for it; its replay would bring old values back, and is refused."""
    await stormed(rig, lambda _call: None)
    await rig.engine.start()
    await rig.engine.line("started")
    shown = (await rig.ask("messages.show", entry=2))["done"]
    (delivery,) = shown["deliveries"]
    assert (delivery["state"], delivery["reason"], delivery["notes"]) == (*LEFT_OUT, ["superseded-by 6"])
    refused = await rig.ask("messages.replay", entry=2)
    assert "done" not in refused, refused


def is_newest(call: Call) -> bool:
    """Whether a call writes what the newest update says."""
    return "7000005" in call.stamps


async def test_storms_among_merges_and_stays_end_as_without_collapse(rig: Rig, seed: int) -> None:
    """The patients are what a fold over all entries says, those included that needed no delivery of their own."""
    collapsing(rig)
    await rig.engine.start()
    sender = rig.sender(make_storms(seed, 12, 4), 12)
    await sender.run()
    await rig.drained()
    assert await rig.engine.stop() == 0
    patients = await rig.patients()
    rows = rig.rows()
    judgement = judge(
        History(sender.log, rows, rig.attempts(), rig.proxy.calls, patients, visits=await rig.visits(patients))
    )
    assert not judgement.violations, judgement.report()
    assert judgement.verdict is Verdict.VALID
    superseded = [row for row in rows if row.reason == "superseded"]
    assert len(superseded) > len(rows) // 5
    assert {row.state for row in superseded} == {"filtered"}
    written = {stamp for call in rig.proxy.calls if call.took_effect for stamp in call.stamps}
    assert written.isdisjoint(stamp_of(row.raw) for row in superseded)
