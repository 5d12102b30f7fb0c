"""Entries as plain values: what goes over the admin socket and out with --json."""

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import orjson

from engine.errors import UsageError
from engine.journal.entry import State
from engine.journal.reading import AttemptView, DeliveryView, EntryView, Filters, Reader, Row

MOST_ROWS = 1000


def filters_of(given: Mapping[str, Any]) -> Filters:
    """Return the filters a request names; UsageError for a state or time that is none."""
    words = {name: str(given.get(name) or "") for name in ("channel", "event", "control_id", "patient", "visit")}
    state, since = str(given.get("state") or ""), str(given.get("since") or "")
    if state and state not in list(State):
        raise UsageError(f"--state {state} is none of {', '.join(State)}")
    try:
        moment = datetime.fromisoformat(since).astimezone() if since else None
    except ValueError as error:
        raise UsageError(f"--since {since} is no time: write 2025-07-01 or 2025-07-01T09:30") from error
    return Filters(state=State(state) if state else None, since=moment, **words)


def listed(folder: Path, given: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return entries as rows, newest first; at most 1,000."""
    limit = min(max(int(given.get("limit") or 50), 1), MOST_ROWS)
    before = given.get("before")
    with Reader(folder) as reader:
        return [row_of(row) for row in reader.list(filters_of(given), limit, int(before) if before else None)]


def shown(folder: Path, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return one entry in full; UnknownEntryError where there is none."""
    with Reader(folder) as reader:
        return _entry(reader.show(int(given["entry"])))


def counted(folder: Path) -> dict[str, Any]:
    """Return the counts of a whole journal."""
    with Reader(folder) as reader:
        stats = reader.stats()
    return {
        "entries": stats.entries,
        "last": stats.last_seq,
        "at_door": stats.at_door,
        "deliveries": stats.deliveries,
        "oldest_unfinished_at": _time(stats.oldest_unfinished_at),
    }


def row_of(row: Row) -> dict[str, Any]:
    """Return one row of a list."""
    return {
        "entry": row.seq,
        "received_at": _time(row.received_at),
        "channel": row.channel,
        "source": row.source,
        "control_id": row.control_id,
        "event": row.event,
        "visit": row.visit,
        "state": str(row.state),
        "reason": row.reason,
        "ack": row.ack_code,
        "ack_outcome": str(row.ack_outcome),
        "flags": list(row.flags),
        "receipts": row.receipts,
    }


def _entry(view: EntryView) -> dict[str, Any]:
    return row_of(view.row) | {
        "peer": view.peer,
        "version": view.version,
        "event_at": _time(view.event_at),
        "sha256": view.sha256,
        "sound": view.sound,
        "mapping": view.mapping,
        "batch": view.batch,
        "parent": view.parent,
        "message": _text(view.raw),
        "acknowledgement": _text(view.acknowledgement),
        "deliveries": [_delivery(delivery) for delivery in view.deliveries],
    }


def _delivery(view: DeliveryView) -> dict[str, Any]:
    return {
        "destination": view.destination,
        "state": str(view.state),
        "reason": view.reason,
        "notes": list(view.notes),
        "waits_for": view.waits_for,
        "tries": view.tries,
        "due_at": _time(view.due_at),
        "settled_at": _time(view.settled_at),
        "mapping": view.mapping,
        "replay": view.replay,
        "by": view.by,
        "plan": _json(view.plan),
        "attempts": [_attempt(attempt) for attempt in view.attempts],
    }


def _attempt(view: AttemptView) -> dict[str, Any]:
    return {
        "number": view.number,
        "method": view.method,
        "url": view.url,
        "headers": dict(view.headers),
        "body": _json(view.body),
        "at": _time(view.at),
        "status": view.status,
        "codes": list(view.codes),
        "failure": view.failure,
        "milliseconds": round(view.milliseconds, 1),
        "answer": _json(view.response),
    }


def _json(content: bytes) -> Any:
    try:
        return orjson.loads(content) if content else None
    except orjson.JSONDecodeError:
        return _text(content)


def _text(content: bytes) -> str:
    return content.decode("utf-8", "backslashreplace")


def _time(moment: datetime | None) -> str | None:
    return moment.isoformat(timespec="milliseconds") if moment else None
