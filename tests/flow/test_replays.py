"""Bulk replays by the running engine: in order beside new traffic, resumed after a kill, refused where overtaken."""

import asyncio
import contextlib
import signal
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import orjson

from tests.flow.operator import configured, done, ended, finished, message, refused, sent, started
from tests.flow.rig import Rig, Row

PEOPLE = 8
ROUNDS = 6


def phones(rows: list[Row]) -> dict[int, str]:
    """Return the telephone number that each entry tells, by entry."""
    return {row.seq: row.raw.decode().rpartition("^503^")[2].strip() for row in rows}


async def told(rig: Rig) -> dict[str, list[str]]:
    """Return the telephone numbers of each person at the service, by medical record number."""
    return {
        identifier["value"]: [telecom["value"] for telecom in body.get("telecom", ())]
        for body in (await rig.patients()).values()
        for identifier in body["identifier"]
        if identifier["value"].startswith("RB-")
    }


async def spoken(rig: Rig) -> dict[str, int]:
    """Let each of some people be told of several times; return the newest number of each."""
    newest = {}
    for turn in range(ROUNDS):
        raws = []
        for who in range(PEOPLE):
            newest[f"RB-{who}"] = 1000 + turn * PEOPLE + who
            raws.append(message(f"C{turn}-{who}", f"RB-{who}", phone=f"555{newest[f'RB-{who}']}"))
        await sent(rig, *raws)
    await rig.drained()
    return newest


async def test_what_was_delivered_is_replayed_without_a_change(rig: Rig) -> None:
    """The newest of each patient is delivered again as unchanged; the others are refused, and the service stays."""
    await started(rig)
    await spoken(rig)
    before = await rig.patients()
    plan = await done(rig, "replays.plan")
    assert (plan["count"], plan["overtaken"], plan["events"]) == (48, 40, {"A08": 48})
    run = await done(rig, "replays.start", rate=500)
    run = await finished(rig, run["run"])
    assert (run["state"], run["position"], run["counts"]) == ("done", 48, {"delivered": 8, "refused": 40})
    assert "--force" in run["refusals"][0]["why"]
    assert await rig.patients() == before
    assert [one["run"] for one in await done(rig, "replays.list")] == [1]


async def test_new_traffic_is_never_gone_over(rig: Rig) -> None:
    """However forced replays and new messages mix, each patient's reach the server in order, and the newest remains."""
    await started(rig)
    await spoken(rig)
    before = len(rig.attempts())
    run = await done(rig, "replays.start", rate=12, force=True)
    newest = {}
    for turn in range(6):
        for who in range(PEOPLE // 2):
            newest[f"RB-{who}"] = f"5552{turn}{who:02d}"
            await sent(rig, message(f"N{turn}-{who}", f"RB-{who}", phone=newest[f"RB-{who}"]))
    run = await finished(rig, run["run"])
    await rig.drained()
    assert run["counts"]["delivered"] + run["counts"].get("refused", 0) == 48
    assert all("since the run began" in one["why"] for one in run["refusals"])
    number = {row.seq: row.raw.split(b"PID|1||")[1].split(b"^")[0].decode() for row in rig.rows()}
    order = defaultdict(list)
    for tried in rig.attempts()[before:]:
        order[number[tried.seq]].append(tried.seq)
    assert [seqs for seqs in order.values() if seqs != sorted(seqs)] == []
    found = await told(rig)
    assert {who: found[who][-1][-7:] for who in newest} == newest


async def test_a_run_is_resumed_after_a_kill(rig: Rig) -> None:
    """Killed between asking and enqueuing, the restarted engine goes on by itself; each entry is taken up once."""
    await started(rig)
    await spoken(rig)
    before = await rig.patients()
    assert await rig.engine.stop() == 0
    await started(rig, ENGINE_FAULT="F19:kill:4")
    with contextlib.suppress(OSError, orjson.JSONDecodeError):
        await done(rig, "replays.start", rate=10)
    assert await rig.engine.ended() == -signal.SIGKILL
    await started(rig)
    run = await finished(rig, 1)
    assert (run["state"], run["position"], run["counts"]) == ("done", 48, {"delivered": 8, "refused": 40})
    assert await rig.patients() == before


async def test_a_stopped_run_is_resumed_when_asked(rig: Rig) -> None:
    """Stopped by an operator it stays so, over a restart too."""
    await started(rig)
    await spoken(rig)
    run = (await done(rig, "replays.start", rate=5))["run"]
    stopped = await done(rig, "replays.stop", run=run)
    assert stopped["state"] == "stopped"
    assert stopped["position"] < 48
    assert await rig.engine.stop() == 0
    await started(rig)
    assert (await done(rig, "replays.progress", run=run))["state"] == "stopped"
    assert (await done(rig, "replays.resume", run=run))["state"] == "running"
    await done(rig, "replays.stop", run=run)
    assert "no run 99" in await refused(rig, "replays.stop", run=99)


async def test_a_paused_run_shows_how_far_it_is_and_goes_on_when_resumed(rig: Rig) -> None:
    """Paused it stays so over a restart; what it had taken up ends; resumed, it ends with each entry once."""
    await started(rig)
    await spoken(rig)
    run = (await done(rig, "replays.start", rate=5))["run"]
    paused = await done(rig, "replays.pause", run=run)
    assert (paused["state"], paused["ended_at"]) == ("paused", None)
    assert 0 < paused["position"] < 48
    shown = await until_run(rig, run, lambda one: one["done"] == one["position"])
    assert shown["done"] == paused["position"]
    assert await rig.engine.stop() == 0
    await started(rig)
    assert (await done(rig, "replays.progress", run=run))["state"] == "paused"
    assert (await done(rig, "replays.resume", run=run))["state"] == "running"
    assert (await done(rig, "replays.pause", run=run))["state"] == "paused"
    stopped = await done(rig, "replays.stop", run=run)
    assert stopped["state"] == "stopped"
    assert stopped["ended_at"]
    assert (await done(rig, "replays.pause", run=run))["state"] == "stopped"
    assert "no run 99" in await refused(rig, "replays.pause", run=99)


async def test_a_running_run_says_its_rate_and_the_time_that_is_left(rig: Rig) -> None:
    """After two looks a second apart: entries a second, seconds at that rate; none of it once it has ended."""
    await started(rig)
    await spoken(rig)
    run = (await done(rig, "replays.start", rate=20))["run"]
    shown = await until_run(rig, run, lambda one: one["state"] != "running" or bool(one["seconds_left"]))
    assert shown["per_second"] > 0
    assert shown["seconds_left"] > 0
    shown = await finished(rig, run)
    assert (shown["done"], shown["per_second"], shown["seconds_left"]) == (48, None, None)


async def until_run(rig: Rig, run: int, reached: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """Ask for a run until it is as wanted, and return it."""
    while True:
        shown: dict[str, Any] = await done(rig, "replays.progress", run=run)
        if reached(shown):
            return shown


async def test_what_failed_since_a_time_is_tried_by_reason_and_retried(rig: Rig) -> None:
    """A dry run counts what would be delivered and what not, by reason; the run takes up what failed since then."""
    await started(rig)
    await configured(rig, merge_conflict="hold")
    await sent(
        rig,
        message("C1", "RB-1", event="A28"),
        message("C2", "RB-2", event="A28", family="Other", born="19500101").replace(b"Marisol", b"Ana"),
        message("C3", "RB-1", event="A40", more="MRG|RB-2^^^RVB^MR\r"),
        message("H4", "RB-4", event="A28", born=""),
        message("H5", "RB-5", event="A28", born=""),
    )
    await rig.until(ended("delivered", "delivered", "held", "held", "held"))
    plan = await done(rig, "lanes.plan", since="1h")
    assert (plan["count"], plan["tried"], plan["deliver"]) == (3, 3, 1)
    assert plan["outlook"] == [{"verdict": "held", "reason": "missing-required", "entries": 2}]
    plan = await done(rig, "lanes.plan", since="1h", retry=True)
    assert {(one["reason"], one["entries"]) for one in plan["outlook"]} == {
        ("missing-required", 2),
        ("merge-conflict", 1),
    }
    await sent(rig, message("H6", "RB-6", event="A28", born=""))
    await rig.until(ended("delivered", "delivered", "held", "held", "held", "held"))
    rows = await done(rig, "lanes.list")
    since = rows[-1]["held_since"]
    late = [row["entry"] for row in rows if row["held_since"] >= since]
    assert late == [6]
    assert [row["entry"] for row in await done(rig, "lanes.list", since=since)] == late
    assert (await done(rig, "lanes.plan", since=since, dry_run=False))["count"] == 1
    assert (await done(rig, "lanes.plan", since="2100-01-01"))["count"] == 0
    plan = await done(rig, "lanes.plan", entries=[1, 4], retry=True)
    assert [(one["entry"], one["verdict"]) for one in plan["again"]] == [(1, "refused"), (4, "held")]
    run = await finished(rig, (await done(rig, "lanes.release", since="1h"))["run"])
    assert (run["counts"], run["held"]) == ({"delivered": 1, "held": 3}, 3)


async def test_failed_means_held_or_rejected_at_a_destination(rig: Rig) -> None:
    """One word for lists and replays; what was refused on arrival, or waits, is not among it."""
    await started(rig)
    both = message("C1", "RB-1", event="A28").replace(b"RB-1^^^RVB^MR", b"RB-1^^^RVB^MR~RB-9^^^RVB^MR")
    await sent(
        rig,
        both,
        message("C2", "RB-1", event="A40", more="MRG|RB-9^^^RVB^MR\r"),
        message("H3", "RB-3", event="A28", born=""),
        message("H4", "RB-3", event="A28", born=""),
        message("R5", "", event="A28"),
    )
    await rig.until(ended("delivered", "rejected", "held", "waiting", "rejected"))
    assert [row["entry"] for row in (await done(rig, "messages.list", state="failed"))["entries"]] == [3, 2]
    assert [row["entry"] for row in (await done(rig, "messages.list", state="rejected"))["entries"]] == [5, 2]
    assert "failed" in await refused(rig, "messages.list", state="broken")
    plan = await done(rig, "replays.plan", state="failed", dry_run=True)
    assert (plan["count"], plan["entries"], plan["deliver"]) == (2, [2, 3], 0)
    assert {(one["verdict"], one["reason"]) for one in plan["outlook"]} == {
        ("rejected", "self-merge"),
        ("held", "missing-required"),
    }
    run = await finished(rig, (await done(rig, "replays.start", state="failed"))["run"])
    assert run["counts"] == {"rejected": 1, "held": 1}


async def test_a_new_destination_is_filled(rig: Rig) -> None:
    """Older entries are given to it in their order, and it holds what the first one holds."""
    await started(rig)
    await sent(rig, message("C1", "RB-1"), message("C2", "RB-1", phone="5550101"))
    await rig.drained()
    first = (await _destinations(rig))[0]
    other = first | {"name": "second", "if_none_exist": "identifier"}
    await configured(rig, destinations=[first, other])
    assert "no destination third" in await refused(rig, "replays.plan", destination="third")
    assert (await done(rig, "replays.plan", destination="second"))["count"] == 2
    run = await finished(rig, (await done(rig, "replays.start", destination="second"))["run"])
    assert run["counts"] == {"delivered": 2}
    shown = await done(rig, "messages.show", entry=1)
    assert [(one["destination"], one["state"]) for one in shown["deliveries"]] == [
        ("interchange", "delivered"),
        ("second", "delivered"),
    ]


async def _destinations(rig: Rig) -> list[dict[str, Any]]:
    content = (rig.folder / "channels" / "riverbend-adt.yaml").read_bytes()
    found: list[dict[str, Any]] = orjson.loads(content)["destinations"]
    return found


async def test_what_is_held_is_released_in_bulk(rig: Rig) -> None:
    """Lanes are listed with what waits, released by reason, and what waited runs behind them."""
    await started(rig)
    for who in range(3):
        await sent(rig, message(f"H{who}", f"RB-{who}", event="A28", born=""))
    await rig.until(ended("held", "held", "held"))
    rows = await done(rig, "lanes.list", reason="missing-required")
    assert [(row["entry"], row["waiting"]) for row in rows] == [(at, {"entries": 0, "patients": 1}) for at in (1, 2, 3)]
    run = await finished(rig, (await done(rig, "lanes.release", reason="missing-required"))["run"])
    assert (run["kind"], run["counts"]) == ("release", {"held": 3})
    assert "no entries match" in await refused(rig, "lanes.release", reason="http-422")
    await sent(rig, message("L1", "RB-1"))
    await rig.until(ended("held", "delivered", "held", "delivered"))


async def test_what_waits_is_shown_before_one_decides(rig: Rig) -> None:
    """The entries of the lane in order, without anything of the patient."""
    await started(rig)
    await configured(rig, merge_conflict="hold", contact="ADT desk 4711")
    await sent(
        rig,
        message("C1", "RB-1", event="A28"),
        message("C2", "RB-2", event="A28", family="Other", born="19500101").replace(b"Marisol", b"Ana"),
        message("C3", "RB-1", event="A40", more="MRG|RB-2^^^RVB^MR\r"),
        message("C4", "RB-1"),
        message("C5", "RB-2", family="Other", born="19500101"),
    )
    await rig.until(ended("delivered", "delivered", "held", "waiting", "waiting"))
    held = await done(rig, "lanes.show", entry=3)
    assert (held["reason"], held["contact"], held["waiting"]) == (
        "merge-conflict", "ADT desk 4711", {"entries": 2, "patients": 1}
    )  # fmt: skip
    assert [(row["entry"], row["event"], row["state"]) for row in held["waits"]] == [
        (4, "A08", "waiting"),
        (5, "A08", "waiting"),
    ]
    await done(rig, "messages.discard", entry=3, reason="two people")
    await rig.until(ended("delivered", "delivered", "discarded", "delivered", "delivered"))


async def test_four_runs_at_once_are_enough(rig: Rig) -> None:
    """A fifth is refused until one has ended."""
    await started(rig)
    await spoken(rig)
    runs = [(await done(rig, "replays.start", rate=1))["run"] for _ in range(4)]
    assert "4 runs" in await refused(rig, "replays.start")
    await asyncio.gather(*(done(rig, "replays.stop", run=run) for run in runs))
    assert (await done(rig, "replays.start", rate=500))["state"] == "running"


async def test_a_message_is_shown_in_the_character_set_of_its_channel(rig: Rig) -> None:
    """MSH-18 is empty and the channel says ISO 8859-1: names are read so by people, too."""
    await started(rig)
    await configured(rig, charset="8859/1")
    await sent(rig, message("C1", "RB-1", event="A28", family="Müller").decode().encode("latin-1"))
    await rig.until(ended("delivered"))
    shown = await done(rig, "messages.show", entry=1)
    assert "Müller" in shown["message"]
    assert "Müller" in shown["who"]["name"]
    assert (shown["charset"], shown["guessed_charset"]) == ("8859/1", "")
    assert "Müller" in (await done(rig, "messages.named", entries=[1]))[0]["name"]
    assert "Müller" in (await done(rig, "patients.find", patient="RB-1"))[0]["name"]
    assert "Müller" in (await done(rig, "patients.show", entry=1))["name"]
    exported = await done(rig, "messages.export", reason="a complaint")
    assert "Müller" in exported["entries"][0]["message"]
