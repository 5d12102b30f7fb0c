"""One entry of the journal read and shown, whole or without patient data; and a page of entries, newest first."""

from base64 import b64encode
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Annotated, Final

import orjson

from engine.errors import JournalError
from engine.journal.entry import LATER, SENT, RequestOutcome, State
from engine.journal.read.lineage import Replayed, lineage
from engine.journal.read.reading import Reader
from engine.journal.read.views import AttemptView, DeliveryView, EntryView, Filters
from engine.ops.views.answer import Answer, Count, Time, known_as, moment_text, text_of, time_of
from engine.ops.views.entry import (
    Attempt,
    Before,
    Delivery,
    DeliveryFacts,
    Entry,
    EntryFacts,
    Involved,
    Lineage,
    LineageFacts,
    Raw,
    Replay,
    Row,
    RowFacts,
    Step,
    Timing,
)
from engine.ops.views.events import json_text
from engine.ops.views.segments import guessed_charset, named, read, segments_of

NEIGHBOURS: Final = 5
INVOLVED: Final = b'"involved":'
BUNDLE: Final = b'{"resourceType":"Bundle"'
OF_RELAYS: Final = frozenset({SENT, LATER})
UNDER_WAY: Final = frozenset({State.RECEIVED, State.CLAIMED, State.WAITING})


def entry(folder: Path, seq: int, charsets: Mapping[str, str] | None = None) -> Entry:
    """Return one entry in full; UnknownEntryError where there is none.

    `charsets`: those of channels, by name, as far as they are known.
    """
    with Reader(folder) as reader:
        view = reader.show(seq)
        before, after = reader.neighbours(seq, NEIGHBOURS)
    replays, edit = lineage(folder, seq)
    charset = (charsets or {}).get(view.row.channel, "")
    message = read(view.raw, charset)
    return Entry.of(
        view,
        **dict(Row.of(view.row)),
        who=named(seq, view.raw, charset),
        timing=_timing(view),
        charset=charset,
        guessed_charset="" if charset else guessed_charset(view.raw),
        message=message.text if message else json_text(view.raw) or text_of(view.raw),
        acknowledgement=text_of(view.acknowledgement),
        segments=segments_of(message, view.version) if message else (),
        lineage=Lineage.of(view, replays=tuple(map(_replay, replays)), edit=edit),
        lane={"before": before, "after": after},
        deliveries=tuple(map(_delivery, view.deliveries)),
    )


def facts(folder: Path, seq: int) -> EntryFacts:
    """Return what of an entry holds nothing of a patient; UnknownEntryError where there is none."""
    with Reader(folder) as reader:
        view = reader.show(seq)
    replays, _edit = lineage(folder, seq)
    return EntryFacts.of(
        view,
        **dict(row_facts(Row.of(view.row))),
        timing=_timing(view),
        lineage=LineageFacts.of(view, replays=tuple(map(_replay, replays))),
        deliveries=tuple(_unexplained(_delivery(delivery)) for delivery in view.deliveries),
    )


def raw(folder: Path, seq: int) -> Raw:
    """Return the exact bytes that came in; UnknownEntryError where there is no entry.

    JournalError where retention took them.
    """
    with Reader(folder) as reader:
        view = reader.show(seq)
    if view.worn_at is not None:
        raise JournalError(
            f"the bytes of entry {seq} were removed from the journal on {view.worn_at:%Y-%m-%d} (`retention`)"
        )
    return Raw(entry=seq, base64=b64encode(view.raw).decode())


def row_facts(row: Row) -> RowFacts:
    """Return what of a row holds nothing of a patient; the reason of a discard may, as an operator wrote it."""
    return RowFacts.of(row, reason="") if row.state is State.DISCARDED else RowFacts.of(row)


def _unexplained(one: Delivery) -> DeliveryFacts:
    return one.model_copy(update={"reason": ""}) if one.state is State.DISCARDED else one


def _replay(one: Replayed) -> Replay:
    before = Before.of(one, reason="") if one.state == State.DISCARDED else Before.of(one)
    return Replay.of(one, before=before)


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
            ended = (_ack(attempt) or outcome.status or outcome.failure) if outcome else "no answer"
            spent = round(outcome.milliseconds, 1) if outcome else 0.0
            took = None if intent.method == LATER else spent
            yield intent.at, f"{intent.method} {ended}", delivery.destination, took
        if delivery.settled_at:
            again = delivery.state in UNDER_WAY
            yield delivery.settled_at, "to be tried again" if again else str(delivery.state), delivery.destination, None


def _delivery(view: DeliveryView) -> Delivery:
    records = tuple(involved(view.plan)) if view.state in {State.HELD, State.REJECTED} else ()
    return Delivery.of(view, attempts=tuple(map(_attempt, view.attempts)), involved=records)


def involved(plan: bytes) -> Iterator[Involved]:
    """Yield the records that a hold is about, which its plan lists at its end; older ones say no person."""
    found = orjson.loads(plan).get("involved", ()) if INVOLVED in plan else ()
    for record, role, numbers, *person in found:
        yield Involved(record=record, role=role, numbers=numbers, person="".join(person))


def _attempt(view: AttemptView) -> Attempt:
    outcome = view.outcome or RequestOutcome(view.intent.number, 0, (), "", 0.0)
    return Attempt.of(
        view.intent,
        status=outcome.status if view.outcome else None,
        ack=_ack(view),
        codes=outcome.codes,
        failure=outcome.failure,
        milliseconds=round(outcome.milliseconds, 1),
        answer=outcome.body,
        requests=tuple(_requests(view.intent.body)),
    )


def _ack(view: AttemptView) -> str:
    """Return MSA-1 of what a relay's receiver answered; '' of HTTP, and where it answered nothing that has one."""
    outcome = view.outcome
    return outcome.codes[0] if outcome and outcome.status and view.intent.method in OF_RELAYS else ""


def _requests(content: bytes) -> Iterator[str]:
    """Yield the requests of a Bundle that was sent, as `POST Encounter`; none for any other body."""
    if not content.startswith(BUNDLE):
        return
    for entry in orjson.loads(content)["entry"]:
        yield f"{entry['request']['method']} {entry['request']['url']}"


MOST_ROWS: Final = 1000
USUAL_ROWS: Final = 50


class Page(Answer, facts=True):
    """Where a page ends: `before` is for the next page, null where there is nothing older.

    `searched_back_to`: how far back was searched when the time for one answer ran out, null if it did not; there may be
    more, and `before` continues there.
    """

    before: Count | None
    searched_back_to: Time | None


class RowPage(Page):
    """A page of entries."""

    entries: Annotated[tuple[Row, ...], known_as("entries", "rows")]


class FactsPage(Page, facts=True):
    """A page of entries, without patient data."""

    entries: tuple[RowFacts, ...]


def searched(folder: Path, filters: Filters, limit: int = 0, before: int = 0) -> RowPage:
    """Return a page of at most 1,000 entries (50 for a limit of 0), with numbers below `before` where that is named."""
    with Reader(folder) as reader:
        page = reader.page(filters, min(limit or USUAL_ROWS, MOST_ROWS), before or None)
    return RowPage.of(page)


def facts_of(page: RowPage) -> FactsPage:
    """Return what of a page holds nothing of a patient."""
    return FactsPage.of(page, entries=tuple(map(row_facts, page.entries)))
