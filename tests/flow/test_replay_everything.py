"""Everything that was delivered, replayed at once by the running engine: the service stays as it is (I17)."""

import time
from collections import Counter
from pathlib import Path
from typing import Final

import pytest

from tests.flow.operator import done, finished, started
from tests.flow.rig import running
from tests.flow.simulated_service import AUTHORITIES, snapshot
from tests.flow.test_simulated import end_of, settled, simulated

EVENTS: Final = 300
SWEEP: Final = 5_000


@pytest.mark.timeout(1800)
async def test_replaying_everything_leaves_the_service_as_it_is(
    tmp_path: Path, seed: int, full_sweep: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every entry ends as it had, and no Patient or Encounter has a new version; what was overtaken is refused."""
    async with running(tmp_path, authorities=AUTHORITIES) as rig:
        await started(rig)
        await simulated(rig, SWEEP if full_sweep else EVENTS, seed)
        rows = await settled(rig)
        ends = Counter(map(end_of, rows))
        before = (await snapshot(rig)).versions()
        plan = await done(rig, "replays.plan", state="delivered")
        assert plan["count"] == ends["delivered"]
        begun = time.monotonic()
        run = await done(rig, "replays.start", state="delivered", rate=1_000)
        run = await finished(rig, run["run"], 900)
        seconds = time.monotonic() - begun
        assert run["state"] == "done"
        assert run["counts"]["refused"] == plan["overtaken"]
        assert run["counts"]["delivered"] + run["counts"]["refused"] == run["total"] == plan["count"]
        assert Counter(map(end_of, await settled(rig))) == ends
        assert (await snapshot(rig)).versions() == before
    if full_sweep:
        with capsys.disabled():
            print(f"\nreplayed: seed {seed}, {dict(ends)}, {run['counts']}, {seconds:.0f} s")  # noqa: T201
