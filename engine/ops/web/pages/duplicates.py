"""Possible duplicates: pairs of patients, both records of one next to each other, and what was decided."""

from collections.abc import Mapping
from typing import Final

from starlette.responses import Response

from engine.journal.read.duplicates import POSSIBLE
from engine.ops.access.actor import Permission
from engine.ops.operations.duplicates import ALL, SHOWN, CompareDuplicate, DecideDuplicate, ListDuplicates, NameRecords
from engine.ops.operations.fields import digits_of
from engine.ops.views.duplicate import NEW, Choice, DuplicatePage, PairStatus, RecordNamed
from engine.ops.views.reasons import reason_of
from engine.ops.web.call import WebCall, go, names_of
from engine.ops.web.route import Route

PAGE: Final = 50
WORDS: Final = {
    Choice.SAME: "The same person",
    Choice.DIFFERENT: "Different people",
    Choice.SENT: "Sent to the MPI team",
    Choice.DONE: "Done",
}
HEADINGS: Final = {
    PairStatus.OPEN: "Open",
    PairStatus.OLDER: f"Open for over {NEW.days} days",
    PairStatus.SENT: "With the MPI team",
    PairStatus.CLOSED: "Closed",
    ALL: "All",
}
SETTLED: Final = {
    "merged": "Merged",
    "linked": "Linked as one person",
    "unlinked": "Unlinked: two people",
}


async def _list(call: WebCall) -> Response:
    show = call.asked("show") if call.asked("show") in SHOWN else SHOWN[0]
    found = await call.perform(ListDuplicates, show=show, before=call.number("before") or 0, limit=PAGE)
    about = {entry for one in found.pairs for entry in (one.this or one.entry, one.that) if entry}
    return await call.page(
        "duplicates.html",
        found=found,
        read=await _read(call, found),
        names=await names_of(call, about),
        why=reason_of(POSSIBLE),
        show=show,
        headings=HEADINGS,
        words=WORDS,
        settled=SETTLED,
    )


async def _read(call: WebCall, found: DuplicatePage) -> Mapping[str, RecordNamed]:
    """Return the records that no message names, by destination and id, for who may see patients."""
    unnamed = [one.entry for one in found.pairs if one.places[0].that and not (one.this and one.that)]
    if not unnamed or not call.may(Permission.PHI):
        return {}
    read = await call.perform(NameRecords, entries=sorted(set(unnamed)))
    return {f"{one.destination} {one.record}": one for one in read}


async def _compare(call: WebCall) -> Response:
    entry = call.entry()
    pair = await call.perform(CompareDuplicate, entry=entry, number=call.number("pair") or 0)
    about = [one for one in (pair.this or entry, pair.that) if one]
    names = await names_of(call, about)
    return await call.page(
        "duplicate.html",
        pair=pair,
        this=names.get(pair.this or entry),
        that=names.get(pair.that or 0),
        words=WORDS,
        settled=SETTLED,
    )


async def _decide(call: WebCall) -> Response:
    entry, number = call.entry(), digits_of(call.form.get("pair", "")) or 0
    given = {name: call.form.get(name, "") for name in ("decision", "reason")}
    await call.perform(DecideDuplicate, entry=entry, number=number, **given)
    call.context.open_pairs.forget()
    return go(f"/duplicates/{entry}{f'?pair={number}' if number > 1 else ''}", "decided")


ROUTES: Final = (
    Route("GET", "/duplicates", Permission.METADATA, _list, label="Duplicates"),
    Route("GET", "/duplicates/{entry}", Permission.PHI, _compare),
    Route("POST", "/duplicates/{entry}", Permission.OPERATE, _decide),
)
