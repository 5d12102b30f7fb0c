"""The pages' door: where it may stand, over TLS, with one-time codes, and when the engine stops."""

import asyncio
import ssl
import warnings
from collections.abc import AsyncIterator, Awaitable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pyotp
import pytest
import trustme

from engine.errors import AdtEngineError, StartError, UsageError
from engine.ops.operations.table import ALL
from engine.ops.socket import client
from engine.ops.web.listener import PagesListener, bind, pages_listener, tls_context
from engine.ops.web.route import Authentication, Free
from engine.ops.web.server import ROUTES
from tests.flow.program import Program
from tests.ops.alone import CHANNEL, alone
from tests.ops.web.person import OURS, PASSWORD, Person

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    """A certificate authority of the test."""
    return trustme.CA()


def _files(authority: trustme.CA, folder: Path, ends: datetime | None = None) -> tuple[Path, Path]:
    issued = authority.issue_cert("127.0.0.1", "engine.example", not_after=ends)
    certificate, key = folder / "pages.pem", folder / "pages.key"
    certificate.write_bytes(b"".join(part.bytes() for part in issued.cert_chain_pems))
    key.write_bytes(issued.private_key_pem.bytes())
    return certificate, key


@pytest.mark.parametrize(
    ("written", "host", "port"),
    [("127.0.0.1:8081", "127.0.0.1", 8081), ("[::1]:0", "::1", 0), ("localhost:1", "localhost", 1)],
)
def test_loopback_needs_nothing(written: str, host: str, port: int) -> None:
    """On this machine's own addresses the pages are served without TLS."""
    found = pages_listener(written, None, None)
    assert (found.host, found.port, found.tls, found.exposed) == (host, port, False, False)


@pytest.mark.parametrize("written", ["0.0.0.0:8081", "10.0.0.1:8081", "[::]:8081", "engine.example:8081"])
def test_nothing_is_opened_to_others_without_tls(written: str) -> None:
    """Beyond loopback a certificate is required, and the refusal says what to name."""
    with pytest.raises(UsageError, match="--admin-certificate and --admin-key"):
        pages_listener(written, None, None)


def test_a_network_that_is_none_is_told() -> None:
    """What is allowed in is written as networks."""
    for wrong in ("10.0.0.1/8", "ward-7", ""):
        with pytest.raises(UsageError, match="--admin-allow"):
            pages_listener("127.0.0.1:0", None, None, [wrong])
    assert [str(one) for one in pages_listener("127.0.0.1:0", None, None, ["10.0.0.0/8"]).allow] == ["10.0.0.0/8"]


async def test_who_is_not_on_the_list_is_not_answered(tmp_path: Path) -> None:
    """Pages, API, files and health: 403 before anybody is asked who they are; from a network of the list as ever."""
    for networks, status in ((("198.51.100.0/24",), 403), (("198.51.100.0/24", "127.0.0.0/8"), 200)):
        options = [word for network in networks for word in ("--admin-allow", network)]
        folder = tmp_path / str(status)
        folder.mkdir()
        async with alone(folder, *options) as program:
            person = Person((await program.line("pages listening"))["port"])
            for path in ("/log-in", "/livez", "/assets/style.css"):
                assert (await person.get(path)).status_code == status, path
            assert (await person.get("/api/v1/channels")).status_code == (403 if status == 403 else 401)
            await person.close()


@pytest.mark.parametrize("written", ["8081", "127.0.0.1", "127.0.0.1:x", "127.0.0.1:70000", ":8081", ""])
def test_what_is_no_address_is_told(written: str) -> None:
    """Host and port are both named."""
    with pytest.raises(UsageError, match="HOST:PORT"):
        pages_listener(written, None, None)


def test_a_certificate_that_cannot_be_used_is_told_before_the_start(authority: trustme.CA, tmp_path: Path) -> None:
    """Half of the pair, a file that is missing, a key of another certificate: each is refused with its name."""
    certificate, _ = _files(authority, tmp_path)
    other = tmp_path / "other.key"
    other.write_bytes(authority.issue_cert("127.0.0.1").private_key_pem.bytes())
    with pytest.raises(UsageError, match="belong together"):
        pages_listener("127.0.0.1:0", certificate, None)
    for wrong in (tmp_path / "missing.key", other):
        with pytest.raises(AdtEngineError, match=wrong.name):
            pages_listener("127.0.0.1:0", certificate, wrong)


def test_who_may_be_asked_for(authority: trustme.CA, tmp_path: Path) -> None:
    """Names of the certificate and, on loopback, of this machine; TLS 1.2 or newer."""
    certificate, key = _files(authority, tmp_path)
    where = pages_listener("127.0.0.1:0", certificate, key)
    assert where.names >= {"localhost", "127.0.0.1", "engine.example"}
    context = tls_context(where)
    assert context is not None
    assert context.minimum_version is ssl.TLSVersion.TLSv1_2
    assert PagesListener("10.0.0.1", 1, certificate, key).names == {"10.0.0.1", "127.0.0.1", "engine.example"}


def test_a_port_in_use_is_told() -> None:
    """Somebody else's port is named, with the next step."""
    with bind(PagesListener("127.0.0.1", 0)) as taken, pytest.raises(StartError, match="choose another --admin"):
        bind(PagesListener("127.0.0.1", taken.getsockname()[1]))


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncIterator[tuple[Program, Person]]:
    """An engine without a destination that answers, and a browser at its pages."""
    async with alone(tmp_path) as program:
        person = Person((await program.line("pages listening"))["port"])
        yield program, person
        await person.close()


async def _ask(folder: Path, act: str, /, **given: object) -> dict[str, str]:
    operation = next(one for one in ALL if one.name == act)
    found: dict[str, str] = operation.to_json(await asyncio.to_thread(client.ask, folder / "data", operation, given))
    return found


async def test_over_tls_everything_is_stricter(authority: trustme.CA, tmp_path: Path) -> None:
    """HSTS for a year, cookies with Secure that no other host can set, and TLS 1.2 at least."""
    certificate, key = _files(authority, tmp_path)
    context = ssl.create_default_context()
    authority.configure_trust(context)
    async with alone(tmp_path, "--admin-certificate", str(certificate), "--admin-key", str(key)) as program:
        port = (await program.line("pages listening"))["port"]
        async with httpx.AsyncClient(verify=context, base_url=f"https://127.0.0.1:{port}", trust_env=False) as http:
            answer = await http.get("/log-in")
            assert answer.headers["strict-transport-security"] == "max-age=31536000"
            cookie = answer.headers["set-cookie"].lower()
            assert cookie.startswith("__host-visitor=")
            assert all(word in cookie for word in ("secure", "httponly", "samesite=strict", "path=/"))
        assert await program.stop() == 0


async def test_the_end_of_the_pages_certificate_is_an_alert(tmp_path: Path) -> None:
    """As that of a channel's: urgent within a day, with the hour; the subject names the engine and the file."""
    certificate, key = _files(trustme.CA(), tmp_path, datetime.now(UTC) + timedelta(hours=6))
    async with alone(tmp_path, "--admin-certificate", str(certificate), "--admin-key", str(key)) as program:
        told = await program.line("alert")
        assert await program.stop() == 0
    assert (told["code"], told["point"]) == ("certificate-ends", f"engine {certificate}")
    assert "pages.pem: ends in 5 h 59 min" in told["reason"]


EVERYWHERE = "0.0.0.0:0"  # reached by 127.0.0.1 alone in here


async def test_off_loopback_the_engine_does_not_start_without_tls(tmp_path: Path) -> None:
    """The refusal names the options that are missing, before anything listens."""
    arguments = ("run", "--channels", "channels", "--data", "data", "--admin", EVERYWHERE)
    program = Program(tmp_path, *arguments)
    (tmp_path / "channels").mkdir()
    await program.spawn()
    assert program.process is not None
    assert await program.process.wait() == 2
    await program.wait_for(lambda: b"--admin-certificate and --admin-key" in b"".join(program.said), 10)
    assert not [line for line in program.lines if "listening" in line["event"]]


@pytest.fixture
async def exposed(authority: trustme.CA, tmp_path: Path) -> AsyncIterator[tuple[Program, Person]]:
    """An engine whose pages other machines could reach, and a browser at them over TLS."""
    certificate, key = _files(authority, tmp_path)
    options = ("--admin", EVERYWHERE, "--admin-certificate", str(certificate), "--admin-key", str(key))
    context = ssl.create_default_context()
    authority.configure_trust(context)
    async with alone(tmp_path, *options) as program:
        person = Person((await program.line("pages listening"))["port"], context)
        yield program, person
        await person.close()
        assert await program.stop() == 0


async def test_off_loopback_nobody_passes_without_a_code(exposed: tuple[Program, Person], tmp_path: Path) -> None:
    """A password alone opens not one page, form or stream; a code does, and is asked for from then on."""
    _, person = exposed
    invited = await _ask(tmp_path, "users.add", name="ann", role="operator")
    await person.get("/set-up")
    form = {"token": invited["token"], "name": "ann", "password": PASSWORD, "again": PASSWORD}
    answer = await person.post("/set-up", form)
    assert answer.headers["location"] == "/second-factor"
    cookies = [one.lower() for one in answer.headers.get_list("set-cookie")]
    assert all(word in cooky for cooky in cookies for word in ("__host-", "secure", "httponly", "samesite=strict"))
    before = person.session
    await person.get("/second-factor")
    secret = person.page.partition("secret=")[2].partition("&")[0]
    closed = [
        one
        for one in ROUTES
        if one.gate is Authentication.SESSION and one.needs is not Free.ANYBODY and "{" not in one.path
    ]
    for route in closed:
        answer = await (person.get(route.path) if route.method == "GET" else person.post(route.path))
        assert answer.status_code in {303, 401}, route.key
        assert answer.headers.get("location", "/log-in").startswith("/log-in"), route.key
    await person.get("/second-factor")
    assert (await person.post("/second-factor", {"code": pyotp.TOTP(secret).now()})).status_code == 303
    assert person.session not in {"", before}
    answer = await person.get("/messages")
    assert (answer.status_code, answer.headers["strict-transport-security"]) == (200, "max-age=31536000")
    await person.get("/account")
    await person.post("/log-out")
    assert (await person.log_in("ann")).status_code == 403


async def test_off_loopback_the_line_is_encrypted_and_the_name_is_known(
    exposed: tuple[Program, Person], authority: trustme.CA
) -> None:
    """What comes in the clear or with TLS 1.1 gets no answer; a name that is not the certificate's is refused."""
    _, person = exposed
    with pytest.raises(httpx.HTTPError):
        async with httpx.AsyncClient(trust_env=False) as plain:
            await plain.get(f"http://127.0.0.1:{person.port}/log-in")
    old = ssl.create_default_context()
    authority.configure_trust(old)
    old.set_ciphers("DEFAULT@SECLEVEL=0")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        old.minimum_version = old.maximum_version = ssl.TLSVersion.TLSv1_1
    with pytest.raises((ssl.SSLError, ConnectionError)):
        await asyncio.open_connection("127.0.0.1", person.port, ssl=old)
    for host, status in (("engine.example", 200), ("127.0.0.1", 200), ("localhost", 421), ("other.example", 421)):
        assert (await person.get("/log-in", host=f"{host}:{person.port}")).status_code == status, host


async def test_off_loopback_a_wrong_token_opens_nothing_and_a_right_one_does(
    exposed: tuple[Program, Person], tmp_path: Path
) -> None:
    """Programs come with their token over the same line; a cookie is worth nothing at the API."""
    _, person = exposed
    token = (await _ask(tmp_path, "tokens.add", name="watch", role="viewer"))["token"]
    for given, status in ((token, 200), ("guessed", 401)):
        answer = await person.http.get("/api/v1/channels", headers={"authorization": f"Bearer {given}"})
        assert answer.status_code == status
    told = (await person.http.get("/readyz")).json()
    assert set(told) == {"ready", "stopping", "journal"}


async def test_the_first_administrator_comes_by_a_one_time_token(
    engine: tuple[Program, Person], tmp_path: Path
) -> None:
    """The token sets up one account once; a wrong one, or a second use, is refused with a sentence."""
    _, person = engine
    invited = await _ask(tmp_path, "users.setup")
    refused = await person.set_up("guessed", "ann")
    assert (refused.status_code, "one-time token" in refused.text) == (403, True)
    await person.get("/set-up")
    short = await person.post("/set-up", {"token": invited["token"], "name": "ann", "password": "x", "again": "y"})
    assert short.status_code == 422
    assert (await person.set_up(invited["token"], "ann")).headers["location"] == "/account"
    assert "users" in (await person.get("/account")).text
    other = Person(person.port)
    assert (await other.set_up(invited["token"], "eve")).status_code == 403
    await other.close()


async def test_one_time_codes_are_set_up_and_then_asked_for(engine: tuple[Program, Person], tmp_path: Path) -> None:
    """Whoever must use them sees nothing before; the key is shown as text; afterwards the password alone is refused."""
    _, person = engine
    invited = await _ask(tmp_path, "users.add", name="ann", role="operator")
    await _ask(tmp_path, "users.totp", name="ann", wanted=True)
    await person.get("/set-up")
    form = {"token": invited["token"], "name": "ann", "password": PASSWORD, "again": PASSWORD}
    assert (await person.post("/set-up", form)).headers["location"] == "/second-factor"
    assert (await person.get("/messages")).headers["location"] == "/log-in?to=/messages"
    page = (await person.get("/second-factor")).text
    secret = page.partition("secret=")[2].partition("&")[0]
    assert "otpauth://totp/" in page
    assert (await person.post("/second-factor", {"code": "000000"})).status_code == 403
    done = await person.post("/second-factor", {"code": pyotp.TOTP(secret).now()})
    assert done.status_code == 303
    assert (await person.get("/messages")).status_code == 200
    other = Person(person.port)
    assert (await other.log_in("ann")).status_code == 403
    await other.close()


async def test_another_password_ends_other_sessions(engine: tuple[Program, Person], tmp_path: Path) -> None:
    """My account changes the password; another browser of the same account is logged out by that."""
    _, person = engine
    await person.set_up((await _ask(tmp_path, "users.add", name="ann", role="viewer"))["token"], "ann")
    other = Person(person.port)
    await other.log_in("ann")
    assert (await other.get("/account")).status_code == 200
    await person.get("/account")
    new = "quite another sentence, longer"
    assert (await person.post("/account/password", {"old": "wrong", "new": new, "again": new})).status_code == 403
    await person.get("/account")
    done = await person.post("/account/password", {"old": PASSWORD, "new": new, "again": new})
    assert done.headers["location"] == "/account?said=password"
    assert (await person.get("/account")).status_code == 200
    assert (await other.get("/account")).status_code == 303
    await other.close()


async def test_a_new_engine_has_a_first_page(engine: tuple[Program, Person], tmp_path: Path) -> None:
    """Before the first message every page of a viewer can be opened, and says that there is nothing."""
    _, person = engine
    await person.set_up((await _ask(tmp_path, "users.add", name="ann", role="viewer"))["token"], "ann")
    said = {"/messages": "No messages received yet", "/lanes": "Nothing is held", "/codes": "No unmapped codes"}
    for path in ("/overview", "/alerts", "/runs", "/channels", "/duplicates", "/reasons", *said):
        answer = await person.get(path)
        assert (answer.status_code, said.get(path, "") in answer.text) == (200, True), path


async def test_streams_end_when_the_engine_stops(engine: tuple[Program, Person], tmp_path: Path) -> None:
    """Somebody who watches a live list does not keep the engine from stopping, and the list says that it ended."""
    program, person = engine
    await person.set_up((await _ask(tmp_path, "users.add", name="ann", role="viewer"))["token"], "ann")
    heard = b""
    async with person.http.stream("GET", "/live/messages") as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert answer.headers["cache-control"] == "no-store"
        async for part in answer.aiter_bytes():
            if not heard:
                stopping = asyncio.create_task(program.stop())
            heard += part
    assert heard.startswith(b"event: now\ndata: ")
    assert await stopping == 0


async def _watched(person: Person, meanwhile: Awaitable[object]) -> bytes:
    """Watch the live list until it ends; once it has said something, let this happen."""
    heard = b""
    async with person.http.stream("GET", "/live/messages") as answer:
        async for part in answer.aiter_bytes():
            if not heard:
                await meanwhile
            heard += part
    return heard


async def test_a_stream_tells_that_the_session_ended(engine: tuple[Program, Person], tmp_path: Path) -> None:
    """After a log-out elsewhere the live list says so and ends; nothing more is shown."""
    _, person = engine
    await person.set_up((await _ask(tmp_path, "users.add", name="ann", role="viewer"))["token"], "ann")
    heard = await _watched(person, person.http.post("/log-out", data={"csrf": person.csrf}, headers=OURS))
    assert b"Your session has ended" in heard
    assert heard.endswith(b"event: end\ndata:\n\n")


async def test_a_stream_ends_with_the_role_that_it_was_opened_with(
    engine: tuple[Program, Person], tmp_path: Path
) -> None:
    """Whoever may no longer see the list sees nothing more of it."""
    _, person = engine
    await person.set_up((await _ask(tmp_path, "users.add", name="ann", role="viewer"))["token"], "ann")
    heard = await _watched(person, _ask(tmp_path, "users.role", name="ann", role="auditor"))
    assert heard.endswith(b"event: end\ndata:\n\n")
    assert (await person.get("/messages")).status_code == 403


OPEN_TO_ALL = CHANNEL.replace(
    "listen: {{mllp: {{host: 127.0.0.1,", "insecure: accepted\nlisten: {{mllp: {{host: 0.0.0.0,"
)


async def test_a_channel_that_is_open_to_all_is_never_forgotten(engine: tuple[Program, Person], tmp_path: Path) -> None:
    """`insecure: accepted` stands on every page, in the audit trail and in the log, over restarts, while it is so."""
    program, person = engine
    await person.set_up((await _ask(tmp_path, "users.add", name="ann", role="viewer"))["token"], "ann")
    assert "can be reached from other machines" not in (await person.get("/overview")).text
    await program.stop()
    file = tmp_path / "channels" / "a.yaml"
    file.write_text(OPEN_TO_ALL.format(name="a", port=0))
    await program.start()
    assert (await program.line("channel insecure"))["channel"] == "a"
    one = Person((await program.line("pages listening"))["port"])
    await one.log_in("ann")
    for path in ("/overview", "/messages", "/account"):
        assert "can be reached from other machines without" in (await one.get(path)).text, path
    rows: Any = await _ask(tmp_path, "audit.list", act="channel.insecure")
    assert [row["detail"] for row in rows] == [{"channel": "a"}]
    file.write_text(CHANNEL.format(name="a", port=0))
    await _ask(tmp_path, "reload")
    assert "can be reached from other machines" not in (await one.get("/overview")).text
    await one.close()
