"""The help pages, for every signed-in actor, and the table of reasons: what each code means and what to do next."""

from typing import Final

from starlette.responses import Response

from engine.errors import UsageError
from engine.ops.access.actor import Permission
from engine.ops.operations.reasons import ListReasons
from engine.ops.views.handbook import INDEX, page_of, read
from engine.ops.web.call import WebCall
from engine.ops.web.markdown import html_of
from engine.ops.web.refusal import RefusedRequestError
from engine.ops.web.route import Free, Route


async def _list(call: WebCall) -> Response:
    return call.page("help.html", name="", title="Help", text=html_of("", read(INDEX)))


async def _show(call: WebCall) -> Response:
    try:
        page = page_of(str(call.request.path_params.get("name", "")))
    except UsageError as error:
        raise RefusedRequestError(404, str(error)) from error
    return call.page("help.html", name=page.name, title=page.title, text=html_of(page.name, page.text()))


async def _reasons(call: WebCall) -> Response:
    return call.page("reasons.html", reasons=await call.perform(ListReasons))


ROUTES: Final = (
    Route("GET", "/reasons", Permission.METADATA, _reasons, label="Reasons"),
    Route("GET", "/help", Free.SIGNED_IN, _list, label="Help"),
    Route("GET", "/help/{name}", Free.SIGNED_IN, _show),
)
