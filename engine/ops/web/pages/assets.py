"""The files that pages need: a style sheet, scripts, an icon; nothing else can be asked for."""

import hashlib
from pathlib import Path
from typing import Final

from starlette.responses import Response

from engine.ops.web.call import Call
from engine.ops.web.headers import KEPT
from engine.ops.web.refusal import RefusedRequestError
from engine.ops.web.route import Free, Route

FOLDER: Final = Path(__file__).parent.parent / "assets"
KINDS: Final = {
    "style.css": "text/css; charset=utf-8",
    "pages.js": "text/javascript; charset=utf-8",
    "htmx.min.js": "text/javascript; charset=utf-8",
    "sse.min.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
}
FILES: Final = {name: (FOLDER / name).read_bytes() for name in KINDS}
TAGS: Final = {name: f'"{hashlib.sha256(content).hexdigest()[:16]}"' for name, content in FILES.items()}


async def _asset(call: Call) -> Response:
    name = str(call.request.path_params.get("name", ""))
    if name not in FILES:
        raise RefusedRequestError(404)
    headers = {"etag": TAGS[name], KEPT[0].decode(): KEPT[1].decode()}
    if call.request.headers.get("if-none-match") == TAGS[name]:
        return Response(status_code=304, headers=headers)
    return Response(FILES[name], headers=headers, media_type=KINDS[name])


ROUTES: Final = (Route("GET", "/assets/{name}", Free.ANYBODY, _asset),)
