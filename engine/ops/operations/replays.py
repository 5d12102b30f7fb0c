"""Acts on bulk runs: many entries replayed or released in journal order, by the engine itself, at a bounded rate.

Which entries (`plan`, `start`): `entries` (a list of numbers), or a filter of `state` (delivered by default),
`channel`, `event`, `patient` (value or system|value), `reason`, `since`, `until` (written as for messages.list).
`destination`: only there; an entry that was never given to it is given to it now, which fills a new destination.
`force`: even what was overtaken by newer data. `rate`: entries a second (200).

    replays.plan      OPERATE   the above -> PLAN
    replays.start     OPERATE   the above, and "rate" -> RUN
    replays.progress  METADATA  {"run": 7} -> RUN
    replays.list      METADATA  {"limit": 50} -> [RUN], newest first
    replays.stop      OPERATE   {"run": 7} -> RUN
    replays.resume    OPERATE   {"run": 7} -> RUN

PLAN: {"count", "first", "last", "events": {"A08": 3}, "states": {"delivered": 3}, "overtaken": 0, "entries": [numbers,
the first 1,000]}; `overtaken` are those that will be refused without `force`.

RUN: {"run": 7, "kind": "replay" | "release", "state": "running" | "stopped" | "done", "by", "filter": {...}, "force",
"destination", "rate", "started_at", "ended_at" | null, "total", "position", "counts": {"delivered": 3, "held": 1,
"refused": 2, "under way": 4}, "refusals": [{"entry", "why"}, the first 100]}. `position` is how many of `total` were
taken up; a filter by patient is shown as "patient": "named".
"""

import asyncio
import re
from typing import Any, Final

from engine.errors import UsageError
from engine.journal.entry import State
from engine.journal.read.selecting import Selected, Selection, select
from engine.journal.write.bulk_replay import Run, RunKind, RunState
from engine.ops.access.role import Permission
from engine.ops.operations.act import Act, Actor, Given
from engine.ops.request import entries_in, moment_in, number_in, run_in, text_in
from engine.pipeline.engine import Engine, now

RATE: Final = 200.0
LEAST_RATE: Final = 0.01
MOST_RATE: Final = 10_000.0
MOST_LISTED: Final = 1_000
MOST_RUNS: Final = 200
# A run keeps that it was about a patient, not about whom; nor what somebody wrote as a reason.
NAMED: Final = "named"
CODE: Final = re.compile(r"[a-z0-9-]{1,64}")
TIMES: Final = ("since", "until")
FILTERS: Final = ("state", "channel", "event", "patient", "reason", "destination", *TIMES)


async def _plan(engine: Engine, _actor: Actor, given: Given) -> Any:
    _rate_in(given)
    found = await _selected(engine, given)
    return {
        "count": len(found.seqs),
        "first": found.seqs[0] if found.seqs else None,
        "last": found.seqs[-1] if found.seqs else None,
        "events": dict(found.events),
        "states": dict(found.states),
        "overtaken": found.overtaken,
        "entries": list(found.seqs[:MOST_LISTED]),
    }


async def _start(engine: Engine, actor: Actor, given: Given) -> Any:
    found = await _selected(engine, given)
    return await begun(engine, actor, given, RunKind.REPLAY, found)


async def _progress(engine: Engine, _actor: Actor, given: Given) -> Any:
    return shown(await engine.bulk_replays.show(run_in(given)))


async def _list(engine: Engine, _actor: Actor, given: Given) -> Any:
    limit = number_in(given, "limit", 50, 1, MOST_RUNS)
    return [shown(run) for run in await engine.bulk_replays.listed(limit)]


async def _stop(engine: Engine, _actor: Actor, given: Given) -> Any:
    return shown(await engine.bulk_replays.stop(run_in(given)))


async def _resume(engine: Engine, _actor: Actor, given: Given) -> Any:
    return shown(await engine.bulk_replays.resume(run_in(given)))


async def begun(engine: Engine, actor: Actor, given: Given, kind: RunKind, found: Selected) -> dict[str, Any]:
    """Begin a run over what was selected and return it as RUN; UsageError where nothing was."""
    if not found.seqs:
        raise UsageError("no entry is meant: `messages list` shows what there is")
    asked = {name: given[name] for name in FILTERS if given.get(name)}
    asked |= {name: moment.isoformat() for name in TIMES if (moment := moment_in(given, name))}  # `12h` is of now
    for name, value in asked.items():
        if name == "patient" or (name == "reason" and not CODE.fullmatch(value)):
            asked[name] = NAMED
    if given.get("entries"):
        asked["entries"] = len(found.seqs)
    run = Run(
        0, kind, actor.name, asked, text_in(given, "destination"), bool(given.get("force")), _rate_in(given),
        RunState.FILLING, now(), None, 0, {},
    )  # fmt: skip
    return shown(await engine.bulk_replays.start(run, found.seqs))


def shown(run: Run) -> dict[str, Any]:
    """Return a run as the RUN of this module; nothing of a patient."""
    return {
        "run": run.number,
        "kind": str(run.kind),
        "state": str(run.state),
        "by": run.by,
        "filter": dict(run.asked),
        "force": run.force,
        "destination": run.destination,
        "rate": run.rate,
        "started_at": run.started_at.isoformat(timespec="milliseconds"),
        "ended_at": run.ended_at.isoformat(timespec="milliseconds") if run.ended_at else None,
        "total": run.total,
        "position": run.position,
        "counts": dict(run.counts),
        "refusals": [{"entry": seq, "why": why} for seq, why in run.refusals],
    }


def selection_in(given: Given, *, state: State | None = None) -> Selection:
    """Return which entries a request means; UsageError for a state, a time or a number that is none."""
    named = text_in(given, "state")
    if named and named not in list(State):
        raise UsageError(f"--state {named} is none of {', '.join(State)}")
    return Selection(
        entries=entries_in(given),
        state=State(named) if named else state,
        channel=text_in(given, "channel"),
        event=text_in(given, "event"),
        patient=text_in(given, "patient"),
        reason=text_in(given, "reason"),
        destination=text_in(given, "destination"),
        since=moment_in(given, "since"),
        until=moment_in(given, "until"),
    )


async def _selected(engine: Engine, given: Given) -> Selected:
    selection = selection_in(given)
    if selection.destination:
        engine.entry_operations.dispatch(selection.destination)
    return await asyncio.to_thread(select, engine.files.data, selection)


def _rate_in(given: Given) -> float:
    rate = given.get("rate")
    if rate is None:
        return RATE
    if isinstance(rate, bool) or not isinstance(rate, int | float) or not LEAST_RATE <= rate <= MOST_RATE:
        raise UsageError(f"rate must be entries a second, from {LEAST_RATE} to {MOST_RATE:.0f}")
    return float(rate)


REPLAYS: Final = (
    Act("replays.plan", Permission.OPERATE, _plan),
    Act("replays.start", Permission.OPERATE, _start),
    Act("replays.progress", Permission.METADATA, _progress),
    Act("replays.list", Permission.METADATA, _list),
    Act("replays.stop", Permission.OPERATE, _stop),
    Act("replays.resume", Permission.OPERATE, _resume),
)
