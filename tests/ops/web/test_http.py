"""The pages over HTTP: who gets in, what every answer carries, what is refused."""

import asyncio
import hashlib
import re
from typing import Any, Final

import httpx
import pytest

from engine.ops.access.actor import Permission, Role, may
from engine.ops.web.headers import POLICY
from engine.ops.web.route import Authentication, Free, Route
from engine.ops.web.server import BOUNDS, ROUTES
from tests.ops.web.conftest import DELIVERED, HELD, HOSTILE, REFUSED, ROLES, Site
from tests.ops.web.person import OURS, PASSWORD, Person

PAGES = [route for route in ROUTES if route.gate is Authentication.SESSION]
API = [route for route in ROUTES if route.gate is Authentication.TOKEN]
# What no test of the matrix may do to the shared engine, although the role may.
SPARED = {"POST /log-out", "POST /channels/stop", "POST /channels/drain", "POST /channels/reload"}


def filled(route: Route) -> str:
    """Return the address of a route with something in its places."""
    return route.path.replace("{entry}", "1").replace("{run}", "1").replace("{name}", "style.css")


async def asked(one: Person, route: Route) -> httpx.Response:
    """Ask for a route as a page of ours would."""
    if route.method == "GET":
        async with one.http.stream("GET", filled(route)) as answer:
            return answer  # streams go on for ever: the head is enough
    return await one.http.post(filled(route), data={"csrf": one.csrf}, headers=OURS)


# Each role opens every page: the default tier does it as one of them.
EACH_ROLE: Final = [pytest.param(role, marks=() if role == "operator" else pytest.mark.matrix) for role in ROLES]
OF_THE_API: Final = [
    *(one for one in EACH_ROLE if one.values != ("admin",)),
    pytest.param("sender", marks=pytest.mark.matrix),
]


@pytest.mark.parametrize("role", EACH_ROLE)
async def test_every_page_is_for_whom_its_route_says(site: Site, role: str) -> None:
    """Routes x roles: 403 exactly where the role lacks the permission, whatever else is wrong with the request."""
    one = await site.person(role)
    await one.get("/account")
    wrong = []
    for route in PAGES:
        allowed = route.needs in {Free.ANYBODY, Free.SIGNED_IN} or may(Role(role), Permission(route.needs))
        if route.needs is Free.ANYBODY or (allowed and route.key in SPARED):
            continue
        status = (await asked(one, route)).status_code
        refused = status == 403 and not allowed
        if refused == allowed or status >= 500:
            wrong.append((route.key, status))
    assert wrong == []


async def test_nothing_is_shown_to_a_stranger(site: Site) -> None:
    """Every page but those that let people in sends a stranger to the log-in, forms too."""
    one = await site.stranger()
    for route in PAGES:
        if route.needs is not Free.ANYBODY:
            answer = await asked(one, route)
            streamed = route.path.startswith("/live/")
            assert answer.status_code == (401 if streamed else 303), route.key
            assert streamed or answer.headers["location"].startswith("/log-in"), route.key


@pytest.mark.parametrize("role", OF_THE_API)
async def test_every_address_of_the_api_is_for_whom_its_act_says(site: Site, role: str) -> None:
    """Addresses x roles of tokens: 403 exactly where the role lacks the permission; 401 without a token."""
    token = await site.token(role, f"matrix-{role}")
    wrong = []
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{site.port}", trust_env=False, timeout=60) as http:
        for route in API:
            if route.needs is Free.ANYBODY:
                continue
            assert (await http.request(route.method, filled(route))).status_code == 401, route.key
            allowed = route.needs is Free.SIGNED_IN or may(Role(role), Permission(route.needs))
            if allowed and route.needs in {Permission.CHANNELS, Permission.CARE}:
                continue
            headers = {"authorization": f"Bearer {token}"}
            status = (await http.request(route.method, filled(route), headers=headers)).status_code
            if (status == 403) == allowed or status >= 500:
                wrong.append((route.key, status))
    assert wrong == []


EVERYWHERE = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/messages", 200),
        (f"/messages/{HOSTILE}", 200),
        ("/messages/999999", 404),
        ("/nowhere", 404),
        ("/assets/style.css", 200),
        ("/assets/..%2fapp.py", 404),
        ("/api/v1/messages", 401),
        ("/log-out", 405),
    ],
)
async def test_every_answer_has_the_headers(site: Site, path: str, status: int) -> None:
    """Pages, errors, files and the API: the policy and the rest stand on each; only files of ours may be kept."""
    one = await site.person("operator")
    answer = await one.get(path)
    assert answer.status_code == status
    assert {name: answer.headers.get(name) for name in EVERYWHERE} == EVERYWHERE
    kept = path == "/assets/style.css"
    assert (answer.headers["cache-control"] == "no-store") is not kept
    assert "server" not in answer.headers
    assert "access-control-allow-origin" not in answer.headers


async def test_no_page_meets_a_file_of_another_release(site: Site) -> None:
    """Browsers keep files a while: their addresses on a page change with what they hold, and the tag is the file's."""
    one = await site.person("operator")
    page = (await one.get("/messages")).text
    named = re.findall(r'"/assets/([a-z.]+)\?v=([0-9a-f]{16})"', page)
    assert {name for name, _ in named} == {"icon.svg", "style.css", "pages.js", "htmx.min.js", "sse.min.js"}
    assert page.count("/assets/") == len(named)
    for name, tag in named:
        answer = await one.http.get(f"/assets/{name}?v={tag}")
        assert hashlib.sha256(answer.content).hexdigest().startswith(tag)
        again = await one.http.get(f"/assets/{name}", headers={"if-none-match": answer.headers["etag"]})
        assert again.status_code == 304


async def test_the_policy_is_the_strict_one() -> None:
    """No inline script or style, nothing from elsewhere, no frame, trusted types: as written in the requirements."""
    assert POLICY == (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
    )


async def test_the_session_cookie_is_out_of_reach(site: Site) -> None:
    """HttpOnly, SameSite=Strict, for this host, with no end of its own; its value is unlike any other session's."""
    await site.person("viewer")
    values = set()
    for _ in range(2):
        one = await site.stranger()
        answer = await one.log_in("viewer")
        cookies = [line for name, line in answer.headers.multi_items() if name == "set-cookie" and "sid" in line]
        assert len(cookies) == 1
        lower = cookies[0].lower()
        assert all(word in lower for word in ("httponly", "samesite=strict", "path=/"))
        assert "domain" not in lower
        values.add(one.session)
    assert len(values) == 2
    assert all(len(value) >= 43 for value in values)  # 256 bits


FORGED: dict[str, tuple[dict[str, str], dict[str, str]]] = {
    "no token": ({"csrf": ""}, OURS),
    "another's token": ({"csrf": "stolen"}, OURS),
    "from another site": ({}, {"sec-fetch-site": "cross-site", "origin": "https://evil.example"}),
    "from another port": ({}, {"sec-fetch-site": "same-site", "origin": "http://127.0.0.1:1"}),
    "an old browser elsewhere": ({}, {"origin": "https://evil.example"}),
    "a sandbox": ({}, {"origin": "null"}),
}


@pytest.mark.parametrize("kind", sorted(FORGED))
@pytest.mark.parametrize("path", [f"/messages/{DELIVERED}/replay", f"/messages/{HELD}/discard", "/log-out"])
async def test_a_forged_form_does_nothing(site: Site, kind: str, path: str) -> None:
    """Without this session's token, or begun elsewhere, a form is refused and the entry stays as it is."""
    one = await site.person("operator")
    await one.get("/account")
    fields, headers = FORGED[kind]
    before = site.rig.rows()
    form = {"csrf": one.csrf, "reason": "forged", **fields}
    answer = await one.http.post(path, data=form, headers=headers)
    assert answer.status_code == 403
    assert site.rig.rows() == before
    assert (await one.get("/account")).status_code == 200


async def test_a_token_of_another_session_does_not_do(site: Site) -> None:
    """The token of one person's page is worth nothing with another person's cookie."""
    ann, bob = await site.person("operator"), await site.person("operator", "bob")
    await ann.get("/account")
    await bob.get("/account")
    answer = await bob.http.post(f"/messages/{DELIVERED}/replay", data={"csrf": ann.csrf}, headers=OURS)
    assert answer.status_code == 403


async def test_a_forged_log_in_is_refused(site: Site) -> None:
    """Nobody can be logged in to somebody else's account from another site's page."""
    await site.person("viewer")
    one = await site.stranger()
    form = {"csrf": one.csrf, "name": "viewer", "password": PASSWORD, "to": ""}
    answer = await one.http.post("/log-in", data=form, headers={"sec-fetch-site": "cross-site"})
    assert answer.status_code == 403
    assert one.session == ""
    fresh = httpx.AsyncClient(base_url=one.base, trust_env=False)
    async with fresh as http:  # no visitor's cookie: the token belongs to nobody
        assert (await http.post("/log-in", data=form, headers=OURS)).status_code == 403


async def test_a_planted_session_is_not_taken_over(site: Site) -> None:
    """Whatever cookie stood there before, the log-in makes a new one, and the old one opens nothing."""
    await site.person("viewer")
    one = await site.stranger()
    planted = "A" * 43
    one.http.cookies.set(f"sid-{site.port}", planted, domain="127.0.0.1")
    assert (await one.log_in("viewer")).status_code == 303
    assert one.session not in {"", planted}
    async with httpx.AsyncClient(base_url=one.base, trust_env=False, cookies={f"sid-{site.port}": planted}) as thief:
        assert (await thief.get("/account")).status_code == 303
    before = one.session
    await one.get("/account")
    await one.post("/log-out")
    async with httpx.AsyncClient(base_url=one.base, trust_env=False, cookies={f"sid-{site.port}": before}) as thief:
        assert (await thief.get("/account")).status_code == 303


async def test_guessing_is_slowed_and_says_so(site: Site) -> None:
    """After a few wrong passwords the next log-in waits: 429 with Retry-After and a sentence; the name stays."""
    await site.person("viewer-phi", "guessed")
    one = await site.stranger()
    for _ in range(5):
        await one.get("/log-in")
        assert (await one.log_in("guessed", "wrong wrong wrong wrong")).status_code == 403
    answer = await one.log_in("guessed")
    assert answer.status_code == 429
    assert int(answer.headers["retry-after"]) > 0
    assert "Too many attempts" in answer.text
    assert 'value="guessed"' in answer.text


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/messages/0", 404),
        ("/messages/-1", 404),
        ("/messages/1e3", 404),
        ("/messages/９", 404),
        ("/messages/1%00", 404),
        ("/messages/1/../../etc/passwd", 404),
        ("/messages/99999999999999999999", 404),
        ("/messages?before=x", 400),
        ("/messages?before=1&search=unknown", 404),
        ("/messages?state=lost", 422),
        ("/messages?patient=RB-1", 200),
        ("/runs/x", 404),
        ("/live/messages?search=unknown", 404),
        ("/audit?search=1", 403),
        ("/messages/1/", 404),
    ],
)
async def test_paths_and_parameters_are_not_trusted(site: Site, path: str, status: int) -> None:
    """Numbers that are none, other people's searches, ways out of the tree: refused, and never a fault."""
    one = await site.person("operator")
    assert (await one.get(path)).status_code == status


@pytest.mark.parametrize(
    ("path", "form"),
    [
        ("/runs/plan", {"rate": "9" * 20}),
        ("/runs/plan", {"rate": "0"}),
        ("/messages/search", {"text": "*"}),
        ("/messages/search", {"text": '"\0 -'}),
        (f"/messages/{HELD}/discard", {"reason": "x" * 2_000}),
    ],
    ids=lambda value: str(value)[:40],
)
async def test_what_a_form_holds_is_bounded(site: Site, path: str, form: dict[str, str]) -> None:
    """Numbers beyond all bounds, words that are none (which would mean every message), reasons of pages: 422."""
    one = await site.person("operator")
    await one.get("/messages")
    assert (await one.post(path, form)).status_code == 422
    assert site.rig.rows()[HELD - 1].state == "held"


async def test_what_is_not_offered_says_what_is(site: Site) -> None:
    """405 names the methods of the address (RFC 9110, 15.5.6); a stream has no HEAD, for which it would never end."""
    one = await site.person("operator")
    for method, path, allowed in (
        ("DELETE", "/messages", "GET, HEAD"),
        ("PUT", f"/messages/{HELD}/edit", "GET, HEAD, POST"),
        ("HEAD", "/live/overview", "GET"),
        ("PATCH", "/api/v1/reload", "POST"),
    ):
        answer = await one.http.request(method, path)
        assert (answer.status_code, answer.headers["allow"]) == (405, allowed), (method, path)


async def test_a_search_of_somebody_else_is_not_found(site: Site) -> None:
    """An address with the id of another person's search opens nothing."""
    ann, bob = await site.person("operator"), await site.person("operator", "bob")
    await ann.get("/messages")
    place = (await ann.post("/messages/search", {"patient": "RB-1"})).headers["location"]
    assert (await ann.get(place)).status_code == 200
    assert (await bob.get(place)).status_code == 404


async def test_the_log_in_leads_to_no_other_place(site: Site) -> None:
    """Only pages of ours may follow the log-in."""
    await site.person("viewer")
    for wanted in ("//evil.example", "https://evil.example", "/\\evil.example", "/messages\r\nx: y", "javascript:1"):
        one = await site.stranger()
        form = {"name": "viewer", "password": PASSWORD, "to": wanted}
        assert (await one.post("/log-in", form)).headers["location"] == "/"
    one = await site.stranger()
    form = {"name": "viewer", "password": PASSWORD, "to": "/messages/1"}
    assert (await one.post("/log-in", form)).headers["location"] == "/messages/1"


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", ""])
async def test_another_name_for_this_machine_is_refused(site: Site, host: str) -> None:
    """DNS rebinding: a request for a name that is not ours is not answered, whatever its cookie."""
    one = await site.person("operator")
    answer = await one.get("/messages", host=host)
    assert answer.status_code in {400, 421}
    assert "riverbend" not in answer.text


async def test_bodies_and_heads_are_bounded(site: Site) -> None:
    """A form over 1 MiB is 413, headers over 16 KiB are 431, a field that comes twice is 400, another type is 415."""
    one = await site.person("operator")
    await one.get("/account")
    large = await one.post("/messages/search", {"text": "x" * 1_100_000})
    assert large.status_code == 413
    assert (await one.http.get("/messages", headers={"x-long": "x" * 17_000})).status_code == 431
    twice = await one.http.post(
        "/messages/search",
        content=f"csrf={one.csrf}&event=A01&event=A02",
        headers={**OURS, "content-type": "application/x-www-form-urlencoded"},
    )
    assert twice.status_code == 400
    assert (await one.http.post("/messages/search", json={"csrf": one.csrf}, headers=OURS)).status_code == 415
    assert (await one.get("/account")).status_code == 200


async def test_a_head_that_does_not_come_is_not_waited_for(site: Site) -> None:
    """What is no HTTP is refused at once, with the headers and without a body."""
    reader, writer = await asyncio.open_connection("127.0.0.1", site.port)
    writer.write(b"MSH|^~\\&|not http\r\n\r\n")
    answer = await reader.read()
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert POLICY.encode() in answer
    writer.close()
    await writer.wait_closed()


SMUGGLED = {
    "two lengths": b"GET /livez HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
    "length and chunks": b"POST /log-in HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "a sign before the length": b"POST /log-in HTTP/1.1\r\nHost: localhost\r\nContent-Length: +5\r\n\r\nhello",
    "space before the colon": b"GET /livez HTTP/1.1\r\nHost : localhost\r\n\r\n",
    "a folded header": b"GET /livez HTTP/1.1\r\nHost: localhost\r\nX: a\r\n b\r\n\r\n",
    "a bare line feed in a header": b"GET /livez HTTP/1.1\r\nHost: localhost\r\nX: a\nGET: b\r\n\r\n",
    "a chunk of no size": b"POST /log-in HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
}


@pytest.mark.parametrize("kind", sorted(SMUGGLED))
async def test_a_request_has_one_meaning(site: Site, kind: str) -> None:
    """What two servers could read differently is refused, or answered once and the line closed."""
    reader, writer = await asyncio.open_connection("127.0.0.1", site.port)
    writer.write(SMUGGLED[kind])
    writer.write_eof()
    async with asyncio.timeout(60):
        heard = await reader.read()
    assert heard.count(b"HTTP/1.1 ") <= 1
    assert b"HTTP/1.1 2" not in heard or kind == "a folded header"
    writer.close()
    await asyncio.gather(writer.wait_closed(), return_exceptions=True)


async def test_connections_of_one_address_are_bounded(site: Site) -> None:
    """The hundred and first connection of an address is told 503 when it asks; once others have gone there is room."""
    assert BOUNDS.of_address is not None
    lines = [await asyncio.open_connection("127.0.0.1", site.port) for _ in range(BOUNDS.of_address + 20)]
    reader, writer = lines[-1]
    writer.write(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
    refused = await reader.read()
    assert refused.startswith(b"HTTP/1.1 503 ")
    assert POLICY.encode() in refused
    for _, writer in lines:
        writer.close()
    await asyncio.gather(*(writer.wait_closed() for _, writer in lines), return_exceptions=True)
    stranger = Person(site.port)
    async with asyncio.timeout(60):
        while (await stranger.http.get("/livez")).status_code != 200:  # noqa: ASYNC110 - another process
            await asyncio.sleep(0.05)
    await stranger.close()


async def test_a_viewer_sees_nothing_of_a_patient(site: Site) -> None:
    """Lists, entries and searches of a viewer without PHI hold no number, name, message or visit."""
    one = await site.person("viewer")
    said = [
        await one.get(path)
        for path in ("/messages", f"/messages/{DELIVERED}", f"/messages/{HELD}", "/lanes", "/overview")
    ]
    for answer in said:
        assert answer.status_code == 200
        assert not [word for word in ("RB-1", "RB-2", "Quintero", "Marisol", "19840229", "PID|") if word in answer.text]
    await one.get("/messages")
    assert (await one.post("/messages/search", {"patient": "RB-1"})).status_code == 403
    assert (await one.get(f"/messages/{DELIVERED}/explain")).status_code == 403


async def test_hostile_names_are_text(site: Site) -> None:
    """Markup in PID-5 is escaped wherever it is shown, control and direction characters are named."""
    one = await site.person("operator")
    for path in (f"/messages/{HOSTILE}", f"/messages/{HOSTILE}/explain", f"/messages/{HOSTILE}/edit"):
        text = (await one.get(path)).text
        assert "&lt;script&gt;alert(1)" in text
        assert "<script>alert" not in text
        assert "<img src=x" not in text
    shown = (await one.get(f"/messages/{HOSTILE}")).text
    assert "\u202e" not in shown
    assert "\x1b" not in shown
    assert "⟨RIGHT-TO-LEFT OVERRIDE⟩" in shown


async def test_searches_for_patients_leave_no_trace_in_addresses_or_logs(site: Site) -> None:
    """Patient, visit and text go in forms; neither an address that we make nor a log line holds them."""
    one = await site.person("operator")
    seen: list[Any] = []
    for field, value in (("patient", "KNRMRN77"), ("visit", "KNRVISIT8"), ("text", "Kanarivogel")):
        await one.get("/messages")
        answer = await one.post("/messages/search", {field: value})
        assert answer.status_code == 303
        seen += [answer.headers["location"], str((await one.get(answer.headers["location"])).url)]
        assert value in one.page  # told to whoever searched
    assert not [place for place in seen if "KNR" in place or "Kanari" in place]
    assert b"KNR" not in b"".join(site.rig.engine.said)
    assert b"Kanari" not in b"".join(site.rig.engine.said)


async def test_an_exported_table_calculates_nothing(site: Site) -> None:
    """A control ID that is a formula has an apostrophe in front in the file."""
    one = await site.person("operator")
    await one.get("/messages")
    place = (await one.post("/messages/search", {"event": "A28"})).headers["location"]
    await one.get(place)
    answer = await one.post("/messages/export", {"search": place.partition("search=")[2].partition("&")[0]})
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-disposition"] == 'attachment; filename="messages.csv"'
    assert ",'=1+1," in answer.text
    assert "RB-6" not in answer.text


async def test_a_refused_entry_says_why_and_what_to_do(site: Site) -> None:
    """The page of an entry shows its reason's line from the one table."""
    one = await site.person("viewer")
    text = (await one.get(f"/messages/{REFUSED}")).text
    assert "no-identity" in text
    assert "Next:" in text
