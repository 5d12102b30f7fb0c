"""Mending one message: what a replay would change at the server now, edit and replay, choose who is meant."""

from typing import Final

from starlette.responses import Response

from engine.errors import AdtEngineError, MessageError, UnconfirmedOperationError
from engine.hl7.edit import editable
from engine.ops.access.actor import Permission
from engine.ops.operations.entries import DryRunMessage, DryRunView, EditMessage, ListMatches, ResolvePatient
from engine.ops.operations.messages import ShowMessage
from engine.ops.web.call import WebCall, form, go
from engine.ops.web.refusal import RefusedRequestError, status_of
from engine.ops.web.route import Route


async def _dry_run(call: WebCall) -> Response:
    seq = call.entry()
    found = await call.perform(DryRunMessage, entry=seq)
    return call.page("dry_run.html", entry=seq, dry_run=found)


async def _show_edit(call: WebCall) -> Response:
    entry = await call.perform(ShowMessage, entry=call.entry())
    return _form(call, _to_edit(entry.message))


async def _edit(call: WebCall) -> Response:
    """Try an edited message in a dry run, or store it as a new entry, by the button that was pressed."""
    text, reason = call.form.get("message", ""), call.form.get("reason", "")
    given: dict[str, object] = {"entry": call.entry(), "message": _as_sent(text)}
    try:
        if call.form.get("do") not in {"replay", "force"}:
            found = await call.perform(DryRunMessage, **given)
            return _form(call, text, dry_run=found)
        given |= {"reason": reason, "discard_original": call.form.get("discard_original") == "yes"}
        if call.form.get("do") == "force":
            given["force"] = True
        made = await call.perform(EditMessage, **given)
    except (RefusedRequestError, UnconfirmedOperationError):
        raise
    except AdtEngineError as error:
        return _form(call, text, status=status_of(error), alarm=str(error))
    return go(f"/messages/{made.entry}", "edited-waits" if made.next_step else "edited")


async def _show_choice(call: WebCall) -> Response:
    found = await call.perform(ListMatches, entry=call.entry(), destination=call.asked("destination") or None)
    return call.page("choice.html", entry=call.entry(), found=found)


def _form(
    call: WebCall, text: str, *, status: int = 200, dry_run: DryRunView | None = None, alarm: str = ""
) -> Response:
    values = {"entry": call.entry(), "text": text, "dry_run": dry_run, "alarm": alarm}
    values |= {"reason": call.form.get("reason", ""), "discards": call.form.get("discard_original") == "yes"}
    return call.page("edit.html", status, **values)


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


ROUTES: Final = (
    Route("POST", "/messages/{entry}/rehearse", Permission.OPERATE, _dry_run),
    Route("GET", "/messages/{entry}/edit", Permission.OPERATE, _show_edit),
    Route("POST", "/messages/{entry}/edit", Permission.OPERATE, _edit),
    Route("GET", "/messages/{entry}/choose", Permission.OPERATE, _show_choice),
    form(
        "/messages/{entry}/choose", ResolvePatient, "destination", "patient", to="/messages/{entry}", notice="resolved"
    ),
)
