"""One message: its state and why, what was sent, what came of it; a dry run, edit, replay or choice of the record."""

from collections.abc import Mapping, Sequence
from typing import Final
from urllib.parse import urlencode

from starlette.responses import Response

from engine.errors import AdtEngineError, MessageError, UnconfirmedOperationError
from engine.hl7.edit import editable
from engine.journal.entry import State
from engine.ops.access.actor import Permission
from engine.ops.operations.entries import (
    DiscardMessage,
    DryRunMessage,
    DryRunView,
    EditMessage,
    ListMatches,
    ReleaseMessage,
    ReplayMessage,
    ResolvePatient,
    RetryMessage,
)
from engine.ops.operations.explaining import ExplainMessage, prepare
from engine.ops.operations.lanes import ShowLane
from engine.ops.operations.messages import ShowFacts, ShowMessage
from engine.ops.operations.sharing import ShareMessage
from engine.ops.views.entry import Element, EntryFacts
from engine.ops.views.reasons import Reason, reason_of
from engine.ops.views.segments import SegmentView
from engine.ops.views.wording import pretty
from engine.ops.web.call import WebCall, form, go
from engine.ops.web.refusal import RefusedRequestError, status_of
from engine.ops.web.route import Route
from engine.pipeline.inbound.event_entries import is_event
from engine.pipeline.repair.choosing import CHOICES
from engine.pipeline.repair.entry_operations import check_message


async def _dry_run(call: WebCall) -> Response:
    seq = call.entry()
    found = await call.perform(DryRunMessage, entry=seq)
    entry = await call.perform(ShowFacts, entry=seq)
    return await call.page("dry_run.html", entry=seq, dry_run=found, is_event=_is_event(call, entry))


async def _show_edit(call: WebCall) -> Response:
    entry = await call.perform(ShowMessage, entry=call.entry())
    if (feed := call.context.engine.feeds.get(entry.channel)) is not None:
        check_message(entry.entry, feed.channel)
    return await _form(call, _to_edit(entry.message))


async def _edit(call: WebCall) -> Response:
    """Try an edited message in a dry run, or store it as a new entry, by the button that was pressed."""
    text, reason = call.form.get("message", ""), call.form.get("reason", "")
    given: dict[str, object] = {"entry": call.entry(), "message": _as_sent(text)}
    try:
        if call.form.get("do") not in {"replay", "force"}:
            found = await call.perform(DryRunMessage, **given)
            return await _form(call, text, dry_run=found)
        given |= {"reason": reason, "discard_original": call.form.get("discard_original") == "yes"}
        if call.form.get("do") == "force":
            given["force"] = True
        made = await call.perform(EditMessage, **given)
    except (RefusedRequestError, UnconfirmedOperationError):
        raise
    except AdtEngineError as error:
        return await _form(call, text, status=status_of(error), alarm=str(error))
    return go(f"/messages/{made.entry}", "edited-waits" if made.next_step else "edited")


async def _show_choice(call: WebCall) -> Response:
    found = await call.perform(ListMatches, entry=call.entry(), destination=call.asked("destination") or None)
    return await call.page("choice.html", entry=call.entry(), found=found)


async def _form(
    call: WebCall, text: str, *, status: int = 200, dry_run: DryRunView | None = None, alarm: str = ""
) -> Response:
    values = {"entry": call.entry(), "text": text, "dry_run": dry_run, "alarm": alarm, "is_event": False}
    values |= {"reason": call.form.get("reason", ""), "discards": call.form.get("discard_original") == "yes"}
    return await call.page("edit.html", status, **values)


def _to_edit(text: str) -> str:
    """Return a message with a line for each segment; one that cannot be read, as it is."""
    try:
        return editable(text)
    except MessageError:
        return text


def _as_sent(text: str) -> str:
    """Return a message with HL7's ends of segments; browsers send lines with CR LF."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return "".join(f"{line}\r" for line in lines if line.strip())


# A page is made inside the engine's loop: of a message of ten thousand segments it shows the beginning.
MOST_VALUES: Final = 2_000
PAGE: Final = 50
MOST_LETTERS: Final = 200
UNFINISHED: Final = frozenset({"received", "claimed", "waiting"})


async def _show(call: WebCall) -> Response:
    seq = call.entry()
    if call.may(Permission.PHI):
        whole = await call.perform(ShowMessage, entry=seq)
        if not call.context.begun:
            call.context.begin(prepare(call.context.engine, whole.channel))
        return await _page(call, whole, whole.segments)
    return await _page(call, await call.perform(ShowFacts, entry=seq), ())


async def _page(call: WebCall, entry: EntryFacts, segments: Sequence[SegmentView]) -> Response:
    behind, first = None, first_of(segments)
    if entry.state is State.HELD and entry.deliveries:
        behind = await call.perform(ShowLane, entry=entry.entry)
    return await call.page(
        "message.html", entry=entry, why=_why(entry), behind=behind, can=_can(call, entry), segments=first,
        more_segments=len(segments) - len(first), failed=_waits_for_a_person(entry), is_event=_is_event(call, entry),
    )  # fmt: skip


async def _explain(call: WebCall) -> Response:
    """Show a page of the elements; what they are filtered by is kept, as it may be a patient's."""
    seq, page = call.entry(), max(call.number("page") or 1, 1)
    kept = call.context.searches.find(call.owner, call.asked("filter")) or {}
    wanted = str(kept.get("words", ""))
    made = await call.perform(ExplainMessage, entry=seq, destination=call.asked("destination"))
    found = [element for element in made.elements if _says(element, wanted)]
    pages = max(-(-len(found) // PAGE), 1)
    begin = (min(page, pages) - 1) * PAGE
    return await call.page(
        "explain.html", entry=seq, made=made, elements=found[begin : begin + PAGE], count=len(found), begin=begin,
        page=min(page, pages), pages=pages, wanted=wanted, kept=call.asked("filter") if wanted else "",
    )  # fmt: skip


def _says(one: Element, wanted: str) -> bool:
    """Say whether an element holds all words that are wanted: in its name, value, source or rule."""
    text = f"{one.element} {pretty(one.made)} {one.source} {one.raw or ''} {one.rule} {one.file}".casefold()
    return all(word in text for word in wanted.casefold().split())


async def _filter(call: WebCall) -> Response:
    """Keep what the elements are filtered by, and go to those that have it."""
    seq, words = call.entry(), call.form.get("words", "").strip()[:MOST_LETTERS]
    asked = {"destination": call.form.get("destination", "")}
    asked |= {"filter": call.context.searches.keep(call.owner, {"words": words})} if words else {}
    query = urlencode({name: value for name, value in asked.items() if value})
    return go(f"/messages/{seq}/explain" + (f"?{query}" if query else ""))


def first_of(segments: Sequence[SegmentView], most: int = MOST_VALUES) -> Sequence[SegmentView]:
    """Return the first segments of a message, as many as hold no more values than a page shows; one at least."""
    values = 0
    for number, segment in enumerate(segments):
        values += sum(1 + len(field.parts) for field in segment.fields)
        if values > most and number:
            return segments[:number]
    return segments


def _why(entry: EntryFacts) -> list[tuple[list[str], Reason]]:
    """Return the lines of an entry's reasons, notes and flags, each once with its codes, the entry's own first."""
    codes = [entry.reason, *(delivery.reason for delivery in entry.deliveries)]
    codes += [note for delivery in entry.deliveries for note in delivery.notes] + list(entry.flags)
    if entry.state == "discarded":
        codes = codes[len(entry.deliveries) + 1 :]  # an operator's own words
    found: dict[Reason, list[str]] = {}
    for code in dict.fromkeys(code for code in codes if code):
        found.setdefault(reason_of(code), []).append(code)
    return [(codes, line) for line, codes in found.items()]


def _waits_for_a_person(entry: EntryFacts) -> bool:
    """True if the entry was refused, or is held or rejected at a destination."""
    return bool({entry.state, *(delivery.state for delivery in entry.deliveries)} & {"held", "rejected"})


def _is_event(call: WebCall, entry: EntryFacts) -> bool:
    """Say whether an entry came in on a channel of the events of a FHIR server."""
    feed = call.context.engine.feeds.get(entry.channel)
    return feed is not None and is_event(feed.channel)


def _can(call: WebCall, entry: EntryFacts) -> Mapping[str, bool]:
    """Return what the actor may do with an entry."""
    operates = call.may(Permission.OPERATE)
    states = {delivery.state for delivery in entry.deliveries} or {entry.state}
    held = "held" in states
    waits = any(delivery.due_at for delivery in entry.deliveries)
    reasons = {delivery.reason for delivery in entry.deliveries if delivery.state == "held"}
    return {
        "release": operates and held and bool(entry.deliveries),
        "retry": operates and waits and not held,
        "replay": operates and not states & UNFINISHED and not held,
        "try": operates,
        "edit": operates and not _is_event(call, entry),
        "share": operates and call.may(Permission.MAPPINGS) and not _is_event(call, entry),
        "discard": operates and bool(states & (UNFINISHED | {"held"})),
        "resolve": operates and bool(reasons & CHOICES),
    }


_HERE: Final = "/messages/{entry}"


ROUTES: Final = (
    Route("GET", "/messages/{entry}", Permission.METADATA, _show),
    Route("GET", "/messages/{entry}/explain", Permission.PHI, _explain),
    Route("POST", "/messages/{entry}/explain", Permission.PHI, _filter),
    form("/messages/{entry}/replay", ReplayMessage, to=_HERE, notice="replayed"),
    form("/messages/{entry}/force", ReplayMessage, to=_HERE, notice="replayed", force=True),
    form("/messages/{entry}/release", ReleaseMessage, to=_HERE, notice="released"),
    form("/messages/{entry}/retry", RetryMessage, to=_HERE, notice="released"),
    form("/messages/{entry}/discard", DiscardMessage, "reason", to=_HERE, notice="discarded"),
    form("/messages/{entry}/share", ShareMessage, to=_HERE, notice="shared"),
    Route("POST", "/messages/{entry}/rehearse", Permission.OPERATE, _dry_run),
    Route("GET", "/messages/{entry}/edit", Permission.OPERATE, _show_edit),
    Route("POST", "/messages/{entry}/edit", Permission.OPERATE, _edit),
    Route("GET", "/messages/{entry}/choose", Permission.OPERATE, _show_choice),
    form(
        "/messages/{entry}/choose", ResolvePatient, "destination", "patient", to="/messages/{entry}", notice="resolved"
    ),
)
