"""Possible duplicates: those that are open, a pair side by side, and what was decided of it."""

from typing import Final

from starlette.responses import Response

from engine.journal.read.uniting import POSSIBLE
from engine.ops.access.actor import Permission
from engine.ops.operations.duplicates import SHOWN, CompareDuplicate, DecideDuplicate, ListDuplicates
from engine.ops.views.duplicate import Choice
from engine.ops.views.reasons import reason_of
from engine.ops.web.call import WebCall, form
from engine.ops.web.names import names_of
from engine.ops.web.route import Route

PAGE: Final = 50
WORDS: Final = {
    Choice.SAME: "The same person",
    Choice.DIFFERENT: "Different people",
    Choice.SENT: "Sent to the MPI team",
    Choice.DONE: "Done",
}
HEADINGS: Final = {"open": "Open", "sent": "With the MPI team", "closed": "Closed", "all": "All"}


async def _list(call: WebCall) -> Response:
    show = call.asked("show") if call.asked("show") in SHOWN else SHOWN[0]
    found = await call.perform(ListDuplicates, show=show, before=call.number("before") or 0, limit=PAGE)
    names = await names_of(call, [one.entry for one in found.entries])
    return call.page(
        "duplicates.html", found=found, names=names, why=reason_of(POSSIBLE), show=show, headings=HEADINGS, words=WORDS
    )


async def _compare(call: WebCall) -> Response:
    entry = call.entry()
    pair = await call.perform(CompareDuplicate, entry=entry)
    names = await names_of(call, [entry])
    return call.page("duplicate.html", pair=pair, who=names.get(entry), words=WORDS)


ROUTES: Final = (
    Route("GET", "/duplicates", Permission.METADATA, _list, label="Possible duplicates"),
    Route("GET", "/duplicates/{entry}", Permission.PHI, _compare),
    form("/duplicates/{entry}", DecideDuplicate, "decision", "reason", to="/duplicates/{entry}", notice="decided"),
)
