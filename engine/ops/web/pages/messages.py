"""The list of messages: filters, pages, live while newest; and codes without a row. No address holds a search."""

from collections.abc import Mapping
from typing import Final
from urllib.parse import urlencode

from starlette.responses import Response

from engine.errors import UsageError
from engine.journal.entry import State
from engine.ops.access.actor import Permission
from engine.ops.operations.messages import ListCodeValues, ListMessages, ListUnmapped, SearchMessages
from engine.ops.views.phrases import phrase
from engine.ops.views.view import FactsPage, RowPage
from engine.ops.web.call import WebCall, go
from engine.ops.web.refusal import RefusedRequestError
from engine.ops.web.route import Route
from engine.ops.web.stream import streamed
from engine.terminal.table_file import as_csv

SPANS: Final = ("24h", "7d", "30d")


async def _show(call: WebCall) -> Response:
    since = _since(call)
    return call.page("codes.html", found=await call.perform(ListUnmapped, since=since), since=since, spans=SPANS)


async def _values(call: WebCall) -> Response:
    place, since = call.asked("place"), _since(call)
    found = await call.perform(ListCodeValues, place=place, since=since)
    return call.page("code_values.html", found=found, place=place, since=since)


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
COLUMNS: Final = ("entry", "received_at", "channel", "source", "event", "control_id", "state", "reason", "ack")


async def _list(call: WebCall) -> Response:
    criteria = _criteria(call)
    before = call.number("before")
    values = await _found(call, criteria, before)
    channels = sorted(call.context.engine.feeds)
    return call.page(
        "messages.html",
        **values,
        channels=channels,
        states=list(State),
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
        return call.page(
            "messages.html", 422, **values, filters=_labelled(criteria), channels=channels, states=list(State),
            alarm=alarm, live="", search="", before=None,
        )  # fmt: skip
    return go(f"/messages?search={call.context.searches.keep(call.owner, criteria)}" if criteria else "/messages")


async def _live(call: WebCall) -> Response:
    """Stream the newest page of a list; not of one that names a patient, as each look would be one at the patient."""
    criteria = _criteria(call)
    if any(name in criteria for name in PRIVATE):
        raise RefusedRequestError(404)

    async def rows() -> str:
        return call.part("parts/messages.html", **await _found(call, criteria, None))

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


def _criteria(call: WebCall, kept: str = "") -> Mapping[str, str]:
    """Return what the list is of: a kept search, or plain filters of the address."""
    name = kept or call.asked("search")
    if not name:
        plain = {key: value for key in PLAIN if (value := call.asked(key).strip())}
        if plain.get("state", State.HELD) not in list(State):
            raise RefusedRequestError(422, f"there is no such state: {', '.join(State)}")
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
        "search": call.asked("search"), "before": before,
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
    pairs = {key: value for key in ("search", *PLAIN) if (value := call.asked(key))}
    return f"/messages?{urlencode(pairs | {'before': before})}"


def _live_at(call: WebCall, criteria: Mapping[str, str], before: int | None) -> str:
    """Return the address of the list's stream, '' where it does not move."""
    if before or any(name in criteria for name in PRIVATE) or "until" in criteria:
        return ""
    pairs = {key: value for key in ("search", *PLAIN) if (value := call.asked(key))}
    return f"/live/messages?{urlencode(pairs)}"


ROUTES: Final = (
    Route("GET", "/messages", Permission.METADATA, _list, label="Messages"),
    Route("POST", "/messages/search", Permission.METADATA, _search),
    Route("GET", "/live/messages", Permission.METADATA, _live),
    Route("POST", "/messages/export", Permission.METADATA, _export),
    Route("GET", "/codes", Permission.METADATA, _show, label="Unmapped codes"),
    Route("GET", "/codes/values", Permission.PHI, _values),
)
