"""A patient: the record now, numbers, merges, held work, messages; and the search for one, which is on every page."""

from typing import Final

from starlette.responses import Response

from engine.errors import JournalError, UsageError
from engine.ops.access.actor import Permission
from engine.ops.operations.fields import digits_of
from engine.ops.operations.messages import ListMessages, SearchMessages
from engine.ops.operations.patients import FindPatients, ShowPatient
from engine.ops.views.entry import RowFacts
from engine.ops.views.patient import Other
from engine.ops.web.call import WebCall, go, names_of
from engine.ops.web.refusal import RefusedRequestError
from engine.ops.web.route import Route

PAGE: Final = 50
MOST_FOUND: Final = 20
MOST_LETTERS: Final = 200


async def _show(call: WebCall) -> Response:
    seq, lane, before = call.entry(), call.number("lane") or 0, call.number("before") or 0
    found = await call.perform(ShowPatient, entry=seq, lane=lane, before=before, limit=PAGE)
    return call.page("patient.html", patient=found, asked_before=before)


async def _find(call: WebCall) -> Response:
    """Find what was typed and go there; where it may mean several things, to the list of them."""
    text = call.form.get("find", "").strip()[:MOST_LETTERS]
    if not text:
        return go("/messages")
    patients, messages, said, _ = await _found(call, text)
    if len(patients) == 1 and not messages:
        return go(f"/messages/{patients[0].entry}/patient?lane={patients[0].lane}")
    if len(messages) == 1 and not patients and not said:
        return go(f"/messages/{messages[0].entry}")
    return go(f"/find?search={call.context.searches.keep(call.owner, {'find': text})}")


async def _list(call: WebCall) -> Response:
    kept = call.context.searches.find(call.owner, call.asked("search"))
    if kept is None or "find" not in kept:
        raise RefusedRequestError(404, "this search has expired: search again")
    patients, messages, said, why = await _found(call, kept["find"])
    names = await names_of(call, [message.entry for message in (*messages, *said)])
    return call.page(
        "find.html", asked=kept["find"], patients=patients, messages=messages, said=said, why=why, names=names
    )


async def _found(call: WebCall, text: str) -> tuple[list[Other], list[RowFacts], list[RowFacts], str]:
    """Return the patients of a number, the messages of an entry's number or a control ID, those that hold the words.

    Words are looked for where nothing else was found; with why they could not be.
    """
    patients, why = [], ""
    if call.may(Permission.PHI):
        try:
            patients = await call.perform(FindPatients, patient=text)
        except UsageError as error:
            why = str(error)
    messages = list((await call.perform(ListMessages, control_id=text, limit=MOST_FOUND)).entries)
    if number := digits_of(text):
        nearest = await call.perform(ListMessages, before=number + 1, limit=1)
        messages += [entry for entry in nearest.entries if entry.entry == number and entry not in messages]
    if patients or messages or not call.may(Permission.PHI):
        return patients, messages, [], why
    try:
        said = await call.perform(SearchMessages, text=text, limit=MOST_FOUND)
    except (UsageError, JournalError) as error:
        return [], [], [], why or str(error).removeprefix("--")
    return [], [], list(said.entries), why


ROUTES: Final = (
    Route("GET", "/messages/{entry}/patient", Permission.PHI, _show),
    Route("POST", "/find", Permission.METADATA, _find),
    Route("GET", "/find", Permission.METADATA, _list),
)
