"""A destination that does not answer: what is said of it, and that somebody may have it tried at once."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from engine.ops.sender.line import send_messages
from tests.flow.rig import Rig, channel_file, destination, running, write

# By itself it would be tried again after minutes, which no test waits for.
PATIENCE = {"first_seconds": 600, "max_seconds": 3600}


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    """A rig whose engine is in no hurry."""
    async with running(tmp_path) as made:
        patient = {"destinations": [destination(made.proxy.url, retry=PATIENCE)]}
        write(tmp_path / "channels" / "riverbend-adt.yaml", channel_file(made.proxy.url) | patient)
        yield made


def person(number: int) -> bytes:
    """Return an A28 of one person."""
    return (
        f"MSH|^~\\&|REG|RVB|X|Y|20250701101500||ADT^A28^ADT_A05|C{number}|P|2.5.1\rEVN||20250701101500\r"
        f"PID|1||RB-{number}^^^RVB^MR||Quintero^Marisol||19840229|F\r"
    ).encode()


async def listed(rig: Rig) -> dict[str, Any]:
    """Return the one destination, as it is listed."""
    (row,) = (await rig.ask("destinations.list"))["done"]
    return dict(row)


@pytest.mark.parametrize(
    ("had_answered", "cause"),
    [pytest.param(False, "token-unavailable", id="never"), pytest.param(True, "connection-refused", id="before")],
)
async def test_whoever_knows_that_it_is_back_need_not_wait(rig: Rig, cause: str, *, had_answered: bool) -> None:
    """Cause, since when and next try are said; tried at once, what waited is delivered, and all of that is gone."""
    if not had_answered:
        await rig.proxy.close()
    await rig.engine.start()
    count = 0
    if had_answered:
        await send_messages(*await rig.address(), [person(1)])
        await rig.until(lambda rows: [row.state for row in rows] == ["delivered"])
        await rig.proxy.close()
        count = 1
    await send_messages(*await rig.address(), [person(number) for number in range(11, 18)])
    await rig.until(lambda rows: len(rows) == count + 7)
    while (row := await listed(rig))["next_try_at"] is None:
        assert row["state"] != "paused"
    assert (row["reason"], row["waiting"]) == (cause, 7)
    assert row["since"] < row["next_try_at"]
    await rig.proxy.open()
    await rig.ask("destinations.retry", destination="interchange")
    await rig.until(lambda rows: all(row.state == "delivered" for row in rows))
    row = await listed(rig)
    assert (row["state"], row["reason"], row["since"], row["next_try_at"]) == ("ready", "", None, None)
