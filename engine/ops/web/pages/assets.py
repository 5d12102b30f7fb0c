"""The files that pages need; nothing else can be asked for."""

from typing import Final

from starlette.responses import Response

from engine.ops.web.call import WebCall
from engine.ops.web.headers import KEPT
from engine.ops.web.refusal import RefusedRequestError
from engine.ops.web.renderer import FILES, KINDS, TAGS
from engine.ops.web.route import Free, Route


async def _asset(call: WebCall) -> Response:
    name = str(call.request.path_params.get("name", ""))
    if name not in FILES:
        raise RefusedRequestError(404)
    tag = f'"{TAGS[name]}"'
    headers = {"etag": tag, KEPT[0].decode(): KEPT[1].decode()}
    if call.request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    return Response(FILES[name], headers=headers, media_type=KINDS[name])


ROUTES: Final = (Route("GET", "/assets/{name}", Free.ANYBODY, _asset),)
