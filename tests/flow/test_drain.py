"""The main promise at size: a feed over many connections drains, nothing is lost, nothing reordered."""

import pytest

from tests.crash.checker import History, Verdict, judge
from tests.flow.feed import make_feed
from tests.flow.rig import Rig

CONNECTIONS = 32
SWEEP = (10_000, 500)
USUAL = (2_000, 100)


@pytest.mark.timeout(900)
async def test_a_feed_with_merges_drains_whole_and_in_order(
    rig: Rig, seed: int, full_sweep: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every message is delivered once, per patient in order, and the patients equal the fold over the journal."""
    messages, merges = SWEEP if full_sweep else USUAL
    feed = make_feed(seed, messages, merges)
    await rig.engine.start()
    sender = rig.sender(feed, CONNECTIONS)
    await sender.run()
    await rig.drained()
    assert await rig.engine.stop() == 0
    judgement = judge(
        History(
            sender.log,
            rig.rows(),
            rig.attempts(),
            rig.proxy.calls,
            (patients := await rig.patients()),
            visits=await rig.visits(patients),
            least_answers=messages * 9 // 10,
        )
    )
    assert not judgement.violations, judgement.report()
    assert judgement.verdict is Verdict.VALID
    assert judgement.counts["merges"] == merges
    with capsys.disabled():
        if full_sweep:
            print(f"\ndrain: seed {seed}, {dict(judgement.counts)}, 0 lost, 0 reordered")  # noqa: T201
