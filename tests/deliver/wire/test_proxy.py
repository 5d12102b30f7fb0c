"""The way through a proxy, on real sockets: tunnels to https, whole addresses to http, and what goes wrong before."""

import asyncio
import base64
import contextlib
import re
import ssl

import orjson
import pytest
import trustme
import uvloop

from engine.config.http_client import is_bypassed
from engine.deliver.verdict import Failure, VerdictKind
from engine.deliver.wire.client import FhirClient
from engine.deliver.wire.failure import class_of
from engine.deliver.wire.proxy import ProxyRoute
from engine.errors import DeliveryError, StartError
from engine.fhir.plan import Upsert
from tests.deliver.fake_fhir import FakeFhir

PASSWORD = "SENTINEL-of-proxy"
VARIABLES = ("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY", "NO_PROXY")


class FakeProxy:
    """A forward proxy: `answer` in the place of a tunnel or a request; `heads` are those of all requests."""

    def __init__(self):
        self.heads = []
        self.answer = b""
        self.silent = False
        self.credentials = ""
        self._writers = []

    async def start(self):
        """Listen on a free port."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def stop(self):
        """End all connections."""
        self._server.close()
        for writer in self._writers:
            writer.transport.abort()
        await asyncio.sleep(0)

    @property
    def requests(self):
        """The first lines of all requests."""
        return [head.split("\r\n", 1)[0] for head in self.heads]

    async def _serve(self, reader, writer):
        self._writers.append(writer)
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                self.heads.append(head)
                if self.silent:
                    continue
                if self.credentials and f"Proxy-Authorization: Basic {self.credentials}" not in head:
                    writer.write(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
                elif self.answer:
                    writer.write(self.answer)
                elif head.startswith("CONNECT "):
                    await self._tunnel(head, reader, writer)
                    break
                else:
                    await self._forward(head, reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def _tunnel(self, head, reader, writer):
        host, _, port = head.split(" ")[1].rpartition(":")
        there, back = await asyncio.open_connection(host, int(port))
        self._writers.append(back)
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        await asyncio.gather(_pump(reader, back), _pump(there, writer))

    async def _forward(self, head, reader, writer):
        line, _, rest = head.partition("\r\n")
        method, address, version = line.split(" ")
        authority, _, path = address.removeprefix("http://").partition("/")
        host, _, port = authority.rpartition(":")
        # What is for the proxy alone goes no further (RFC 9110, 11.7.2).
        rest = re.sub(r"Proxy-Authorization: [^\r]*\r\n", "", rest)
        length = next((int(one[16:]) for one in rest.split("\r\n") if one.startswith("Content-Length: ")), 0)
        there, back = await asyncio.open_connection(host, int(port))
        self._writers.append(back)
        back.write(f"{method} /{path} {version}\r\nConnection: close\r\n{rest}".encode() + await reader.read(length))
        await _pump(there, writer)


async def _pump(reader, writer):
    try:
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
    except ConnectionError:
        pass
    finally:
        writer.close()


@pytest.fixture
async def proxy():
    """A proxy on a free port."""
    fake = await FakeProxy().start()
    yield fake
    await fake.stop()


def issued(folder):
    """Return the context of a server with TLS, and the file of its authority."""
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    authority.cert_pem.write_to_path(str(folder / "ca.pem"))
    return context, str(folder / "ca.pem")


@pytest.fixture
async def secure(tmp_path):
    """A FHIR server with TLS, and the file of its authority."""
    context, ca_file = issued(tmp_path)
    fake = await FakeFhir().start(ssl=context)
    yield fake, ca_file
    await fake.stop()


@pytest.fixture(autouse=True)
def bare(monkeypatch):
    """Without the variables of whoever runs the tests."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


async def failing(client, url, method="PUT"):
    """Return the error of a request."""
    with pytest.raises(DeliveryError) as caught:
        await client.send(method, url, [], b"{}")
    await client.close()
    return caught.value


async def test_https_goes_through_one_tunnel_for_many_requests(site, secure, proxy, patient):
    """The proxy sees host and port, and nothing of what is sent; the tunnel is kept as a connection is."""
    server, ca_file = secure
    site.base = server.base
    site.open(proxy=proxy.url, ca_file=ca_file)
    assert (await site.send(Upsert(patient("1")))).kind is VerdictKind.DELIVERED
    where = server.base.removeprefix("https://").partition("/")[0]
    assert proxy.requests == [f"CONNECT {where} HTTP/1.1"]
    assert len(server.requests) > 1
    assert not any("Proxy-" in name for headers in server.headers for name in headers)


def test_tunnels_on_the_loop_of_the_engine(tmp_path):
    """On uvloop: many at once, with large bodies, a server that is not trusted, and a proxy that goes away."""
    context, ca_file = issued(tmp_path)

    async def talk():
        async with contextlib.AsyncExitStack() as stack:
            proxy, server = await FakeProxy().start(), await FakeFhir().start(ssl=context)
            stack.push_async_callback(server.stop)
            stack.push_async_callback(proxy.stop)
            route = ProxyRoute(proxy.url)
            client = FhirClient(request_seconds=30, ca_file=ca_file, proxy=route)
            stack.push_async_callback(client.close)
            body = orjson.dumps({"resourceType": "Patient", "text": "x" * 2_000_000})
            for name in "abcdefgh":
                server.add(name)
            for _ in range(2):
                writes = (client.send("PUT", f"{server.base}/Patient/{name}", [], body) for name in "abcdefgh")
                assert {answer.status for answer in await asyncio.gather(*writes)} == {200}
            assert len(proxy.requests) == 8
            codes = []
            for answer in (b"", b"HTTP/1.1 503 Busy\r\n\r\n", None):
                proxy.answer = answer or b""
                if answer is None:
                    await proxy.stop()
                error = await failing(FhirClient(request_seconds=30, proxy=route), f"{server.base}/Patient/a")
                codes += error.codes
            assert codes == ["tls-certificate", "proxy-failed", "proxy-unreachable"]

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(talk())


async def test_http_is_asked_by_its_whole_address(site, server, proxy, patient):
    """As RFC 9112, 3.2.2 asks of requests to a proxy."""
    site.open(proxy=proxy.url)
    assert (await site.send(Upsert(patient("1")))).kind is VerdictKind.DELIVERED
    assert len(proxy.requests) == len(server.requests)
    assert all(line.split(" ")[1].startswith(f"{server.base}/Patient") for line in proxy.requests)


@pytest.mark.parametrize("over", ["http", "https"])
async def test_credentials_are_the_proxys_alone(site, server, secure, proxy, patient, monkeypatch, over):
    """They are sent to it and to nobody else; without them nothing is sent, and the destination is not asked."""
    monkeypatch.setenv("PROXY_PASSWORD", PASSWORD)
    proxy.credentials = base64.b64encode(f"engine:{PASSWORD}".encode()).decode()
    fhir, ca_file = (server, None) if over == "http" else secure
    site.base = fhir.base
    site.open(proxy=proxy.url, ca_file=ca_file)
    refused = await site.send(Upsert(patient("1")))
    assert (refused.kind, refused.reason, refused.failure) == (
        VerdictKind.RETRY, "proxy-authentication", Failure.DESTINATION,
    )  # fmt: skip
    assert fhir.requests == []
    await site.again(proxy_user="engine", proxy_password={"env": "PROXY_PASSWORD"})
    delivered = await site.send(Upsert(patient("1")))
    assert delivered.kind is VerdictKind.DELIVERED
    assert not any("Proxy-Authorization" in headers for headers in fhir.headers)
    shown = repr((refused, delivered, site.destination.settings, site.destination))
    assert PASSWORD not in shown
    assert proxy.credentials not in shown


async def test_a_password_that_cannot_be_read_sends_nothing(secure, proxy, site, patient, monkeypatch):
    """It is the destination that cannot be used, not the message."""
    server, ca_file = secure
    site.base = server.base
    site.open(proxy=proxy.url, ca_file=ca_file, proxy_user="engine", proxy_password={"env": "NO_SUCH_PASSWORD"})
    verdict = await site.send(Upsert(patient("1")))
    assert (verdict.reason, verdict.failure) == ("secret-unreadable", Failure.DESTINATION)
    assert (proxy.requests, server.requests) == ([], [])


@pytest.mark.parametrize(
    ("answer", "code", "failure"),
    [
        (b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n", "proxy-forbids", Failure.DESTINATION),
        (b"HTTP/1.0 404 Not Found\r\n\r\n<html>", "proxy-forbids", Failure.DESTINATION),
        (b"HTTP/1.1 407 \r\n\r\n", "proxy-authentication", Failure.DESTINATION),
        (b"HTTP/1.1 429 Slow\r\n\r\n", "proxy-failed", Failure.TRANSIENT),
        (b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 4\r\n\r\noops", "proxy-failed", Failure.TRANSIENT),
        (b"HTTP/1.1 504 Late\r\n\r\n", "proxy-failed", Failure.TRANSIENT),
        (b"HTTP/1.1 302 Found\r\nLocation: http://x/\r\n\r\n", "proxy-failed", Failure.TRANSIENT),
        (b"SSH-2.0-OpenSSH_9.6\r\n\r\n", "proxy-failed", Failure.TRANSIENT),
        (b"HTTP/1.1 200 OK\r\n\r\nearly", "proxy-failed", Failure.TRANSIENT),
        (b"x" * 70_000, "proxy-failed", Failure.TRANSIENT),
    ],
)
async def test_a_write_that_found_no_tunnel_is_never_ambiguous(proxy, answer, code, failure):
    """Nothing has left; so it is sent again, or waits until the proxy lets it through."""
    proxy.answer = answer
    client = FhirClient(request_seconds=30, proxy=ProxyRoute(proxy.url))
    error = await failing(client, "https://fhir.example/Patient/1")
    assert (error.codes, class_of(error)) == ((code,), failure)


async def test_a_proxy_that_ends_the_connection_has_failed(proxy):
    """An answer that does not come is the proxy's failure."""
    await proxy.stop()

    async def hang_up(_reader, writer):
        writer.close()

    listening = await asyncio.start_server(hang_up, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    error = await failing(FhirClient(request_seconds=30, proxy=ProxyRoute(url)), "https://fhir.example/x")
    assert (error.codes, class_of(error)) == (("proxy-failed",), Failure.TRANSIENT)
    listening.close()


@pytest.mark.parametrize("url", ["https://fhir.example/x", "http://fhir.example/x"])
async def test_a_proxy_that_is_not_there_is_named(proxy, url):
    """It is not the destination that refuses the connection."""
    await proxy.stop()
    error = await failing(FhirClient(request_seconds=30, proxy=ProxyRoute(proxy.url)), url)
    assert (error.codes, class_of(error)) == (("proxy-unreachable",), Failure.TRANSIENT)


async def test_a_proxy_that_is_silent_is_bounded(proxy):
    """Waiting for a tunnel is part of connecting, and has its time."""
    proxy.silent = True
    error = await failing(FhirClient(request_seconds=0.2, proxy=ProxyRoute(proxy.url)), "https://fhir.example/x")
    assert (error.codes, class_of(error)) == (("proxy-failed",), Failure.TRANSIENT)


async def test_the_server_behind_a_tunnel_is_verified(secure, proxy):
    """A proxy that shows a certificate of its own is not taken for the server."""
    server, _ = secure
    error = await failing(FhirClient(request_seconds=30, proxy=ProxyRoute(proxy.url)), f"{server.base}/Patient/a")
    assert (error.codes, class_of(error)) == (("tls-certificate",), Failure.DESTINATION)
    assert server.requests == []


async def test_tokens_are_asked_for_through_the_proxy(site, server, proxy, patient, monkeypatch):
    """The token endpoint is as far away as the FHIR server."""
    monkeypatch.setenv("CLIENT_SECRET", "SENTINEL")
    auth = {
        "type": "client_credentials",
        "token_url": server.base.replace("/fhir/R4", "/oauth/token"),
        "client_id": "engine",
    }
    site.open(proxy=proxy.url, auth=auth | {"client_secret": {"env": "CLIENT_SECRET"}})
    assert (await site.send(Upsert(patient("1")))).kind is VerdictKind.DELIVERED
    assert proxy.requests[0] == f"POST {auth['token_url']} HTTP/1.1"


async def test_the_environment_is_read_where_the_settings_say_so(site, server, proxy, patient, monkeypatch):
    """Credentials that it holds are used and shown to nobody; what NO_PROXY names is reached without a proxy."""
    proxy.credentials = base64.b64encode(b"us er:SENTINEL:p").decode()
    monkeypatch.setenv("HTTP_PROXY", proxy.url.replace("http://", "http://us%20er:SENTINEL%3Ap@"))
    site.open()
    await site.send(Upsert(patient("1")))
    assert proxy.requests == []
    await site.again(proxy="environment")
    await site.send(Upsert(patient("2")))
    through = len(proxy.requests)
    assert through > 0
    assert "SENTINEL" not in repr((site.destination.settings, vars(ProxyRoute("environment"))))
    monkeypatch.setenv("NO_PROXY", "localhost, 127.0.0.0/8")
    await site.again(proxy="environment")
    await site.send(Upsert(patient("3")))
    assert len(proxy.requests) == through


@pytest.mark.parametrize(
    "value", ["socks5://SENTINEL:x@proxy:1080", "https://proxy:3128", "http://proxy:port", "http://"]
)
def test_a_variable_that_names_no_proxy_stops_the_start(monkeypatch, value):
    """It is said which variable, and not what it holds."""
    monkeypatch.setenv("HTTPS_PROXY", value)
    with pytest.raises(StartError, match="HTTPS_PROXY holds no address") as caught:
        ProxyRoute("environment")
    assert "SENTINEL" not in str(caught.value)


@pytest.mark.parametrize(
    ("entry", "host", "bypassed"),
    [
        ("*", "fhir.example", True),
        ("", "fhir.example", False),
        ("fhir.example", "fhir.example", True),
        ("example", "fhir.example", True),
        (".example", "fhir.example", True),
        ("*.example", "fhir.example", True),
        ("FHIR.Example", "fhir.example", True),
        ("hir.example", "fhir.example", False),
        ("a.example, fhir.example:443", "fhir.example", True),
        ("fhir.example:8443", "fhir.example", False),
        ("10.0.0.0/8", "10.1.2.3", True),
        ("10.1.2.3", "10.1.2.3", True),
        ("10.1.2.3:443", "10.1.2.3", True),
        ("10.1.2.3:80", "10.1.2.3", False),
        ("::1", "::1", True),
        ("[::1]:443", "::1", True),
        ("[::1]:80", "::1", False),
        ("1", "10.0.0.1", False),
        (".", "fhir.example", False),
    ],
)
def test_no_proxy_by_the_usual_rules(monkeypatch, entry, host, bypassed):
    """A name and what is below it, an address, a network; with a port, that port alone."""
    monkeypatch.setenv("NO_PROXY", entry)
    assert is_bypassed(host, 443) is bypassed
