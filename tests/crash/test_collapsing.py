"""Killed while storms of updates are collapsed: an older update ends only with the newest that says all of it."""

from functools import partial
from random import Random

import pytest

from tests.crash.lives import DELIVERING, Lives
from tests.flow.feed import make_storms
from tests.flow.rig import Rig, channel_file, destination, write

ANSWERS = [15] * 20


def collapsing(rig: Rig) -> None:
    """Let the rig's destination collapse storms."""
    own = destination(rig.proxy.url, collapse={"seconds": 0.3})
    write(rig.folder / "channels" / "riverbend-adt.yaml", channel_file(rig.proxy.url) | {"destinations": [own]})


def superseded(rig: Rig) -> int:
    """Return how many entries needed no delivery of their own."""
    return sum(row.reason == "superseded" for row in rig.rows())


@pytest.mark.parametrize("point", DELIVERING)
async def test_killed_at_each_point_of_a_delivery(rig: Rig, seed: int, point: str) -> None:
    """Whatever was sent and not settled is found out, and nothing that an older update said is missing."""
    collapsing(rig)
    lives = Lives(rig, make_storms(seed, 8, 4), connections=8)
    await lives.sweep(partial(lives.die_at, point), (3, 9, 14))
    assert superseded(rig)


async def test_killed_at_random(rig: Rig, seed: int) -> None:
    """Over many lives the patients are what all entries say."""
    collapsing(rig)
    random = Random(seed)
    lives = Lives(rig, make_storms(seed, 16, 5), connections=16)
    await lives.sweep(partial(lives.die_somewhere, random), ANSWERS)
    assert superseded(rig)
