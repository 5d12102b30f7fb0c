"""The JSON API: the same acts with bearer tokens."""

from base64 import b64decode
from collections.abc import AsyncIterator

import httpx
import pytest

from engine.errors import UsageError
from engine.ops.socket.admin import _asked
from tests.ops.web.conftest import DELIVERED, FEED, HELD, HOSTILE, Site


@pytest.fixture
async def http(site: Site) -> AsyncIterator[httpx.AsyncClient]:
    """A program with an operator's token."""
    token = await site.token("operator", f"program-{len(site.people)}")
    site.people[f"program-{len(site.people)}"] = await site.stranger()
    headers = {"authorization": f"Bearer {token}"}
    base = f"http://127.0.0.1:{site.port}/api/v1"
    async with httpx.AsyncClient(base_url=base, headers=headers, trust_env=False, timeout=60) as client:
        yield client


async def test_it_tells_what_the_commands_tell(site: Site, http: httpx.AsyncClient) -> None:
    """Lists, one entry and counts are what the acts return over the admin socket."""
    listed = (await http.get("/messages", params={"state": "held", "limit": "10"})).json()
    assert listed == await site.act("messages.list", state="held", limit=10)
    assert [row["entry"] for row in listed["entries"]] == [HELD]
    assert (await http.get(f"/messages/{DELIVERED}")).json() == await site.act("messages.show", entry=DELIVERED)
    assert (await http.get("/reasons")).json() == await site.act("reasons")


async def test_patients_are_asked_for_in_a_body(http: httpx.AsyncClient) -> None:
    """POST finds a patient's entries; the same words in an address are refused."""
    found = await http.post("/messages/search", json={"patient": "RB-1"})
    assert [row["entry"] for row in found.json()["entries"]] == [DELIVERED]
    refused = await http.get("/messages", params={"patient": "RB-1"})
    assert refused.status_code == 400


@pytest.mark.parametrize(
    ("method", "path", "content", "status"),
    [
        ("GET", "/messages/99999", b"", 404),
        ("GET", "/messages/x", b"", 404),
        ("GET", "/messages?limit=x", b"", 400),
        ("GET", "/messages?limit=1&limit=2", b"", 400),
        ("GET", "/messages?state=lost", b"", 422),
        ("POST", "/messages/search", b"[1]", 400),
        ("POST", "/messages/search", b"{", 400),
        ("POST", "/messages/search", b'{"patient": "RB-1", "patient": "RB-2"}', 400),
        ("POST", "/messages/search", b'{"patient":"RB-1","x":{"a":[{"b":1,"b":1}]}}', 400),
        ("POST", "/messages/search", b"[" * 100_000, 400),
        ("POST", f"/messages/{DELIVERED}/replay", b'{"entry": 2}', 400),
        ("POST", f"/messages/{DELIVERED}/release", b"{}", 409),
        ("POST", f"/messages/{HELD}/discard", b"{}", 422),
        ("DELETE", "/messages/1", b"", 405),
        ("GET", "/nothing", b"", 404),
        ("POST", "/messages/search", b" " * 1_100_000, 413),
        ("POST", "/messages/search", b'{"limit": null}', 422),
        ("POST", "/mappings/check", b'{"edited": null}', 422),
        ("POST", "/mappings/check", b'{"edited": {"events.yaml": null}}', 422),
        ("POST", "/mappings/run-cases", b'{"edited": null}', 422),
        ("POST", "/messages/named", b'{"entries": [null]}', 422),
        ("GET", "/lanes?limit=0", b"", 422),
        ("GET", "/lanes?limit=1001", b"", 422),
    ],
)
async def test_errors_are_problems(
    http: httpx.AsyncClient, method: str, path: str, content: bytes, status: int
) -> None:
    """What is refused is application/problem+json with the status and a sentence, and nothing of our inside."""
    headers = {"content-type": "application/json"} if content else {}
    answer = await http.request(method, path, content=content or None, headers=headers)
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json()
    assert problem["status"] == status
    assert set(problem) == {"type", "title", "status", "detail"}
    assert "Traceback" not in problem["detail"]


async def test_a_key_that_stands_twice_is_named_as_that(site: Site, http: httpx.AsyncClient) -> None:
    """Of two values nobody knows which is meant: over HTTP and over the admin socket nothing is done."""
    content = b'{"reason": "wrong", "reason": "right"}'
    answer = await http.post(f"/messages/{HELD}/discard", content=content, headers={"content-type": "application/json"})
    assert (answer.status_code, answer.json()["detail"]) == (
        400, "a key appears twice in an object of the body: give it once",
    )  # fmt: skip
    with pytest.raises(UsageError, match="a key appears twice"):
        _asked(b'{"do": "messages.discard", "with": {"entry": 1, "entry": 2}}\n')
    assert _asked(b'{"do": "messages.discard", "with": {"entry": 1}}\n') == ("messages.discard", {"entry": 1})


async def test_only_a_good_token_opens_it(site: Site, http: httpx.AsyncClient) -> None:
    """None, a wrong scheme, an unknown one, a revoked one, and a browser's session: 401 with a challenge."""
    person = await site.person("operator")
    for headers in ({}, {"authorization": "Basic b3A6b3A="}, {"authorization": "Bearer guessed"}):
        answer = await person.http.get("/api/v1/messages", headers=headers)
        assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
    token = await site.token("viewer", "short-lived")
    good = {"authorization": f"Bearer {token}"}
    assert (await person.http.get("/api/v1/messages", headers=good)).status_code == 200
    await site.act("tokens.revoke", name="short-lived")
    assert (await person.http.get("/api/v1/messages", headers=good)).status_code == 401


async def test_where_wrong_tokens_come_from_is_logged(site: Site, http: httpx.AsyncClient) -> None:
    """With the address and never a part of the token; many of them make few lines."""
    engine = site.rig.engine
    for _ in range(20):
        answer = await http.get("/channels", headers={"authorization": "Bearer adt_a-mistyped-one"})
        assert answer.status_code == 401
    await engine.line("token refused")
    lines = [line for line in engine.lines if line["event"] == "token refused"]
    assert len(lines) < 20
    assert {line["address"] for line in lines} == {"127.0.0.1"}
    assert "mistyped" not in str(engine.lines)


async def test_a_token_opens_no_page(site: Site, http: httpx.AsyncClient) -> None:
    """Pages know sessions only."""
    answer = await http.get(f"http://127.0.0.1:{site.port}/messages")
    assert answer.headers["location"] == "/log-in?to=/messages"


async def test_a_token_of_one_channel_reaches_no_further(site: Site, http: httpx.AsyncClient) -> None:
    """It lists the messages of the channel that it names, and nothing else."""
    token = await site.token("viewer", "of-one", ("riverbend-adt",))
    headers = {"authorization": f"Bearer {token}"}
    assert (await http.get("/messages?channel=riverbend-adt", headers=headers)).status_code == 200
    assert (await http.get("/messages", headers=headers)).status_code == 403
    assert (await http.get("/channels", headers=headers)).status_code == 403


async def test_the_description_has_the_bounds(http: httpx.AsyncClient) -> None:
    """What a number may be is described as it is refused."""
    paths = (await http.get("/openapi.json")).json()["paths"]
    for path, bounds in (("lanes", (1, 1000)), ("replays", (1, 200)), ("messages", (0, 10**15 - 1))):
        found = {one["name"]: one["schema"] for one in paths[f"/api/v1/{path}"]["get"]["parameters"]}
        assert (found["limit"]["minimum"], found["limit"]["maximum"]) == bounds, path
        answers = [await http.get(f"/{path}?limit={limit}") for limit in (bounds[0], bounds[1] + 1)]
        assert answers[0].status_code == 200
        assert answers[1].status_code in {400, 422}


async def test_it_is_described(http: httpx.AsyncClient) -> None:
    """OpenAPI 3.1 with every address, its permission, and where a parameter belongs."""
    told = (await http.get("/openapi.json")).json()
    assert told["openapi"] == "3.1.0"
    shown = told["paths"]["/api/v1/messages/{entry}"]["get"]
    assert (shown["operationId"], shown["x-permission"]) == ("messages.show", "phi")
    assert shown["parameters"][0] == {
        "name": "entry",
        "in": "path",
        "required": True,
        "schema": {
            "type": "integer",
            "minimum": 0,
            "description": "The number of an entry, as `messages list` shows it.",
        },
    }


async def test_the_exact_bytes_are_for_who_may_see_patients(site: Site, http: httpx.AsyncClient) -> None:
    """As for the message itself; a viewer of facts is turned away at the door."""
    told = (await http.get(f"/messages/{HOSTILE}/raw")).json()
    assert b64decode(told["base64"]) == FEED[HOSTILE - 1]
    token = await site.token("viewer", "no-bytes")
    refused = await http.get(f"/messages/{HOSTILE}/raw", headers={"authorization": f"Bearer {token}"})
    assert refused.status_code == 403
    rows = [row for row in await site.act("audit.list", entry=HOSTILE) if row["act"] == "messages.raw"]
    assert [row["outcome"] for row in rows] == ["asked"]
    assert (await http.get("/messages/99999/raw")).json()["detail"] == "there is no entry 99999"
