"""The audit trail: who did or saw what, proven and exported."""

from collections.abc import Mapping
from typing import Final

from starlette.concurrency import iterate_in_threadpool
from starlette.responses import Response, StreamingResponse

from engine.ops.access.actor import Permission
from engine.ops.operations.audit import ExportTrail, ListTrail, VerifyTrail
from engine.ops.views.auditing import Proof, exported
from engine.ops.web.call import WebCall, go, numbered
from engine.ops.web.refusal import RefusedRequestError
from engine.ops.web.route import Route

PAGE: Final = 100
WORDS: Final = ("actor", "act", "outcome", "patient", "since", "until")


async def _search(call: WebCall) -> Response:
    """Keep what is searched for, as a patient may be named, and go to the list of it."""
    criteria: dict[str, object] = {name: call.form[name].strip() for name in WORDS if call.form.get(name, "").strip()}
    entry = call.form.get("entry", "").strip()
    if entry:
        criteria["entry"] = numbered("entry", entry, 422)
    return go(f"/audit?search={call.context.searches.keep(call.owner, criteria)}" if criteria else "/audit")


async def _verify(call: WebCall) -> Response:
    proof = await call.perform(VerifyTrail)
    return await _page(call, proof)


async def _export(call: WebCall) -> Response:
    """Answer with the rows of a search, as a file; what may be exported is recorded first."""
    criteria = dict(_criteria(call, call.form.get("search", "")))
    leave = await call.perform(ExportTrail, **criteria, format="csv")
    folder = call.context.engine.files.data
    lines = exported(folder, ExportTrail.parse(criteria).chosen(folder), "csv", leave.upto)
    headers = {"content-disposition": 'attachment; filename="audit.csv"'}
    return StreamingResponse(iterate_in_threadpool(lines), media_type="text/csv", headers=headers)


async def _page(call: WebCall, proof: Proof | None = None) -> Response:
    criteria, before = _criteria(call, call.asked("search")), call.number("before")
    rows = await call.perform(ListTrail, **criteria, before=before, limit=PAGE)
    more = f"/audit?search={call.asked('search')}&before={rows[-1].row}" if len(rows) == PAGE else ""
    return await call.page(
        "audit.html", rows=rows, criteria=criteria, more=more, proof=proof, search=call.asked("search")
    )


def _criteria(call: WebCall, name: str) -> Mapping[str, object]:
    criteria = call.context.searches.find(call.owner, name) if name else {}
    if criteria is None:
        raise RefusedRequestError(404, "this search has expired: search again")
    return criteria


ROUTES: Final = (
    Route("GET", "/audit", Permission.AUDIT, _page, label="Audit trail"),
    Route("POST", "/audit/search", Permission.AUDIT, _search),
    Route("POST", "/audit/verify", Permission.AUDIT, _verify),
    Route("POST", "/audit/export", Permission.AUDIT, _export),
)
