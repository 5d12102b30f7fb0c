"""A scripted token endpoint and metadata service over real HTTP: it answers as told and keeps what it was asked."""

from collections import deque
from typing import Any, NamedTuple
from urllib.parse import parse_qs

import orjson
from aiohttp import web


class TokenRequest(NamedTuple):
    """One request as it came."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    form: dict[str, str]


class TokenAnswer(NamedTuple):
    """One answer: a JSON document, or a text."""

    status: int = 200
    body: Any = None
    headers: dict[str, str] = {}  # noqa: RUF012 - never written to


class TokenServer:
    """Answers `script` first, then as `paths` says of a path, then with a token t1, t2 and so on, good for an hour."""

    def __init__(self) -> None:
        self.requests: list[TokenRequest] = []
        self.script: deque[TokenAnswer] = deque()
        self.paths: dict[str, TokenAnswer] = {}
        self.url = ""
        self.tokens = 0
        self._runner: web.AppRunner | None = None

    async def start(self) -> "TokenServer":
        """Listen on a free port."""
        app = web.Application()
        app.router.add_route("*", "/{rest:.*}", self._answer)
        self._runner = web.AppRunner(app, shutdown_timeout=0.2)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def stop(self) -> None:
        """Close."""
        if self._runner is not None:
            await self._runner.cleanup()

    async def _answer(self, request: web.Request) -> web.Response:
        form = {name: values[0] for name, values in parse_qs((await request.read()).decode()).items()}
        headers = {name.lower(): value for name, value in request.headers.items()}
        self.requests.append(TokenRequest(request.method, request.path, dict(request.query), headers, form))
        if self.script:
            answer = self.script.popleft()
        elif request.path in self.paths:
            answer = self.paths[request.path]
        else:
            self.tokens += 1
            answer = TokenAnswer(body={"access_token": f"t{self.tokens}", "expires_in": 3600})
        body = answer.body.encode() if isinstance(answer.body, str) else orjson.dumps(answer.body)
        return web.Response(status=answer.status, body=body, headers=answer.headers)
