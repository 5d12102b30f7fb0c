"""Killed between every two steps and started again: nothing is lost, nothing done twice, the order is kept."""

import pytest

from tests.crash.checker import Verdict
from tests.crash.lives import DELIVERING, MERGING, RECEIVING, Lives
from tests.flow.feed import make_feed
from tests.flow.rig import Rig, channel_file, destination, write

# Stored, sent, answered, settled, merged: one point of each.
SMOKE = [("F05", 1), ("F09", 3), ("F12", 3), ("F13", 3), ("F18", 1)]


@pytest.mark.parametrize(
    "deaths",
    [
        pytest.param([(point, nth) for point in RECEIVING for nth in (1, 5)], id="receiving"),
        pytest.param([(point, 3) for point in DELIVERING], id="delivering"),
        pytest.param([(MERGING, nth) for nth in range(1, 7)], id="merging"),
        pytest.param(SMOKE, id="one of each kind", marks=pytest.mark.smoke),
    ],
)
async def test_killed_at_named_points_nothing_is_lost_or_done_twice(
    rig: Rig, seed: int, deaths: list[tuple[str, int]]
) -> None:
    """The engine dies at each point once; what was accepted takes effect once, in order, merges included."""
    lives = Lives(rig, make_feed(seed, 30 * len(deaths), 5 * len(deaths)), connections=8)
    try:
        for point, nth in deaths:
            await lives.die_at(point, nth)
        judgement = await lives.live()
    finally:
        await lives.end()
    assert not judgement.violations, judgement.report()
    assert judgement.verdict is Verdict.VALID
    assert lives.deaths == [point for point, _nth in deaths]


async def test_killed_with_records_under_ids_of_their_numbers(rig: Rig, seed: int) -> None:
    """`create: client-id` at the service itself, merges included: each promise holds, and each id is ours."""
    own = destination(rig.proxy.url, create="client-id", if_none_exist="identifier")
    write(rig.folder / "channels" / "riverbend-adt.yaml", channel_file(rig.proxy.url) | {"destinations": [own]})
    deaths = [("F11", 3), ("F12", 3), ("F13", 3), ("F14", 4), ("F15", 3), (MERGING, 1), (MERGING, 2)]
    lives = Lives(rig, make_feed(seed, 30 * len(deaths), 5 * len(deaths)), connections=8)
    try:
        for point, nth in deaths:
            await lives.die_at(point, nth)
        judgement = await lives.live()
    finally:
        await lives.end()
    assert not judgement.violations, judgement.report()
    assert judgement.verdict is Verdict.VALID
    assert all(logical_id.startswith("adt-") for logical_id in await rig.patients())
