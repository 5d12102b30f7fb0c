"""One entry of the journal, read and shown: whole, or what of it holds nothing of a patient."""

from base64 import b64encode
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Final

import orjson

from engine.errors import JournalError
from engine.journal.entry import State
from engine.journal.read.lineage import Edit, Replayed, lineage
from engine.journal.read.reading import Reader
from engine.journal.read.views import AttemptView, DeliveryView, EntryView
from engine.journal.read.views import Row as JournalRow
from engine.ops.views.answer import Json, moment_text, time_of
from engine.ops.views.entry import (
    Attempt,
    Before,
    Delivery,
    DeliveryFacts,
    Difference,
    EditView,
    Entry,
    EntryFacts,
    Lane,
    Lineage,
    LineageFacts,
    Raw,
    Replay,
    Row,
    RowFacts,
    Step,
    Timing,
)
from engine.ops.views.segments import read, segments_of

NEIGHBOURS: Final = 5
UNDER_WAY: Final = frozenset({State.RECEIVED, State.CLAIMED, State.WAITING})


def entry(folder: Path, seq: int) -> Entry:
    """Return one entry in full; UnknownEntryError where there is none."""
    with Reader(folder) as reader:
        view = reader.show(seq)
        before, after = reader.beside(seq, NEIGHBOURS)
    replays, edit = lineage(folder, seq)
    message = read(view.raw)
    return Entry(
        **dict(row_of(view.row)),
        **_facts(view),
        sha256=view.sha256,
        message=message.text if message else _text(view.raw),
        acknowledgement=_text(view.acknowledgement),
        segments=segments_of(message, view.version) if message else (),
        lineage=Lineage(
            parent=view.parent, children=view.children, replays=tuple(map(_replayed, replays)), edit=_edit(edit)
        ),
        lane=Lane(before=tuple(map(row_of, before)), after=tuple(map(row_of, after))),
        deliveries=tuple(map(_delivery, view.deliveries)),
    )


def facts(folder: Path, seq: int) -> EntryFacts:
    """Return what of an entry holds nothing of a patient; UnknownEntryError where there is none."""
    with Reader(folder) as reader:
        view = reader.show(seq)
    replays, _edit = lineage(folder, seq)
    return EntryFacts(
        **dict(row_facts(row_of(view.row))),
        **_facts(view),
        lineage=LineageFacts(parent=view.parent, children=view.children, replays=tuple(map(_replayed, replays))),
        deliveries=tuple(_unsaid(_delivery(one)) for one in view.deliveries),
    )


def raw(folder: Path, seq: int) -> Raw:
    """Return the exact bytes that came in; UnknownEntryError where there is no entry.

    JournalError where retention took them.
    """
    with Reader(folder) as reader:
        view = reader.show(seq)
    if view.worn_at is not None:
        raise JournalError(f"the bytes of entry {seq} left the journal on {view.worn_at:%Y-%m-%d} (`retention`)")
    return Raw(entry=seq, base64=b64encode(view.raw).decode())


def row_of(row: JournalRow) -> Row:
    """Return one row of a list."""
    return Row(
        entry=row.seq,
        received_at=moment_text(row.received_at),
        channel=row.channel,
        source=row.source,
        control_id=row.control_id,
        event=row.event,
        visit=row.visit,
        state=row.state,
        reason=row.reason,
        ack=row.ack_code,
        ack_outcome=row.ack_outcome,
        flags=row.flags,
        receipts=row.receipts,
    )


def row_facts(row: Row) -> RowFacts:
    """Return what of a row holds nothing of a patient; the reason of a discard may, as an operator wrote it."""
    named = {name: getattr(row, name) for name in RowFacts.model_fields}
    return RowFacts.model_validate(named | ({"reason": ""} if row.state is State.DISCARDED else {}))


def _facts(view: EntryView) -> dict[str, object]:
    return {
        "peer": view.peer,
        "version": view.version,
        "event_at": time_of(view.event_at),
        "sound": view.sound,
        "body_removed_at": time_of(view.worn_at),
        "mapping": view.mapping,
        "batch": view.batch,
        "parent": view.parent,
        "timing": _timing(view),
    }


def _unsaid(one: Delivery) -> DeliveryFacts:
    return one.model_copy(update={"reason": ""}) if one.state is State.DISCARDED else one


def _replayed(one: Replayed) -> Replay:
    said = "" if one.state == State.DISCARDED else one.reason
    return Replay(
        destination=one.destination,
        act=one.act,
        by=one.by,
        at=time_of(one.at),
        run=one.run,
        forced=one.forced,
        before=Before(state=one.state, reason=said, mapping=one.mapping),
    )


def _edit(edit: Edit | None) -> EditView | None:
    if edit is None:
        return None
    differences = tuple(Difference.model_validate(one) for one in edit.changes)
    return EditView(by=edit.by, at=time_of(edit.at), differences=differences)


def _timing(view: EntryView) -> Timing:
    settled = [one.settled_at for one in view.deliveries if one.settled_at and one.state not in UNDER_WAY]
    last = max(settled, default=None)
    steps = sorted(_steps(view), key=lambda step: step[0])
    return Timing(
        received_at=moment_text(view.row.received_at),
        settled_at=time_of(last),
        seconds=round((last - view.row.received_at).total_seconds(), 3) if last else None,
        steps=tuple(
            Step(at=moment_text(at), what=what, destination=name, milliseconds=spent) for at, what, name, spent in steps
        ),
    )


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


def _delivery(view: DeliveryView) -> Delivery:
    return Delivery(
        destination=view.destination,
        state=view.state,
        reason=view.reason,
        notes=view.notes,
        waits_for=view.waits_for,
        tries=view.tries,
        due_at=time_of(view.due_at),
        settled_at=time_of(view.settled_at),
        mapping=view.mapping,
        replay=view.replay,
        by=view.by,
        plan=_json(view.plan),
        attempts=tuple(map(_attempt, view.attempts)),
    )


def _attempt(view: AttemptView) -> Attempt:
    intent, outcome = view.intent, view.outcome
    return Attempt(
        number=intent.number,
        method=intent.method,
        url=intent.url,
        headers=dict(intent.headers),
        body=_json(intent.body),
        at=moment_text(intent.at),
        status=outcome.status if outcome else None,
        codes=outcome.codes if outcome else (),
        failure=outcome.failure if outcome else "",
        milliseconds=round(outcome.milliseconds, 1) if outcome else 0.0,
        answer=_json(outcome.body) if outcome else None,
    )


def _json(content: bytes) -> Json:
    try:
        return orjson.loads(content) if content else None
    except orjson.JSONDecodeError:
        return _text(content)


def _text(content: bytes) -> str:
    return content.decode("utf-8", "backslashreplace")
