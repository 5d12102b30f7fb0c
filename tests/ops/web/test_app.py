"""What becomes of a fault of our own: the log has its place, the client learns nothing of it."""

from datetime import UTC, datetime
from typing import Any

import httpx
import pytest
from starlette.responses import Response

from engine.ops.web.app import App
from engine.ops.web.call import WebContext
from engine.ops.web.headers import POLICY, Cookies
from engine.ops.web.route import Authentication, Free, Route

CANARY = "Kanarivogel"


async def _break(_call: Any) -> Response:
    raise RuntimeError(f"{CANARY} has no birth date")


ROUTES = (
    Route("GET", "/page", Free.ANYBODY, _break),
    Route("GET", "/api/thing", Free.ANYBODY, _break, Authentication.TOKEN),
)
# No engine runs: these routes never come to one.
NOBODY: Any = None


@pytest.mark.parametrize(("path", "kind"), [("/page", "text/html"), ("/api/thing", "application/problem+json")])
async def test_a_fault_is_told_by_its_place_alone(path: str, kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    """500 with the usual headers and a sentence; the error's text is neither in the answer nor in the log."""
    context = WebContext(
        NOBODY, NOBODY, NOBODY, lambda: datetime.now(UTC), ROUTES, Cookies(1, tls=False), NOBODY, exposed=False
    )
    app = App(context, frozenset({"localhost"}))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as http:
        answer = await http.get(path)
    assert answer.status_code == 500
    assert answer.headers["content-type"].startswith(kind)
    assert answer.headers["content-security-policy"] == POLICY
    assert answer.headers["cache-control"] == "no-store"
    logged = capsys.readouterr()
    for said in (answer.text, logged.out, logged.err):
        assert CANARY not in said
        assert "Traceback" not in said
        assert "RuntimeError" not in answer.text
