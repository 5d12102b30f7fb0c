"""Counts and series: what stands, came, ended and was answered, and which codes no table knows."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest

from engine.errors import UsageError
from engine.journal.entry import AckOutcome, State
from engine.journal.state import memory
from engine.ops.operations.messages import CountMessages, ListCodeValues, ListUnmapped, ShowThroughput, Stats
from tests.journal.desk import NOW, Desk, open_desk, settlement
from tests.ops.reading import reading

counted = reading(CountMessages)
passed = reading(ShowThroughput)
stood = reading(Stats)
unmapped = reading(ListUnmapped)
values = reading(ListCodeValues)

ROUGHLY = partial(pytest.approx, rel=0.04)
AROUND = {"since": "2026-03-01T11:00Z", "until": "2026-03-01T14:00Z"}
PID = "MSH|^~\\&|ADT|RVB|||1||ADT^A08|{0}|P|2.5.1\rPID|1||1^^^RVB^MR||A^B|||F||{1}\r"


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    """Entries of two channels: delivered, held, refused, filtered and tried again, within two hours."""
    moments = iter(NOW + timedelta(milliseconds=wait) for wait in (3, 70, 8, 9))
    async with open_desk(tmp_path, lambda: next(moments)) as desk:
        await _fill(desk)
        yield desk


async def _fill(desk: Desk) -> None:
    later = NOW + timedelta(hours=1)
    for number, race in enumerate(("X1", "X1~X2", "X2"), 1):
        await desk.record(f"c{number}", (f"s|{number}",), raw=PID.format(f"c{number}", race).encode())
    await desk.record("c4", ("s|4",), channel="lab", received_at=later)
    await desk.record("c5", channel="lab", received_at=later, state=State.REJECTED, reason="no-identity")
    await desk.record("c6", channel="lab", received_at=later, state=State.FILTERED, reason="query")
    await desk.claim()
    await desk.deliver(1, notes=("unmapped-code PID-10", "unmapped-code PID-8"))
    await desk.deliver(2, notes=("unmapped-code PID-10",))
    await desk.journal.settle(settlement(3, State.HELD, reason="http-422", notes=("unmapped-code PID-10",)))
    await desk.journal.settle(settlement(4, State.RECEIVED, reason="timeout", retry_at=later))
    for seq in (1, 2):
        desk.journal.acknowledged(seq, AckOutcome.SENT)
    desk.journal.acknowledged(3, AckOutcome.UNSENT)
    await desk.discard(3, "no need", "somebody")
    await _written(desk)
    desk.journal.acknowledged(1, AckOutcome.SENT)  # a message that was sent again is not counted again
    await _written(desk)


async def _written(desk: Desk) -> None:
    async with asyncio.timeout(60):
        while desk.journal._group._acknowledged:  # noqa: ASYNC110 - the loop itself writes them
            await asyncio.sleep(0.01)
    await desk.remembered(memory.known, "d", [])


async def test_counts_tell_what_stands_and_what_came_and_ended(desk: Desk) -> None:
    """By channel and destination, in a time; the queue with its oldest."""
    found = counted(desk.folder, AROUND)
    assert (found["entries"], found["last"]) == (6, 6)
    assert found["at_door"] == {"rejected": 1, "filtered": 1}
    assert found["deliveries"] == {"d": {"received": 1, "discarded": 1}}
    assert found["queues"]["d"]["unfinished"] == 1
    assert found["queues"]["d"]["oldest_at"] == "2026-03-01T13:00:00.000+00:00"
    assert found["queues"]["d"]["age_seconds"] > 0
    assert found["received"] == {
        "adt": {"received": 3, "refused": 0, "filtered": 0},
        "lab": {"received": 3, "refused": 1, "filtered": 1},
    }
    assert found["settled"] == {"d": {"delivered": 2, "held": 1, "retried": 1}}
    assert stood(desk.folder, {}).items() <= found.items()


async def test_a_time_without_anything_counts_nothing(desk: Desk) -> None:
    """Before everything, and by default the last 24 hours."""
    found = counted(desk.folder, {"since": "2026-02-01", "until": "2026-02-02"})
    assert (found["received"], found["settled"]) == ({}, {})


async def test_throughput_is_told_in_buckets(desk: Desk) -> None:
    """A bucket an hour, each series as long as the times; waits only where something was answered."""
    found = passed(desk.folder, AROUND | {"points": 3})
    assert found["seconds"] == 3600
    assert [at[11:16] for at in found["at"]] == ["11:00", "12:00", "13:00", "14:00"]
    assert found["received"] == {"adt": [0, 3, 0, 0], "lab": [0, 0, 3, 0]}
    assert found["refused"] == {"lab": [0, 0, 1, 0]}
    assert found["settled"] == {"d": {"delivered": [0, 2, 0, 0], "held": [0, 1, 0, 0], "retried": [0, 1, 0, 0]}}
    assert found["ack_ms"] == {"adt": {"p50": [None, ROUGHLY(3), None, None], "p99": [None, ROUGHLY(70), None, None]}}


async def test_throughput_of_one_channel_leaves_the_others_out(desk: Desk) -> None:
    """What was received and answered; settlements are of destinations, which channels share."""
    found = passed(desk.folder, AROUND | {"channel": "lab"})
    assert found["seconds"] == 60
    assert list(found["received"]) == ["lab"]
    assert found["ack_ms"] == {}


async def test_a_long_time_is_told_in_days(desk: Desk) -> None:
    """A year has no more points than were asked for."""
    found = passed(desk.folder, {"since": "2025-06-01T00:00Z", "until": "2026-06-01T00:00Z", "points": 100})
    assert found["seconds"] == 4 * 86_400
    assert len(found["at"]) <= 101
    assert sum(found["received"]["adt"]) == 3


async def test_as_many_points_as_can_be_drawn(desk: Desk) -> None:
    """Neither none nor a million."""
    for points in (0.5, -1, 10**6, "many"):
        with pytest.raises(UsageError, match="--points"):
            passed(desk.folder, AROUND | {"points": points})


async def test_codes_without_a_mapping_are_told_by_place(desk: Desk) -> None:
    """Most frequent first, with the newest entry; none of a channel that had none."""
    found = unmapped(desk.folder, AROUND)
    assert [(one["place"], one["channel"], one["entries"], one["last"], one["back_to"]) for one in found["codes"]] == [
        ("PID-10", "adt", 3, 3, None),
        ("PID-8", "adt", 1, 1, None),
    ]
    assert unmapped(desk.folder, AROUND | {"channel": "lab"})["codes"] == []


async def test_what_stood_there_is_told_to_who_may_see_patients(desk: Desk) -> None:
    """Each value once a message, most frequent first."""
    found = values(desk.folder, AROUND | {"place": "PID-10"})
    assert found == {
        "values": [{"value": "X1", "entries": 2, "last": 2}, {"value": "X2", "entries": 2, "last": 3}],
        "looked_at": 3,
    }
    with pytest.raises(UsageError, match="PID-10"):
        values(desk.folder, {"place": "everywhere"})


async def test_values_are_read_in_the_character_set_of_their_channel(tmp_path: Path) -> None:
    """MSH-18 is empty: each channel says for itself; of one that is not known UTF-8 and Latin-1 are tried."""
    async with open_desk(tmp_path) as desk:
        for number, channel in enumerate(("adt", "lab", "gone"), 1):
            raw = PID.format(f"c{number}", "ć").encode("iso8859-2")
            await desk.record(f"c{number}", (f"s|{number}",), raw=raw, channel=channel)
        await desk.claim()
        for number in (1, 2, 3):
            await desk.deliver(number, notes=("unmapped-code PID-10",))
    request = ListCodeValues.parse(AROUND | {"place": "PID-10"})
    found = request.read(tmp_path, {"adt": "8859/2", "lab": "WINDOWS1251"})
    assert {value.last: value.value for value in found.values} == {1: "ć", 2: "ж", 3: "æ"}
