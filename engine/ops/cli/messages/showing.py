"""`adt-engine messages show`: one entry in sections, as an operator reads it."""

from base64 import b64decode
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, Final

import orjson
import typer

from engine.errors import UsageError
from engine.fhir.json import Json, JsonObject
from engine.journal.entry import LATER
from engine.ops.cli.messages.listing import show as show_rows
from engine.ops.operations.messages import ShowMessage, ShowRaw
from engine.ops.terminal.command import ask_or_read, takes
from engine.ops.views.entry import Attempt, Delivery, Entry, FollowUp, Lineage
from engine.ops.views.phrases import note_phrase, phrase
from engine.ops.views.reasons import reason_of, text_of
from engine.ops.views.segments import SegmentView
from engine.terminal.options import DATA, AsJson, Data
from engine.terminal.table import NEGATIVE, output, print_json, print_line, table

DISCARDED: Final = "discarded"
NO_CHARSET: Final = "MSH-18 is empty, and no engine runs that knows the channel's character set"
MOST_CHARACTERS: Final = 1000


@takes(ShowMessage, entry="ENTRY")
def show(
    request: ShowMessage,
    fields: Annotated[bool, typer.Option("--fields", help="Each field with its name in the standard.")] = False,
    raw: Annotated[bool, typer.Option("--raw", help="Only the exact bytes that were received.")] = False,
    data: Data = DATA,
    as_json: AsJson = False,
) -> None:
    """Show one entry in full: message, acknowledgement, its state, every request made for it, its patient's lane.

    Example: adt-engine messages show 37 --data /var/lib/adt-engine

    Example: adt-engine messages show 37 --raw --data /var/lib/adt-engine > entry-37.hl7
    """
    if raw and (fields or as_json):
        raise UsageError("--raw writes bytes: leave --fields and --json out")
    if raw:
        typer.echo(b64decode(ask_or_read(data, ShowRaw(entry=request.entry)).base64), nl=False)
        return
    found = ask_or_read(data, request)
    if as_json:
        print_json(found)
        return
    _entry(found, fields=fields)


def _entry(found: Entry, *, fields: bool) -> None:
    print_line(f"Entry {found.entry}: {phrase(found.state)} {found.reason}".rstrip(), "bold")
    if found.reason and found.state != DISCARDED:
        print_line(text_of(reason_of(found.reason)))
    print_line(f"{found.event} {found.control_id} from {found.source} by {found.peer} on {found.channel}")
    often = f", {_times(found.receipts)}" if found.receipts > 1 else ""
    print_line("; ".join([f"received {found.received_at}{often}", *map(note_phrase, found.flags)]))
    if found.timing.seconds is not None:
        print_line(f"settled {found.timing.settled_at}, {found.timing.seconds:g} s later")
    if not found.sound:
        print_line("The bytes no longer have the digest they came with: the file is damaged.", NEGATIVE)
    print_line("")
    print_line("Message" if not found.body_removed_at else f"Message, removed {found.body_removed_at[:10]}", "bold")
    if found.guessed_charset:
        print_line(f"{NO_CHARSET}: read as {found.guessed_charset}")
    if fields and found.segments:
        output().print(table(["Field", "Name", "Value"], _fields(found.segments)))
    else:
        _lines(found.message)
    print_line("")
    print_line(f"Acknowledgement {found.ack or 'none'} ({phrase(found.ack_outcome, 'acknowledgement')})", "bold")
    _lines(found.acknowledgement)
    for delivery in found.deliveries:
        _delivery(delivery)
    _lineage(found.lineage)
    around = [*found.lane.before, found, *found.lane.after]
    if len(around) > 1:
        print_line("")
        print_line("The same patient's entries around it", "bold")
        show_rows(around)


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number} times"


def _lines(text: str) -> None:
    for segment in text.replace("\n", "\r").split("\r"):
        if segment:
            print_line(f"  {segment}")


def _fields(segments: Sequence[SegmentView]) -> Iterable[tuple[str, str, str]]:
    for segment in segments:
        for field in segment.fields:
            yield field.path, field.name, field.value if not field.parts else ""
            for part in field.parts:
                yield f"  {part.path}", f"  {part.name}", part.value


def _delivery(delivery: Delivery) -> None:
    print_line("")
    print_line(f"{delivery.destination}: {phrase(delivery.state)} {delivery.reason}".rstrip(), "bold")
    if delivery.waits_for:
        print_line(f"  waits for entry {delivery.waits_for}")
    if delivery.due_at and delivery.state == "received":
        print_line(f"  tried {_times(delivery.tries)}, next {delivery.due_at}")
    for note in delivery.notes:
        print_line(f"  {note_phrase(note)}")
    for record in delivery.involved:
        print_line(f"  {record.role}: {' '.join(filter(None, (record.record, record.person, *record.numbers)))}")
    for attempt in delivery.attempts:
        _attempt(attempt)
    for name, follow_up in (("look-up", delivery.lookup), ("notice", delivery.notice)):
        if follow_up:
            _follow_up(name, follow_up)
    if delivery.plan:
        print_line(f"  planned {_planned(delivery.plan)} (--json shows the plan)")


def _follow_up(name: str, one: FollowUp) -> None:
    words = " ".join(filter(None, (phrase(one.state, "follow-up"), one.reason, *one.codes)))
    when = f"next try {one.due_at}" if one.due_at else f"at {one.settled_at}"
    print_line(f"  {name} of {one.patient}: {words}, asked {_times(one.tries)}, {when}")
    if one.handle:
        print_line(f"     its end is at {one.handle}")


def _attempt(attempt: Attempt) -> None:
    status = "" if attempt.ack else str(attempt.status or "no answer")
    failure = f"({phrase(attempt.failure, 'failure')})" if attempt.failure else ""
    took = "" if attempt.method == LATER else f"{attempt.milliseconds:g} ms"
    ended = filter(None, (status, *attempt.codes, failure, took))
    what = phrase(attempt.method, "method")
    where = f"{what} {attempt.url}".rstrip()
    print_line(f"  {attempt.number}. {where}  {' '.join(ended)}  at {attempt.at[11:23]}")
    if attempt.requests:
        print_line(f"     one transaction: {', '.join(attempt.requests)}")
    if attempt.body:
        _content("sent", attempt.body)
    answer = attempt.answer
    if isinstance(answer, dict) and answer.get("resourceType") == "OperationOutcome":
        for issue in answer.get("issue") or ():
            print_line(f"     {' '.join(_issue(issue))}")
    elif answer:
        _content("answer", answer)


def _content(word: str, content: Json) -> None:
    """Print a body: a message by segment, anything else as one line."""
    if not isinstance(content, str) or not content.startswith("MSH") or len(content) > MOST_CHARACTERS:
        print_line(f"     {word} {_short(content)}")
        return
    print_line(f"     {word}")
    for segment in content.replace("\n", "\r").split("\r"):
        if segment:
            print_line(f"       {segment}")


def _issue(issue: Json) -> Iterator[str]:
    """Yield what an issue of an OperationOutcome says: severity, codes, texts, where."""
    if not isinstance(issue, dict):
        return
    details = issue.get("details")
    yield from (str(issue.get(name) or "") for name in ("severity", "code"))
    yield str(details.get("text") or "") if isinstance(details, dict) else ""
    yield str(issue.get("diagnostics") or "")
    yield " ".join(map(str, issue.get("expression") or ()))


def _planned(plan: Json) -> str:
    """Return which resources a plan is about, in its order, each type once."""
    found: list[JsonObject] = plan.get("interactions", []) if isinstance(plan, dict) else []
    types = Counter(one["record"]["type"] if "record" in one else "Patient" for one in found)
    return ", ".join(f"{name} ({count})" if count > 1 else name for name, count in types.items()) or "nothing"


def _short(content: Json) -> str:
    """Return the beginning of a body as one line; --json shows it whole however long it is."""
    text = content if isinstance(content, str) else orjson.dumps(content).decode()
    return text if len(text) <= MOST_CHARACTERS else f"{text[:MOST_CHARACTERS]} … ({len(text)} characters, see --json)"


def _lineage(lineage: Lineage) -> None:
    lines = [f"edited from entry {lineage.parent}"] if lineage.parent else []
    lines += [f"edited as entry {child}" for child in lineage.children]
    for one in lineage.replays:
        before = f"{phrase(one.before.state)} {one.before.reason}".strip()
        lines.append(
            f"{phrase(one.act, 'act')} at {one.destination} by {one.by} {one.at or ''}; before: {before or 'not there'}"
        )
    for change in lineage.edit.differences if lineage.edit else ():
        lines.append(f"{change.path}: {change.before or 'nothing'} -> {change.after or 'nothing'}")
    if lines:
        print_line("")
        print_line("Lineage", "bold")
        for line in lines:
            print_line(f"  {line}")
