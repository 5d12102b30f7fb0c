"""Rates of bulk runs: entries a second of the last minute, by looks at least a second apart."""

from datetime import UTC, datetime

from engine.journal.write.bulk_replay import Run, RunKind, RunState
from engine.pipeline.repair.bulk_replay import RATES_KEPT, RunRates

BEGAN = datetime(2026, 3, 1, tzinfo=UTC)


def run(done: int, state: RunState = RunState.RUNNING, number: int = 1, under_way: int = 0) -> Run:
    """A run of which so many entries have ended."""
    counts = {"delivered": done, "under way": under_way}
    return Run(
        number, RunKind.RETRY, "ann", {}, "", force=False, rate=200.0, state=state, started_at=BEGAN, ended_at=None,
        total=1000, counts=counts,
    )  # fmt: skip


def test_the_rate_is_of_the_last_minute() -> None:
    """Not known at the first look; what is under way does not count; what a minute has passed is forgotten."""
    now = [0.0]
    rates = RunRates(lambda: now[0])
    assert rates.rate(run(0)) is None
    now[0] = 0.5
    assert rates.rate(run(10)) is None
    now[0] = 10.0
    assert rates.rate(run(200, under_way=50)) == 20.0
    now[0] = 65.0
    assert rates.rate(run(200)) == 0.0
    now[0] = 75.0
    assert rates.rate(run(300)) == 10.0


def test_a_run_that_does_not_run_has_no_rate() -> None:
    """Paused, its looks are forgotten: resumed, it begins anew."""
    now = [0.0]
    rates = RunRates(lambda: now[0])
    rates.rate(run(0))
    now[0] = 10.0
    assert rates.rate(run(100, RunState.PAUSED)) is None
    now[0] = 20.0
    assert rates.rate(run(100)) is None
    now[0] = 30.0
    assert rates.rate(run(150)) == 5.0


def test_the_looks_of_many_runs_are_bounded() -> None:
    """The oldest are forgotten, and are measured anew."""
    now = [0.0]
    rates = RunRates(lambda: now[0])
    for number in range(RATES_KEPT + 1):
        rates.rate(run(0, number=number))
    now[0] = 10.0
    assert rates.rate(run(100, number=1)) == 10.0
    assert rates.rate(run(100, number=0)) is None
