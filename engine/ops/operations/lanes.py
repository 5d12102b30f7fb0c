"""Acts on lanes: what is held and what waits behind it, shown before one decides; release in bulk.

    lanes.list     METADATA  {"reason", "channel", "destination", "limit": 200} -> [HELD], the oldest first
    lanes.show     METADATA  {"entry": 37, "destination", "limit": 200} -> HELD and "waits": [ROW] in lane order
    lanes.release  OPERATE   {"reason", "channel", "destination", "rate"} -> RUN (see replays.py)

HELD: {"entry", "destination", "lanes": [numbers], "channel", "contact", "event", "control_id", "received_at",
"reason", "held_since", "age_seconds", "waiting": {"entries": 4, "patients": 2}, "more": false}. `more` says that the
counts are bounded and there are more. ROW: {"entry", "event", "control_id", "channel", "received_at", "state"}. An
entry that is held at several destinations is shown at each.
"""

import asyncio
from functools import partial
from typing import Any, Final

from engine.journal.entry import State
from engine.journal.read.holding import Held, Waiting, held, held_at
from engine.journal.read.selecting import select
from engine.journal.write.bulk_replay import RunKind
from engine.ops.access.role import Permission
from engine.ops.operations.act import Act, Actor, Given
from engine.ops.operations.replays import begun, selection_in
from engine.ops.request import entry_in, number_in, text_in
from engine.pipeline.engine import Engine, now

MOST_ROWS: Final = 1_000


async def _list(engine: Engine, _actor: Actor, given: Given) -> Any:
    names = {name: text_in(given, name) for name in ("reason", "channel", "destination")}
    rows = await asyncio.to_thread(
        partial(held, engine.files.data, limit=number_in(given, "limit", 200, 1, MOST_ROWS), **names)
    )
    return [_shown(engine, row) for row in rows]


async def _show(engine: Engine, _actor: Actor, given: Given) -> Any:
    destination, limit = text_in(given, "destination"), number_in(given, "limit", 200, 1, MOST_ROWS)
    row, waits = await asyncio.to_thread(held_at, engine.files.data, entry_in(given), destination, limit)
    return {**_shown(engine, row), "waits": [_row(one) for one in waits]}


async def _release(engine: Engine, actor: Actor, given: Given) -> Any:
    allowed = ("reason", "channel", "destination")
    named = {name: given[name] for name in allowed if given.get(name)}
    selection = selection_in(named, state=State.HELD)
    if selection.destination:
        engine.entry_operations.dispatch(selection.destination)
    found = await asyncio.to_thread(select, engine.files.data, selection)
    return await begun(engine, actor, {**named, "rate": given.get("rate")}, RunKind.RELEASE, found)


def _shown(engine: Engine, row: Held) -> dict[str, Any]:
    feed = engine.feeds.get(row.channel)
    return {
        "entry": row.seq,
        "destination": row.destination,
        "lanes": list(row.lanes),
        "channel": row.channel,
        "contact": feed.channel.contact if feed else "",
        "event": row.event,
        "control_id": row.control_id,
        "received_at": row.received_at.isoformat(timespec="milliseconds"),
        "reason": row.reason,
        "held_since": row.since.isoformat(timespec="milliseconds") if row.since else None,
        "age_seconds": round((now() - row.since).total_seconds()) if row.since else None,
        "waiting": {"entries": row.entries, "patients": row.patients},
        "more": row.more,
    }


def _row(one: Waiting) -> dict[str, Any]:
    return {
        "entry": one.seq,
        "event": one.event,
        "control_id": one.control_id,
        "channel": one.channel,
        "received_at": one.received_at.isoformat(timespec="milliseconds"),
        "state": str(one.state),
    }


LANES: Final = (
    Act("lanes.list", Permission.METADATA, _list),
    Act("lanes.show", Permission.METADATA, _show),
    Act("lanes.release", Permission.OPERATE, _release),
)
