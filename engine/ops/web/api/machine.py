"""For machines: whether the engine lives and can take messages, its metrics, messages and events sent over HTTP."""

import asyncio
import os
from typing import Final, Literal

from starlette.responses import Response

from engine import telemetry
from engine.journal.file.reserve import free_bytes_kept
from engine.ops.access.actor import Permission
from engine.ops.web.api.routes import as_json
from engine.ops.web.body import read_body
from engine.ops.web.call import WebCall
from engine.ops.web.refusal import RefusedRequestError
from engine.ops.web.route import Authentication, Free, Route
from engine.pipeline.engine import Engine
from engine.pipeline.fhir_intake import NOBODY
from engine.receive.reply import Peer

OK: Final = 200
UNAVAILABLE: Final = 503
METRICS_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

Health = tuple[int, dict[str, object]]


def livez(engine: Engine) -> Health:
    """Return 200 while the process does its work; 503 once the journal has stopped it: start it again."""
    alive = not (engine.journal.failed or engine.failed.is_set())
    return (OK if alive else UNAVAILABLE), {"alive": alive}


async def readyz(engine: Engine) -> Health:
    """Return 200 while messages can be taken: journal writable, disk above its reserve, listeners open, not stopping.

    A channel that was stopped counts as open. A destination that is down does not make the engine unready: messages are
    accepted and wait for it. Names of channels and destinations are for those who are known.
    """
    journal = await _journal(engine)
    listening = set(engine.feeds) <= {*engine.listeners.intakes, *engine.listeners.stopped}
    ready = journal == "ok" and not engine.stopping and listening
    return (OK if ready else UNAVAILABLE), {"ready": ready, "stopping": engine.stopping, "journal": journal}


async def _journal(engine: Engine) -> str:
    if engine.journal.failed:
        return "failed"
    if engine.journal.away:
        return "away"
    disk = await asyncio.to_thread(os.statvfs, engine.files.data)
    return "no-room" if disk.f_bavail * disk.f_frsize < free_bytes_kept(engine.files.data) else "ok"


async def _livez(call: WebCall) -> Response:
    status, found = livez(call.context.engine)
    return as_json(found, status)


async def _readyz(call: WebCall) -> Response:
    status, found = await readyz(call.context.engine)
    return as_json(found, status)


async def _metrics(_call: WebCall) -> Response:
    return Response(telemetry.metrics_text(), headers={"content-type": METRICS_TYPE})


async def _post(call: WebCall) -> Response:
    """Take one message on a channel's HTTP listener, as far as the token reaches; the answer is its acknowledgement."""
    path = str(call.request.path_params["path"])
    posts = call.context.posts
    limit = posts.limit(path)
    if not limit:
        raise RefusedRequestError(404, "no channel listens here")
    _check_channel(call, "http", path)
    body = await read_body(call.request, limit)
    status, kind, answer = await posts.answer(path, body, _peer(call), call.request.headers.get("content-type", ""))
    return Response(answer, status, {"content-type": kind})


async def _event(call: WebCall) -> Response:
    """Take what a FHIR server sends of its events, as far as the token reaches; type and id name one that changed."""
    given, events = call.request.path_params, call.context.engine.events
    path = str(given["path"])
    limit = events.limit(path)
    if not limit:
        raise RefusedRequestError(404, NOBODY)
    _check_channel(call, "fhir", path)
    resource = f"{given['type']}/{given['id']}" if "id" in given else ""
    body = None if call.request.method == "DELETE" else await read_body(call.request, limit)
    content_type = call.request.headers.get("content-type", "")
    status, kind, answer = await events.answer(path, body, _peer(call), content_type, resource=resource)
    return Response(answer, status, {"content-type": kind})


def _peer(call: WebCall) -> Peer:
    return Peer(call.address, call.request.client.port if call.request.client else 0)


def _check_channel(call: WebCall, door: Literal["http", "fhir"], path: str) -> None:
    """RefusedRequestError 403 where the token is limited to other channels than the one behind a path of a door."""
    limited = call.by.channels
    doors = {name: getattr(feed.channel.listen, door) for name, feed in call.context.engine.feeds.items()}
    of_path = {name for name, listen in doors.items() if listen is not None and listen.path == path}
    if limited and not of_path & set(limited):
        raise RefusedRequestError(403, f"this token is limited to {', '.join(limited)}")


_EVENTS: Final = "/fhir/events/{path}"
_EVENT: Final = f"{_EVENTS}/{{type}}/{{id}}"

ROUTES: Final = (
    Route("GET", "/livez", Free.ANYBODY, _livez, Authentication.TOKEN),
    Route("GET", "/readyz", Free.ANYBODY, _readyz, Authentication.TOKEN),
    Route("GET", "/metrics", Permission.METADATA, _metrics, Authentication.TOKEN),
    Route("POST", "/hl7/v2/{path}", Permission.SEND, _post, Authentication.TOKEN),
    Route("POST", _EVENTS, Permission.SEND, _event, Authentication.TOKEN),
    Route("PUT", _EVENT, Permission.SEND, _event, Authentication.TOKEN),
    Route("DELETE", _EVENT, Permission.SEND, _event, Authentication.TOKEN),
)
