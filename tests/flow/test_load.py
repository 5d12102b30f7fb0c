"""An initial load (`mode: load`), through the whole engine."""

from pathlib import Path

from tests.flow.rig import running
from tests.flow.test_brakes import merge, person, states, up


async def test_a_load_knows_no_merge_limit(tmp_path: Path) -> None:
    """Go-live files hold more merges than any day does."""
    async with running(tmp_path, mode="load", merge_limit={"merges": 1, "minutes": 10}) as rig:
        await up(rig)
        await rig.sender([person(number) for number in range(8)], 4).run()
        await rig.drained()
        await rig.sender([merge(number) for number in (0, 2, 4, 6)], 1).run()
        await rig.drained()
        assert {state for state, _ in states(rig.rows())} == {"delivered"}
