"""One entry that the destination always fails: everybody else is delivered, and it ends held, in its own lane only."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import orjson
import pytest

from tests.flow.feed import FeedMessage
from tests.flow.hapi_like import HapiRig
from tests.flow.proxy import PATIENT, Call, Fault
from tests.flow.rig import Rig, Row, channel_file, destination, running
from tests.flow.test_brakes import merge, person, the, up

OTHERS: Final = 50
FLOWS_SECONDS: Final = 30.0
HELD: Final = ("held", "server-error")
BROKEN: Final = Fault(status=500)
BUSY: Final = Fault(status=503, headers={"Retry-After": "1"})
LOST: Final = Fault(drop=True)
HANG: Final = Fault(status=504, wait_seconds=1.2)


def described(rig: Rig, **retry: Any) -> None:
    """Describe a destination that holds after eight failures within a second, so that no test waits for minutes."""
    waits = {"first_seconds": 0.05, "max_seconds": 0.4, "hold_after_tries": 8, "hold_after_seconds": 1.0} | retry
    other = {"auth": {"type": "none"}, "if_none_exist": "identifier"} if isinstance(rig, HapiRig) else {}
    one = destination(rig.proxy.url, retry=waits, timeout_seconds=1, **other)
    content = channel_file(rig.proxy.url) | {"destinations": [one]}
    (rig.folder / "channels" / "riverbend-adt.yaml").write_bytes(orjson.dumps(content))


def _strikes(fault: Fault, *families: str) -> Callable[[Call], Fault | None]:
    """Return a script by which every write of people with these family names goes wrong."""
    marks = [family.encode() for family in families]
    return lambda call: fault if call.writes and any(mark in call.body for mark in marks) else None


def _family(number: int) -> str:
    return f"Quint{number:06d}"


def _of(rows: list[Row], name: str) -> Row:
    return next(row for row in rows if row.control_id == name)


def _others(rows: list[Row], *poisons: str) -> list[Row]:
    return [row for row in rows if row.control_id not in poisons]


def _all_delivered(rows: list[Row]) -> bool:
    return len(rows) >= OTHERS and {row.state for row in rows} == {"delivered"}


async def _tried(rig: Rig, times: int) -> None:
    """Wait until the destination has failed so often."""
    async with asyncio.timeout(60):
        while rig.proxy.faults < times:  # noqa: ASYNC110 - another process asks
            await asyncio.sleep(0.02)


@pytest.mark.parametrize(
    ("fault", "quiet"),
    [
        pytest.param(BROKEN, True, id="500-quiet"),
        pytest.param(BROKEN, False, id="500-busy"),
        pytest.param(BUSY, True, id="503-with-retry-after-quiet"),
        pytest.param(LOST, False, id="line-breaks-busy"),
        pytest.param(HANG, True, id="timeout-quiet"),
    ],
)
async def test_one_poison_stops_nobody_else(tmp_path: Path, fault: Fault, quiet: bool) -> None:
    """Fifty others are delivered while one entry fails on and on, whoever came first; then it alone is held."""
    async with running(tmp_path) as rig:
        described(rig, hold_after_tries=5)
        await up(rig)
        rig.proxy.script = _strikes(fault, _family(0))
        if quiet:
            await rig.sender([person(0)], 1).run()
            await _tried(rig, 6)
        feed = [person(number) for number in range(int(quiet), OTHERS + 1)]
        later = FeedMessage("L0", 0, person(0).raw.replace(b"|P0|", b"|L0|"), "")
        await rig.sender([*feed, later], 8).run()
        await rig.until(lambda rows: _all_delivered(_others(rows, "P0", "L0")), FLOWS_SECONDS)
        rows = await rig.until(lambda rows: _of(rows, "P0").state == "held", FLOWS_SECONDS)
        assert (_of(rows, "P0").state, _of(rows, "P0").reason) == HELD
        assert _of(rows, "L0").state == "waiting"
        assert [row.control_id for row in rows if row.state == "held"] == ["P0"]
        rig.proxy.script = lambda _call: None
        await rig.ask("messages.release", entry=_of(rows, "P0").seq)
        await rig.until(_all_delivered)
        assert len(await rig.numbered("RB-0")) == 1


async def test_two_poisons_and_a_merge_among_them(tmp_path: Path) -> None:
    """Entries that fail do not vouch for one another: each is held, a merge too, and everybody else is delivered."""
    async with running(tmp_path) as rig:
        described(rig)
        await up(rig)
        await rig.sender([person(1), person(2)], 1).run()
        await rig.drained()
        strikes = _strikes(BROKEN, _family(0))
        rig.proxy.script = lambda call: BROKEN if call.path.endswith("$merge") else strikes(call)
        await rig.sender([merge(1), person(0)], 2).run()
        await _tried(rig, 5)
        await rig.sender([person(number) for number in range(3, OTHERS + 3)], 8).run()
        poisons = ("M1", "P0")
        await rig.until(lambda rows: _all_delivered(_others(rows, *poisons)), FLOWS_SECONDS)
        rows = await rig.until(lambda rows: {_of(rows, name).state for name in poisons} == {"held"}, FLOWS_SECONDS)
        assert {(_of(rows, name).state, _of(rows, name).reason) for name in poisons} == {HELD}


async def test_the_poison_as_head_after_a_restart(tmp_path: Path) -> None:
    """A new life begins with the oldest entry, which fails again; nobody behind it waits for that."""
    async with running(tmp_path) as rig:
        described(rig)
        await up(rig)
        rig.proxy.script = lambda call: BROKEN if call.path.startswith(PATIENT) else None
        await rig.sender([person(number) for number in range(OTHERS + 1)], 8).run()
        await _tried(rig, 8)
        assert await rig.engine.stop() == 0
        rig.proxy.script = _strikes(BROKEN, _family(0))
        await up(rig)
        await rig.until(lambda rows: _all_delivered(_others(rows, "P0")), FLOWS_SECONDS)
        rows = await rig.until(lambda rows: _of(rows, "P0").state == "held", FLOWS_SECONDS)
        assert (_of(rows, "P0").state, _of(rows, "P0").reason) == HELD


async def test_an_outage_holds_nobody(tmp_path: Path) -> None:
    """A server that fails on everything is waited for: the breaker opens, and nothing is held for it afterwards."""
    async with running(tmp_path) as rig:
        described(rig, hold_after_tries=2, hold_after_seconds=0.0)
        await up(rig)
        await rig.sender([person(number) for number in range(5)], 4).run()
        await rig.drained()
        rig.proxy.script = lambda call: BROKEN if call.path.startswith(PATIENT) else None
        await rig.sender([person(number) for number in range(5, OTHERS)], 8).run()
        await _tried(rig, 5)
        while (await the(rig, "destinations.list"))["state"] != "open":  # noqa: ASYNC110 - another process says
            await asyncio.sleep(0.02)
        await _tried(rig, rig.proxy.faults + 1)  # a probe
        assert not [row for row in rig.rows() if row.state == "held"]
        rig.proxy.script = lambda _call: None
        await rig.until(_all_delivered, 90.0)


async def test_a_chain_of_merges_that_a_server_never_carries_out(tmp_path: Path) -> None:
    """HAPI answers 500 for ever to some: held in its own lanes, and one write that fails so, too; others flow."""
    rig = HapiRig(tmp_path)
    try:
        await rig.open()
        described(rig, hold_after_tries=4)
        rig.hapi.breaks_on_chains, rig.hapi.broken = True, {"RB-40"}
        await up(rig)
        await rig.sender([person(1), person(2), person(3), merge(2), merge(1), person(40)], 1).run()
        await rig.until(lambda rows: [row.reason for row in rows[4:]] == ["http-500"] * 2)
        await rig.sender([person(number) for number in range(60, 60 + OTHERS)], 8).run()
        rows = await rig.until(lambda rows: len(_ended(rows)) == len(rows) == OTHERS + 6, 2 * FLOWS_SECONDS)
        assert {row.control_id: (row.state, row.reason) for row in rows if row.state == "held"} == {
            "M1": HELD,
            "P40": HELD,
        }
        assert {call.path for call in rig.proxy.calls if "$" in call.path} == {f"{PATIENT}/$hapi.fhir.merge"}
        rig.hapi.breaks_on_chains, rig.hapi.broken = False, set()
        for name in ("M1", "P40"):
            await rig.ask("messages.release", entry=_of(rows, name).seq)
        await rig.until(_all_delivered)
        assert len(rig.hapi.numbered("RB-40")) == 1
    finally:
        await rig.close()


def _ended(rows: list[Row]) -> list[Row]:
    return [row for row in rows if row.state in {"delivered", "held"}]
