"""A patient: the record now, numbers, merges, held work, messages; and the search for one, which is on every page."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from starlette.responses import Response

from engine.errors import JournalError, UsageError
from engine.ops.access.actor import Permission
from engine.ops.operations.fields import digits_of
from engine.ops.operations.messages import ListMessages, SearchMessages
from engine.ops.operations.patients import CountSearched, FindPatients, SearchPatients, ShowPatient
from engine.ops.views.entry import RowFacts
from engine.ops.views.patient import FACTS, OF_PATIENTS, Other, amount_of, limits_of, sorted_by_name
from engine.ops.web.call import WebCall, go, names_of
from engine.ops.web.refusal import RefusedRequestError
from engine.ops.web.route import Route

PAGE: Final = 50
MOST_FOUND: Final = 20
MOST_LETTERS: Final = 200


async def _show(call: WebCall) -> Response:
    seq, lane, before = call.entry(), call.number("lane") or 0, call.number("before") or 0
    found = await call.perform(ShowPatient, entry=seq, lane=lane, before=before, limit=PAGE)
    return await call.page("patient.html", patient=found, asked_before=before)


@dataclass(frozen=True, slots=True)
class FoundByText:
    """What a text may mean. `limits`: what was not looked through or listed, `why`: why something was not searched.

    `searched`: how many messages were, where nothing was found.
    """

    patients: Sequence[Other] = ()
    messages: Sequence[RowFacts] = ()
    said: Sequence[RowFacts] = ()
    limits: str = ""
    why: str = ""
    searched: str = ""


async def _find(call: WebCall) -> Response:
    """Find what was typed and go there; where it may mean several things, to the list of them."""
    text = call.form.get("find", "").strip()[:MOST_LETTERS]
    if not text:
        return go("/messages")
    found = await _found(call, text)
    if len(found.patients) == 1 and not found.messages and not found.limits:
        return go(f"/messages/{found.patients[0].entry}/patient?lane={found.patients[0].lane}")
    if len(found.messages) == 1 and not found.patients:
        return go(f"/messages/{found.messages[0].entry}")
    return go(f"/find?search={call.context.searches.keep(call.owner, {'find': text})}")


async def _list(call: WebCall) -> Response:
    kept = call.context.searches.find(call.owner, call.asked("search"))
    if kept is None or "find" not in kept:
        raise RefusedRequestError(404, "this search has expired: search again")
    found = await _found(call, kept["find"])
    names = await names_of(call, [message.entry for message in (*found.messages, *found.said)])
    kinds = OF_PATIENTS if call.may(Permission.PHI) else FACTS
    return await call.page("find.html", asked=kept["find"], found=found, names=names, kinds=kinds)


async def _found(call: WebCall, text: str) -> FoundByText:
    """Return the patients of a number, and the messages of an entry's number or a control ID.

    Where there are none: the patients by parts, else the messages that hold the words.
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
    if patients or messages:
        return FoundByText(patients, messages)
    found = await _by_parts(call, text, why) if call.may(Permission.PHI) else FoundByText()
    if found.patients or found.said:
        return found
    kept = await call.perform(CountSearched)
    return replace(found, searched=amount_of(kept.messages, kept.oldest_at))


async def _by_parts(call: WebCall, text: str, why: str) -> FoundByText:
    limits = ""
    try:
        found = await call.perform(SearchPatients, text=text, limit=MOST_FOUND)
        limits = limits_of(found)
        if found.patients:
            names = await names_of(call, [one.entry for one in found.patients])
            return FoundByText(sorted_by_name(found.patients, names), limits=limits)
    except (UsageError, JournalError) as error:
        why = why or str(error)
    try:
        said = (await call.perform(SearchMessages, text=text, limit=MOST_FOUND)).entries
    except (UsageError, JournalError) as error:
        return FoundByText(limits=limits, why=why or str(error).removeprefix("--"))
    return FoundByText(said=said, limits=limits, why=why)


ROUTES: Final = (
    Route("GET", "/messages/{entry}/patient", Permission.PHI, _show),
    Route("POST", "/find", Permission.METADATA, _find),
    Route("GET", "/find", Permission.METADATA, _list),
)
