"""The list of messages: filters, pages, live while newest; and codes without a row. No address holds a search."""

from collections.abc import Mapping, Sequence
from typing import Final
from urllib.parse import urlencode

from starlette.responses import Response

from engine.errors import UsageError
from engine.journal.entry import FAILED
from engine.ops.access.actor import Permission
from engine.ops.operations.fields import STATES, digits_of
from engine.ops.operations.messages import ListCodeValues, ListMessages, ListUnmapped, SearchMessages
from engine.ops.views.phrases import phrase
from engine.ops.views.view import FactsPage, RowPage
from engine.ops.web.call import WebCall, go
from engine.ops.web.pages.runs import BOX, act_of, plan
from engine.ops.web.refusal import RefusedRequestError
from engine.ops.web.route import Route
from engine.ops.web.stream import streamed
from engine.terminal.table_file import as_csv

SPANS: Final = ("24h", "7d", "30d")


async def _show(call: WebCall) -> Response:
    since = _since(call)
    found = await call.perform(ListUnmapped, since=since)
    own = {name: feed.channel.own_mappings for name, feed in call.context.engine.feeds.items()}
    return await call.page("codes.html", found=found, since=since, spans=SPANS, own=own)


async def _values(call: WebCall) -> Response:
    place, since = call.asked("place"), _since(call)
    found = await call.perform(ListCodeValues, place=place, since=since)
    return await call.page("code_values.html", found=found, place=place, since=since)


def _since(call: WebCall) -> str:
    asked = call.asked("since")
    return asked if asked in SPANS else SPANS[1]


PAGE: Final = 50
# What may stand in an address: links from other pages use it.
PLAIN: Final = ("state", "channel", "event", "reason", "source", "since", "until")
OPEN: Final = (*PLAIN, "control_id", "outcome")
PRIVATE: Final = ("patient", "visit", "text")
LABELS: Final = {
    "state": "State", "channel": "Channel", "event": "Event", "reason": "Reason", "source": "Source",
    "control_id": "Control ID", "outcome": "Note or code", "since": "From", "until": "Until", "patient": "Patient",
    "visit": "Visit", "text": "Words in the message",
}  # fmt: skip
# What the rows of the list may show beside their numbers, by the word in the address; all, where it names none.
SHOWN: Final[Mapping[str, str]] = {
    "received": "Received", "state": "State", "reason": "Reason", "event": "Event", "control_id": "Control ID",
    "channel": "Channel", "source": "Source", "ack": "ACK",
}  # fmt: skip
# How many entries one run takes up from this list, and how many of them are looked up at once.
MOST_MATCHING: Final = 10_000
AT_ONCE: Final = 1_000
COLUMNS: Final = ("entry", "received_at", "channel", "source", "event", "control_id", "state", "reason", "ack")


async def _list(call: WebCall) -> Response:
    criteria = _criteria(call)
    before = call.number("before")
    values = await _found(call, criteria, before)
    channels = sorted(call.context.engine.feeds)
    return await call.page(
        "messages.html",
        **values,
        channels=channels,
        states=STATES,
        alarm="",
        live=_live_at(call, criteria, before),
    )


async def _search(call: WebCall) -> Response:
    """Keep what is searched for and go to the list of it; a form that cannot be searched for is shown again."""
    criteria = {name: call.form[name].strip() for name in (*OPEN, *PRIVATE) if call.form.get(name, "").strip()}
    if any(name in criteria for name in PRIVATE) and not call.may(Permission.PHI):
        raise RefusedRequestError(403, "your role may not search for patients")
    try:
        await _perform(call, criteria, None, 1)
    except UsageError as error:
        values = {"found": {"entries": [], "before": None, "searched_back_to": None}, "more": "", "criteria": criteria}
        channels = sorted(call.context.engine.feeds)
        alarm = str(error).removeprefix("--")
        return await call.page(
            "messages.html", 422, **values, filters=_labelled(criteria), channels=channels, states=STATES,
            alarm=alarm, live="", search="", before=None, columns=_named(call.form.get("columns", "").split(",")),
            shown=SHOWN, box=BOX, most_matching=MOST_MATCHING,
        )  # fmt: skip
    pairs = [("search", call.context.searches.keep(call.owner, criteria))] if criteria else []
    pairs += [("column", name) for name in call.form.get("columns", "").split(",") if name in SHOWN]
    return go(f"/messages?{urlencode(pairs)}" if pairs else "/messages")


async def _plan(call: WebCall) -> Response:
    """Plan a bulk run over the rows that were ticked, or all that the list's filters let through."""
    act = act_of(call)
    search = call.form.get("search", "")
    criteria = _criteria(call, search, {name: call.form.get(f"shown-{name}", "") for name in PLAIN})
    if call.form.get("all") == "yes":
        entries = await _matching(call, criteria)
    else:
        boxes = [name.removeprefix(BOX) for name in call.form if name.startswith(BOX)]
        entries = [number for box in boxes if (number := digits_of(box)) is not None]
    if not entries:
        raise RefusedRequestError(422, "tick the messages that you mean, or all that match")
    back = [("search", search)] if search else list(criteria.items())
    return await plan(call, act, {"entries": entries}, f"/messages?{urlencode(back)}" if back else "/messages")


async def _matching(call: WebCall, criteria: Mapping[str, str]) -> list[int]:
    """Return all entries that the filters let through; RefusedRequestError where they are too many for one run."""
    entries: list[int] = []
    before: int | None = None
    while len(entries) <= MOST_MATCHING:
        found = await _perform(call, criteria, before, AT_ONCE)
        entries += [row.entry for row in found.entries]
        before = found.before
        if before is None:
            return entries
    raise RefusedRequestError(422, f"more than {MOST_MATCHING:,} messages match: narrow the search, or use a bulk run")


async def _live(call: WebCall) -> Response:
    """Stream the newest page of a list; not of one that names a patient, as each look would be one at the patient."""
    criteria = _criteria(call)
    if any(name in criteria for name in PRIVATE):
        raise RefusedRequestError(404)

    async def rows() -> str:
        return await call.part("parts/messages.html", **await _found(call, criteria, None))

    return streamed(call, rows)


async def _export(call: WebCall) -> Response:
    """Answer with the rows that a search finds, the newest thousand, as a file for a spreadsheet."""
    call.confirmed()
    criteria = _criteria(call, call.form.get("search", ""))
    found = await _perform(call, criteria, None, 1000)
    headers = {"content-disposition": 'attachment; filename="messages.csv"'}
    return Response(
        as_csv(COLUMNS, [row.model_dump(mode="json") for row in found.entries]), media_type="text/csv", headers=headers
    )


def _criteria(call: WebCall, kept: str = "", plain: Mapping[str, str] | None = None) -> Mapping[str, str]:
    """Return what the list is of: a kept search, or plain filters (of the address, where none are given)."""
    name = kept or (call.asked("search") if plain is None else "")
    if not name:
        given = plain if plain is not None else {key: call.asked(key) for key in PLAIN}
        plain = {key: value for key in PLAIN if (value := given.get(key, "").strip())}
        if plain.get("state", FAILED) not in STATES:
            raise RefusedRequestError(422, f"there is no such state: {', '.join(STATES)}")
        return plain
    criteria = call.context.searches.find(call.owner, name)
    if criteria is None:
        raise RefusedRequestError(404, "this search has expired: search again")
    return criteria


async def _found(call: WebCall, criteria: Mapping[str, str], before: int | None) -> dict[str, object]:
    found = await _perform(call, criteria, before, PAGE)
    more = _address(call, found.before) if found.before else ""
    return {
        "found": found, "more": more, "criteria": criteria, "filters": _labelled(criteria),
        "search": call.asked("search"), "before": before, "columns": _columns(call), "shown": SHOWN, "box": BOX,
        "most_matching": MOST_MATCHING,
    }  # fmt: skip


async def _perform(call: WebCall, criteria: Mapping[str, str], before: int | None, limit: int) -> RowPage | FactsPage:
    if any(name in criteria for name in PRIVATE):
        return await call.perform(SearchMessages, **criteria, before=before, limit=limit)
    return await call.perform(ListMessages, **criteria, before=before, limit=limit)


def _labelled(criteria: Mapping[str, str]) -> list[tuple[str, str]]:
    return [
        (LABELS[name], phrase(criteria[name]) if name == "state" else criteria[name])
        for name in LABELS
        if name in criteria
    ]


def _address(call: WebCall, before: int) -> str:
    return f"/messages?{urlencode([*_pairs(call), ('before', before)])}"


def _pairs(call: WebCall) -> list[tuple[str, object]]:
    """Return what of the address names the list and its columns."""
    pairs: list[tuple[str, object]] = [(key, value) for key in ("search", *PLAIN) if (value := call.asked(key))]
    return [*pairs, *(("column", name) for name in call.request.query_params.getlist("column") if name in SHOWN)]


def _columns(call: WebCall) -> tuple[str, ...]:
    return _named(call.request.query_params.getlist("column"))


def _named(names: Sequence[str]) -> tuple[str, ...]:
    """Return which columns are meant, in the order of the list; all where none is."""
    return tuple(name for name in SHOWN if name in names) or tuple(SHOWN)


def _live_at(call: WebCall, criteria: Mapping[str, str], before: int | None) -> str:
    """Return the address of the list's stream, '' where it does not move."""
    if before or any(name in criteria for name in PRIVATE) or "until" in criteria:
        return ""
    return f"/live/messages?{urlencode(_pairs(call))}"


ROUTES: Final = (
    Route("GET", "/messages", Permission.METADATA, _list, label="Messages"),
    Route("POST", "/messages/search", Permission.METADATA, _search),
    Route("POST", "/messages/plan", Permission.OPERATE, _plan),
    Route("GET", "/live/messages", Permission.METADATA, _live),
    Route("POST", "/messages/export", Permission.METADATA, _export),
    Route("GET", "/codes", Permission.METADATA, _show, label="Unmapped codes"),
    Route("GET", "/codes/values", Permission.PHI, _values),
)
