"""For machines: whether the engine lives and can take messages, its metrics, and messages sent over HTTP."""

from typing import Final

from starlette.responses import Response

from engine.ops.access.actor import Permission
from engine.ops.views.health import METRICS_TYPE, livez, metrics, readyz
from engine.ops.web.api.routes import as_json
from engine.ops.web.body import read_body
from engine.ops.web.call import Call
from engine.ops.web.refusal import RefusedRequestError
from engine.ops.web.route import Free, Gate, Route
from engine.receive.reply import Peer


async def _livez(call: Call) -> Response:
    status, found = livez(call.desk.engine)
    return as_json({"alive": found["alive"]}, status)


async def _readyz(call: Call) -> Response:
    """Say whether messages can be taken; names of channels and destinations are for those who are known."""
    status, found = await readyz(call.desk.engine)
    return as_json({name: found[name] for name in ("ready", "stopping", "journal")}, status)


async def _metrics(_call: Call) -> Response:
    status, text = metrics()
    return Response(text, status, {"content-type": METRICS_TYPE})


async def _post(call: Call) -> Response:
    """Take one message on a channel's HTTP listener, as far as the token reaches; the answer is its acknowledgement."""
    path = str(call.request.path_params["path"])
    posts = call.desk.posts
    limit = posts.limit(path)
    if not limit:
        raise RefusedRequestError(404, "no channel listens here")
    _check_channel(call, path)
    body = await read_body(call.request, limit)
    peer = Peer(call.address, call.request.client.port if call.request.client else 0)
    status, kind, answer = await posts.answer(path, body, peer, call.request.headers.get("content-type", ""))
    return Response(answer, status, {"content-type": kind})


def _check_channel(call: Call, path: str) -> None:
    """RefusedRequestError 403 where the token is limited to other channels than the one behind a path."""
    limited = call.by.channels
    of_path = {
        name
        for name, feed in call.desk.engine.feeds.items()
        if feed.channel.listen.http is not None and feed.channel.listen.http.path == path
    }
    if limited and not of_path & set(limited):
        raise RefusedRequestError(403, f"this token is limited to {', '.join(limited)}")


ROUTES: Final = (
    Route("GET", "/livez", Free.ANYBODY, _livez, Gate.TOKEN),
    Route("GET", "/readyz", Free.ANYBODY, _readyz, Gate.TOKEN),
    Route("GET", "/metrics", Permission.METADATA, _metrics, Gate.TOKEN),
    Route("POST", "/hl7/v2/{path}", Permission.SEND, _post, Gate.TOKEN),
)
