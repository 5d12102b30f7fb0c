"""One entry as plain values, for the admin socket, the pages and --json: whole, or without anything of a patient.

`messages.show` is a row of a list (see searching.py) and `peer, version, event_at, sha256, sound, body_removed_at,
mapping, batch, parent, message, acknowledgement, deliveries`, and

    segments  [{name, number, fields: [{path, name, value, parts: [{path, name, value}]}]}]; [] where it is no message
    lineage   {parent, children: [entry], replays: [{destination, act, by, at, run, forced, before: {state, reason,
              mapping}}], the newest first; edit: {by, at, differences: [{path, before, after}]} or null}
    lane      {before: [row], after: [row]}: the entries of the same patients around it, each oldest first
    timing    {received_at, settled_at, seconds, steps: [{at, what, destination, milliseconds}]}, steps in time order;
              `what` is `received`, `PUT 200`, `delivered`; `seconds` from received to the last settlement, or null

A delivery is `{destination, state, reason, notes, waits_for, tries, due_at, settled_at, mapping, replay, by, plan,
attempts}`, an attempt `{number, method, url, headers, body, at, status, codes, failure, milliseconds, answer}`.

`messages.raw` is `{entry, base64}`, the exact bytes that came in.

`messages.facts` is the same of what holds nothing of a patient: no message, acknowledgement, segments, lane, visit,
digest, plan, bodies, headers, addresses, nor what an operator wrote.
"""

from base64 import b64encode
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import orjson

from engine.errors import JournalError
from engine.journal.entry import State
from engine.journal.read.lineage import Edit, Replayed, lineage
from engine.journal.read.reading import Reader
from engine.journal.read.views import AttemptView, DeliveryView, EntryView, Row
from engine.ops.request import entry_in
from engine.ops.views.segments import read, segments_of

NEIGHBOURS: Final = 5

# What a viewer without patient data sees; whatever is added to an entry stays out until it is named here.
ROW_FACTS: Final = (
    "entry", "received_at", "channel", "source", "control_id", "event", "state", "reason", "ack", "ack_outcome",
    "flags", "receipts",
)  # fmt: skip
ENTRY_FACTS: Final = (
    "peer",
    "version",
    "event_at",
    "sound",
    "body_removed_at",
    "mapping",
    "batch",
    "parent",
    "lineage",
    "timing",
)
DELIVERY_FACTS: Final = (
    "destination", "state", "reason", "notes", "waits_for", "tries", "due_at", "settled_at", "mapping", "replay", "by",
)  # fmt: skip
ATTEMPT_FACTS: Final = ("number", "method", "at", "status", "codes", "failure", "milliseconds")


def shown(folder: Path, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return one entry in full; UnknownEntryError where there is none."""
    seq = entry_in(given)
    with Reader(folder) as reader:
        view = reader.show(seq)
        before, after = reader.beside(seq, NEIGHBOURS)
    lane = {"before": [row_of(row) for row in before], "after": [row_of(row) for row in after]}
    replays, edit = lineage(folder, seq)
    whole = _entry(view)
    whole["lineage"] |= {"replays": [_replayed(one) for one in replays], "edit": _edit(edit)}
    return whole | {"lane": lane}


def facts(folder: Path, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return what of an entry holds nothing of a patient; UnknownEntryError where there is none."""
    seq = entry_in(given)
    with Reader(folder) as reader:
        whole = _entry(reader.show(seq))
    whole["lineage"] |= {"replays": [_replayed(one) for one in lineage(folder, seq)[0]]}
    deliveries = [
        _only(delivery, DELIVERY_FACTS) | {"attempts": [_only(one, ATTEMPT_FACTS) for one in delivery["attempts"]]}
        for delivery in map(_unsaid, whole["deliveries"])
    ]
    return row_facts(whole) | _only(whole, ENTRY_FACTS) | {"deliveries": deliveries}


def raw(folder: Path, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return `{entry, base64}`: the exact bytes that came in; UnknownEntryError where there is no entry.

    JournalError where retention took them.
    """
    seq = entry_in(given)
    with Reader(folder) as reader:
        view = reader.show(seq)
    if view.worn_at is not None:
        raise JournalError(f"the bytes of entry {seq} left the journal on {view.worn_at:%Y-%m-%d} (`retention`)")
    return {"entry": seq, "base64": b64encode(view.raw).decode()}


def row_of(row: Row) -> dict[str, Any]:
    """Return one row of a list."""
    return {
        "entry": row.seq,
        "received_at": time_of(row.received_at),
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


def row_facts(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return what of a row holds nothing of a patient."""
    return _only(_unsaid(row), ROW_FACTS)


def time_of(moment: datetime | None) -> str | None:
    """Return a moment as text, None for none."""
    return moment.isoformat(timespec="milliseconds") if moment else None


def _only(whole: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: whole[name] for name in names}


def _unsaid(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """Leave out the reason of a discard: an operator wrote it, and may have named somebody."""
    return {**row, "reason": ""} if row["state"] == State.DISCARDED else row


def _entry(view: EntryView) -> dict[str, Any]:
    message = read(view.raw)
    return row_of(view.row) | {
        "peer": view.peer,
        "version": view.version,
        "event_at": time_of(view.event_at),
        "sha256": view.sha256,
        "sound": view.sound,
        "body_removed_at": time_of(view.worn_at),
        "mapping": view.mapping,
        "batch": view.batch,
        "parent": view.parent,
        "message": message.text if message else _text(view.raw),
        "segments": segments_of(message, view.version) if message else [],
        "acknowledgement": _text(view.acknowledgement),
        "deliveries": [_delivery(delivery) for delivery in view.deliveries],
        "lineage": {
            "parent": view.parent,
            "children": list(view.children),
        },
        "timing": _timing(view),
    }


def _replayed(one: Replayed) -> dict[str, Any]:
    said = "" if one.state == State.DISCARDED else one.reason
    return {
        "destination": one.destination,
        "act": one.act,
        "by": one.by,
        "at": time_of(one.at),
        "run": one.run,
        "forced": one.forced,
        "before": {"state": one.state, "reason": said, "mapping": one.mapping},
    }


def _edit(edit: Edit | None) -> dict[str, Any] | None:
    if edit is None:
        return None
    return {"by": edit.by, "at": time_of(edit.at), "differences": [dict(one) for one in edit.changes]}


def _timing(view: EntryView) -> dict[str, Any]:
    settled = [one.settled_at for one in view.deliveries if one.settled_at and one.state not in UNDER_WAY]
    last = max(settled, default=None)
    steps = sorted(_steps(view), key=lambda step: step[0])
    return {
        "received_at": time_of(view.row.received_at),
        "settled_at": time_of(last),
        "seconds": round((last - view.row.received_at).total_seconds(), 3) if last else None,
        "steps": [
            {"at": time_of(at), "what": what, "destination": name, "milliseconds": spent}
            for at, what, name, spent in steps
        ],
    }


def _steps(view: EntryView) -> Iterator[tuple[datetime, str, str, float | None]]:
    yield view.row.received_at, "received", "", None
    for delivery in view.deliveries:
        for attempt in delivery.attempts:
            intent, outcome = attempt.intent, attempt.outcome
            ended = (outcome.status or outcome.failure) if outcome else "no answer"
            spent = round(outcome.milliseconds, 1) if outcome else 0.0
            yield intent.at, f"{intent.method} {ended}", delivery.destination, spent
        if delivery.settled_at:
            again = delivery.state in UNDER_WAY
            yield delivery.settled_at, "to be tried again" if again else str(delivery.state), delivery.destination, None


UNDER_WAY: Final = frozenset({State.RECEIVED, State.CLAIMED, State.WAITING})


def _delivery(view: DeliveryView) -> dict[str, Any]:
    return {
        "destination": view.destination,
        "state": str(view.state),
        "reason": view.reason,
        "notes": list(view.notes),
        "waits_for": view.waits_for,
        "tries": view.tries,
        "due_at": time_of(view.due_at),
        "settled_at": time_of(view.settled_at),
        "mapping": view.mapping,
        "replay": view.replay,
        "by": view.by,
        "plan": _json(view.plan),
        "attempts": [_attempt(attempt) for attempt in view.attempts],
    }


def _attempt(view: AttemptView) -> dict[str, Any]:
    intent, outcome = view.intent, view.outcome
    return {
        "number": intent.number,
        "method": intent.method,
        "url": intent.url,
        "headers": dict(intent.headers),
        "body": _json(intent.body),
        "at": time_of(intent.at),
        "status": outcome.status if outcome else None,
        "codes": list(outcome.codes) if outcome else [],
        "failure": outcome.failure if outcome else "",
        "milliseconds": round(outcome.milliseconds, 1) if outcome else 0.0,
        "answer": _json(outcome.body) if outcome else None,
    }


def _json(content: bytes) -> Any:
    try:
        return orjson.loads(content) if content else None
    except orjson.JSONDecodeError:
        return _text(content)


def _text(content: bytes) -> str:
    return content.decode("utf-8", "backslashreplace")
