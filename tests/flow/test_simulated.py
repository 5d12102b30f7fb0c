"""Simulated hospital days through the whole engine: the service ends as the fold says; told again, nothing changes."""

import asyncio
import itertools
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import orjson
import pytest

from tests.flow.proxy import Call, Fault
from tests.flow.rig import Rig, Row, running
from tests.flow.simulated_fold import Fold
from tests.flow.simulated_service import AUTHORITIES, Snapshot, snapshot
from tests.interchange.nursery import ran

EVENTS: Final = 2_000
SWEEP: Final = 10_000
FORCED: Final = 200
SECONDS: Final = 300

Facts = Mapping[str, Mapping[str, object]]

# How many of a thousand messages may be held, by reason; the fold says of each whether it has to be. Who is brought in
# unknown has no birth date, which the service requires, until a later message brings it, or the simulation is over.
# Somebody with several charts finds all of them when registered at another authority. The number of a chart that was
# merged under another of its numbers is changed. A chart that tells of a death is merged into one that does not.
HELD: Final = {
    "missing-required": 3,
    "multiple-matches": 8,
    "source-merged-elsewhere": 3,
    "last-number": 2,
    "death-on-merged-record": 4,
}
WAITING: Final = 60
NEWER: Final = "something newer was applied"


async def simulated(rig: Rig, events: int, seed: int) -> dict[str, Any]:
    """Let the command send a simulation to the engine and return what it tells."""
    host, port = await rig.address()
    arguments = ("simulate", "--to", f"{host}:{port}", "--events", str(events), "--json")
    more = ("--patients", str(max(20, events // 25)), "--seed", str(seed), "--connections", "8")
    done = await asyncio.to_thread(ran, *arguments, *more, timeout=SECONDS)
    report: dict[str, Any] = orjson.loads(done.stdout)
    assert report["totals"] == {"AA": events}
    return report


async def settled(rig: Rig) -> list[Row]:
    """Wait until nothing moves any more and return the entries; what waits, waits behind one that is held."""
    return await rig.until(lambda rows: not any(row.state in {"received", "claimed"} for row in rows), SECONDS)


async def replayed(rig: Rig, rows: Sequence[Row], *, force: bool = False) -> list[Row]:
    """Replay delivered entries, oldest first, and return those that were delivered again; others had newer ones."""
    again = []
    for row in rows:
        answer = await rig.ask("messages.replay", entry=row.seq, force=force)
        if "error" in answer:
            assert NEWER in str(answer["error"]), answer
        else:
            again.append(row)
    return again


def differences(wanted: Facts, found: Facts) -> list[str]:
    """Return what the service has otherwise than the fold."""
    return [
        f"{key}: {name} is {found.get(key, {}).get(name)}, not {wanted.get(key, {}).get(name)}"
        for key in sorted(wanted.keys() | found.keys())
        for name in sorted(wanted.get(key, {}).keys() | found.get(key, {}).keys())
        if wanted.get(key, {}).get(name) != found.get(key, {}).get(name)
    ]


def end_of(row: Row) -> str:
    """Return how an entry ended, in the words of the fold."""
    return f"held {row.reason}" if row.state == "held" else row.state


async def compared(rig: Rig, fold: Fold) -> Snapshot:
    """Compare the service with the fold and return what it has."""
    numbers = sorted({number for record in fold.records for number in (*record.current, *record.old)})
    found = await snapshot(rig, numbers)
    assert "\n".join(differences(fold.facts(), found.facts())) == ""
    return found


@pytest.mark.timeout(1800)
async def test_hospital_days_end_as_the_fold_says_and_replaying_them_changes_nothing(
    tmp_path: Path, seed: int, full_sweep: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every message ends as the fold says, the service holds its facts, and no replay writes or holds anything."""
    events, started = SWEEP if full_sweep else EVENTS, time.monotonic()
    async with running(tmp_path, authorities=AUTHORITIES) as rig:
        await rig.engine.start()
        report = await simulated(rig, events, seed)
        rows = await settled(rig)
        assert len(rows) == events - report["notes"]["duplicate"]
        fold = Fold([row.raw for row in rows])
        told = [(fold.tell(at, end_of(row)), end_of(row), row.control_id) for at, row in enumerate(rows)]
        assert [one for one in told if one[0] != one[1]] == []
        ends = Counter(end for _, end, _ in told)
        assert ends.keys() <= {"delivered", "waiting", *(f"held {reason}" for reason in HELD)}
        assert [one for one, most in HELD.items() if ends[f"held {one}"] > most * events / 1000] == []
        assert ends["waiting"] <= WAITING * events / 1000
        before = await compared(rig, fold)
        again = await replayed(rig, [row for row in rows if row.state == "delivered"])
        assert len(again) > len(before.patients) // 2
        assert Counter(end_of(row) for row in await settled(rig)) == ends
        assert (await snapshot(rig)).versions() == before.versions()
    if full_sweep:
        figures = f"{fold.merges} merges, {len(before.patients)} charts, {len(before.visits)} visits"
        seconds = f"{len(again)} replayed, {time.monotonic() - started:.0f} s"
        with capsys.disabled():
            print(f"\nsimulated: seed {seed}, {events} events, {dict(ends)}, {figures}, {seconds}")  # noqa: T201


@pytest.mark.timeout(900)
async def test_lost_answers_leave_the_same(tmp_path: Path, seed: int) -> None:
    """Every twelfth write is carried out and its answer lost: sent again, it leaves what the fold says, rooms too."""
    writes = itertools.count(1)

    def script(call: Call) -> Fault | None:
        lost = call.method in {"POST", "PUT"} and next(writes) % 12 == 0
        return Fault(status=504, after_commit=True) if lost else None

    async with running(tmp_path, authorities=AUTHORITIES) as rig:
        rig.proxy.script = script
        await rig.engine.start()
        await simulated(rig, FORCED, seed)
        rows = await settled(rig)
        fold = Fold([row.raw for row in rows])
        for at, row in enumerate(rows):
            assert fold.tell(at, end_of(row)) == end_of(row), row.control_id
        await compared(rig, fold)
        assert rig.proxy.faults > FORCED // 20


@pytest.mark.timeout(900)
async def test_what_is_told_again_by_force_leaves_what_telling_it_twice_would(tmp_path: Path, seed: int) -> None:
    """Older messages told again in their order: the service holds what the fold makes of all of them, told twice."""
    async with running(tmp_path, authorities=AUTHORITIES) as rig:
        await rig.engine.start()
        await simulated(rig, FORCED, seed)
        rows = await settled(rig)
        done = [row for row in rows if row.state == "delivered"]
        assert len(await replayed(rig, done, force=True)) == len(done) > FORCED // 2
        assert Counter(end_of(row) for row in await settled(rig)) == Counter(map(end_of, rows))
        fold = Fold([row.raw for row in (*rows, *done)])
        for at, row in enumerate((*rows, *done)):
            if at == len(rows):
                fold.over_again()
            assert fold.tell(at, end_of(row)) == end_of(row), row.control_id
        await compared(rig, fold)
