"""The client against servers that misbehave, and the one seam at which foreign errors become ours."""

import asyncio
import gzip
import inspect
import os
import signal
import socket
import ssl
import subprocess
import sys

import aiohttp
import httpx
import pytest
import trustme

from engine.deliver.client import FOREIGN, Client, foreign
from engine.deliver.failure import STATUS_FAILURE, class_of, failure_of
from engine.deliver.verdict import Failure
from engine.errors import (
    AmbiguousDeliveryError,
    DeliveryError,
    DestinationError,
    StartError,
    TransientDeliveryError,
)
from tests.deliver.fake_fhir import FakeFhir, Step

BEFORE_ANYTHING_WAS_SENT = {
    aiohttp.ClientConnectorError,
    aiohttp.ClientConnectorDNSError,
    aiohttp.ClientProxyConnectionError,
    aiohttp.ConnectionTimeoutError,
}
OF_THE_DESTINATION = {
    aiohttp.ClientSSLError,
    aiohttp.ClientConnectorSSLError,
    aiohttp.ClientConnectorCertificateError,
    aiohttp.ServerFingerprintMismatch,
    aiohttp.InvalidURL,
    aiohttp.InvalidUrlClientError,
    aiohttp.InvalidUrlRedirectClientError,
    aiohttp.NonHttpUrlClientError,
    aiohttp.NonHttpUrlRedirectClientError,
}


@pytest.fixture
async def client():
    """A client with small bounds."""
    made = Client(request_seconds=0.5, max_answer_bytes=100_000)
    yield made
    await made.close()


def _foreign_errors():
    kinds = [kind for _, kind in inspect.getmembers(aiohttp, inspect.isclass) if issubclass(kind, aiohttp.ClientError)]
    return sorted({kind for kind in kinds if not kind.__name__.startswith("WS")}, key=lambda kind: kind.__name__)


@pytest.mark.parametrize("kind", _foreign_errors(), ids=lambda kind: kind.__name__)
def test_every_foreign_error_has_a_class(kind):
    """Each error that aiohttp can raise becomes ours, with the class that is written down here by hand."""
    ours = foreign(kind.__new__(kind))
    expected = Failure.AMBIGUOUS
    if kind in BEFORE_ANYTHING_WAS_SENT:
        expected = Failure.TRANSIENT
    elif kind in OF_THE_DESTINATION:
        expected = Failure.DESTINATION
    assert class_of(ours) is expected


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (TimeoutError(), Failure.AMBIGUOUS),
        (ConnectionResetError(), Failure.AMBIGUOUS),
        (BrokenPipeError(), Failure.AMBIGUOUS),
        (ssl.SSLCertVerificationError(), Failure.DESTINATION),
        (httpx.InvalidURL("x"), Failure.PERMANENT),
        (UnicodeEncodeError("ascii", "x", 0, 1, "x"), Failure.PERMANENT),
        (KeyError(), Failure.DESTINATION),
    ],
    ids=lambda value: type(value).__name__,
)
def test_errors_of_the_system_have_a_class(error, expected):
    """What the system and httpx raise becomes ours too; the unknown pauses the destination."""
    assert class_of(foreign(error)) is expected


def test_table_of_foreign_errors_names_each_class_before_its_ancestors():
    """First match wins, so that no row of the table hides another."""
    kinds = [row[0] for row in FOREIGN]
    for index, kind in enumerate(kinds):
        assert not any(issubclass(kind, earlier) for earlier in kinds[:index] if earlier is not kind), kind


def test_every_status_has_a_class():
    """Every status has a class; a read is never ambiguous."""
    for status in range(200, 600):
        assert failure_of(status, write=False) is not Failure.AMBIGUOUS
        assert (failure_of(status, write=True) is Failure.NONE) == (status < 300)


def test_gateway_statuses_are_ambiguous():
    """500, 502 and 504 say nothing of what happened; 503 and 429 say that nothing did."""
    assert {failure_of(status, write=True) for status in (500, 502, 504)} == {Failure.AMBIGUOUS}
    assert {failure_of(status, write=True) for status in (429, 503)} == {Failure.TRANSIENT}
    assert {failure_of(status, write=True) for status in (401, 403)} == {Failure.DESTINATION}
    assert 302 not in STATUS_FAILURE
    assert failure_of(302, write=True) is Failure.PERMANENT


async def test_refused_connection_is_transient(client):
    """Nobody listens: surely not applied."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        with pytest.raises(TransientDeliveryError):
            await client.send("PUT", f"http://127.0.0.1:{taken.getsockname()[1]}/x", [], b"{}")


async def test_unanswered_request_is_ambiguous(client, server):
    """A server that takes the request and says nothing: ambiguous at the deadline."""
    server.script.append(Step("PUT", hang=True))
    with pytest.raises(AmbiguousDeliveryError) as caught:
        await client.send("PUT", f"{server.base}/Patient/a", [], b"{}")
    assert caught.value.codes == ("timeout",)


async def test_lost_connection_is_ambiguous_and_not_sent_again(client, server):
    """A connection lost while the answer is awaited: the PUT is not repeated behind our back."""
    await client.send("GET", f"{server.base}/Patient/a", [])
    server.script.append(Step("PUT", drop=True))
    with pytest.raises(AmbiguousDeliveryError):
        await client.send("PUT", f"{server.base}/Patient/a", [], b"{}")
    assert server.requests == ["GET Patient/a", "PUT Patient/a"]


async def test_redirect_is_not_followed(client, server):
    """A redirect is an answer like any other."""
    server.script.append(Step("GET", 307, headers={"Location": f"{server.base}/Patient/other"}))
    answer = await client.send("GET", f"{server.base}/Patient/a", [])
    assert (answer.status, server.requests) == (307, ["GET Patient/a"])


@pytest.mark.parametrize(
    ("body", "headers"),
    [
        pytest.param(b"x" * 200_000, {}, id="long"),
        pytest.param(gzip.compress(b"x" * 5_000_000), {"Content-Encoding": "gzip"}, id="gzip bomb"),
    ],
)
async def test_answer_is_bounded(client, server, body, headers):
    """An answer over the bound is not taken in, before or after decompression."""
    server.script.append(Step("PUT", 200, body=body, headers=headers))
    with pytest.raises(AmbiguousDeliveryError) as caught:
        await client.send("PUT", f"{server.base}/Patient/a", [], b"{}")
    assert caught.value.codes == ("answer-too-large",)


async def test_endless_answer_ends_at_the_deadline(client):
    """A body that drips for ever is cut off by the deadline of the whole request."""

    async def drip(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        try:
            while True:
                writer.write(b"1\r\nx\r\n")
                await writer.drain()
                await asyncio.sleep(0.05)
        except ConnectionError:
            pass
        finally:
            writer.close()

    drips = await asyncio.start_server(drip, "127.0.0.1", 0)
    with pytest.raises(AmbiguousDeliveryError):
        await client.send("GET", f"http://127.0.0.1:{drips.sockets[0].getsockname()[1]}/x", [])
    drips.close()
    await asyncio.sleep(0.1)


async def test_answer_that_is_no_http_is_ambiguous(client):
    """Garbage instead of HTTP says nothing of what happened."""

    async def garbage(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"no http at all\r\n\r\n")
        writer.close()

    talks = await asyncio.start_server(garbage, "127.0.0.1", 0)
    with pytest.raises(AmbiguousDeliveryError):
        await client.send("PUT", f"http://127.0.0.1:{talks.sockets[0].getsockname()[1]}/x", [], b"{}")
    talks.close()


async def test_environment_gives_no_proxy(client, server, monkeypatch):
    """Proxies in the environment are not used."""
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    assert (await client.send("GET", f"{server.base}/Patient/a", [])).status == 404


async def test_header_with_a_line_break_is_not_sent(client, server):
    """A value that would make a second header is refused before anything is sent."""
    with pytest.raises(DeliveryError):
        await client.send("PUT", f"{server.base}/Patient/a", [("If-Match", "a\r\nX-Evil: 1")], b"{}")
    assert server.requests == []


async def test_certificate_is_verified_with_the_private_authority(tmp_path):
    """A certificate of a private authority is taken with its CA file, and pauses the destination without it."""
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    server = await FakeFhir().start(ssl=context)
    ca_file = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(str(ca_file))
    trusting, strange = Client(request_seconds=2, ca_file=str(ca_file)), Client(request_seconds=2)
    assert (await trusting.send("GET", f"{server.base}/Patient/a", [])).status == 404
    with pytest.raises(DestinationError) as caught:
        await strange.send("GET", f"{server.base}/Patient/a", [])
    assert caught.value.codes == ("tls-certificate",)
    for client in (trusting, strange):
        await client.close()
    await server.stop()


def test_ca_file_that_is_none_stops_the_start(tmp_path):
    """A CA file that cannot be used is said at the start, with its path."""
    with pytest.raises(StartError, match=r"missing\.pem"):
        Client(request_seconds=1, ca_file=str(tmp_path / "missing.pem"))


STRIKE = """
import asyncio, sys
from engine import fault
from engine.deliver.client import Client
fault.arm(sys.argv[2])
async def main():
    client = Client(request_seconds=5)
    await client.send("GET", sys.argv[1], [])
    await client.send("PUT", sys.argv[1], [("Content-Type", "application/json")], b'{"id":"a"}')
asyncio.run(main())
"""


@pytest.mark.parametrize(("point", "arrives"), [("F12", False), ("F13", True), ("F14", True)])
async def test_death_around_the_send(server, point, arrives):
    """F12 strikes before anything is sent, F13 and F14 after the server has the request."""
    server.add("a")
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        STRIKE,
        f"{server.base}/Patient/a",
        f"{point}:kill",
        env=os.environ,
        stderr=subprocess.PIPE,
    )
    await process.communicate()
    await asyncio.sleep(0.1)
    assert process.returncode == -signal.SIGKILL
    assert server.effects == (["update a"] if arrives else [])
