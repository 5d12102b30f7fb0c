"""The client against servers that misbehave, and the one seam at which foreign errors become ours."""

import asyncio
import contextlib
import gzip
import inspect
import os
import signal
import socket
import ssl
import subprocess
import sys

import httptools
import httpx
import pytest
import trustme
from hypothesis import given
from hypothesis import strategies as st

from engine.deliver.verdict import Failure
from engine.deliver.wire import client as client_module
from engine.deliver.wire import transport
from engine.deliver.wire.client import CONNECTING, FOREIGN, SENT, FhirClient, foreign
from engine.deliver.wire.failure import STATUS_FAILURE, class_of, failure_of
from engine.deliver.wire.proxy import ProxyError
from engine.deliver.wire.transport import NotConnectedError
from engine.errors import AmbiguousDeliveryError, DeliveryError, DestinationError, StartError, TransientDeliveryError
from tests.deliver.fake_fhir import FakeFhir, Step


@pytest.fixture
async def client():
    """A client that takes short answers."""
    made = FhirClient(request_seconds=30, max_answer_bytes=100_000)
    yield made
    await made.close()


@pytest.fixture
async def hasty():
    """A client that waits for a moment only."""
    made = FhirClient(request_seconds=0.5, max_answer_bytes=100_000)
    yield made
    await made.close()


WHOLE = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


@contextlib.asynccontextmanager
async def talking(answer, *, size=10_000, close=True):
    """A server that answers every request with the given bytes, in pieces; gives its address."""

    async def talk(reader, writer):
        try:
            while True:
                await reader.readuntil(b"{}")
                for start in range(0, len(answer), size):
                    writer.write(answer[start : start + size])
                    await writer.drain()
                    await asyncio.sleep(0 if size > 1 else 0.0001)
                if close:
                    break
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    listening = await asyncio.start_server(talk, "127.0.0.1", 0)
    yield f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/x"
    listening.close()
    await asyncio.sleep(0.02)


def _kinds_below(*roots):
    found = set(roots)
    for root in roots:
        found |= _kinds_below(*root.__subclasses__()) if root.__subclasses__() else set()
    return found


def _of(module):
    kinds = {kind for _, kind in inspect.getmembers(module, inspect.isclass) if issubclass(kind, Exception)}
    return {kind for kind in kinds if kind.__module__.startswith(module.__name__)}


SYSTEM = {kind for kind in _kinds_below(OSError) if kind.__module__ in {"builtins", "socket", "ssl"}}


@pytest.mark.parametrize("kind", sorted(SYSTEM, key=str), ids=lambda kind: kind.__name__)
def test_errors_of_the_system_have_a_class(kind):
    """While connecting, nothing was sent: transient, or TLS and so the destination. Afterwards: ambiguous."""
    error = kind.__new__(kind)
    unmade = NotConnectedError()
    unmade.__cause__ = error
    expected = Failure.DESTINATION if issubclass(kind, ssl.SSLError) else Failure.TRANSIENT
    assert class_of(foreign(unmade)) is expected
    assert class_of(foreign(error)) is Failure.AMBIGUOUS
    assert issubclass(kind, FOREIGN)


@pytest.mark.parametrize(
    "kind",
    sorted(_of(httptools) | {kind for kind in _of(transport) if not issubclass(kind, ProxyError)}, key=str),
    ids=lambda kind: kind.__name__,
)
def test_errors_of_parser_and_transport_have_a_class(kind):
    """An answer that cannot be read or is cut off says nothing of what happened; a refused handshake says enough."""
    if kind is NotConnectedError:
        return
    refused = kind is transport.CertificateRefusedError
    assert class_of(foreign(kind())) is (Failure.DESTINATION if refused else Failure.AMBIGUOUS)
    assert issubclass(kind, FOREIGN)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (httpx.InvalidURL("x"), Failure.PERMANENT),
        (UnicodeEncodeError("ascii", "x", 0, 1, "x"), Failure.PERMANENT),
        (KeyError(), Failure.DESTINATION),
    ],
    ids=lambda value: type(value).__name__,
)
def test_errors_of_the_request_have_a_class(error, expected):
    """A request that cannot be written is refused for good; what nobody knows pauses the destination."""
    assert class_of(foreign(error)) is expected


def test_tables_of_foreign_errors_name_each_class_before_its_ancestors():
    """First match wins, so that no row hides another."""
    for table in (CONNECTING, SENT):
        kinds = [row[0] for row in table]
        for index, kind in enumerate(kinds):
            assert not any(issubclass(kind, earlier) for earlier in kinds[:index]), kind


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


async def test_unanswered_request_is_ambiguous(hasty, server):
    """A server that takes the request and says nothing: ambiguous at the deadline."""
    server.script.append(Step("PUT", hang=True))
    with pytest.raises(AmbiguousDeliveryError) as caught:
        await hasty.send("PUT", f"{server.base}/Patient/a", [], b"{}")
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


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        pytest.param(WHOLE, b"{}", id="length"),
        pytest.param(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n1\r\n}\r\n0\r\n\r\n", b"{}", id="chunks"
        ),
        pytest.param(b"HTTP/1.1 200 OK\r\n\r\n{}", b"{}", id="until the end"),
        pytest.param(b"HTTP/1.0 200 OK\r\n\r\n{}", b"{}", id="HTTP 1.0"),
        pytest.param(b"HTTP/1.1 204 No Content\r\n\r\n", b"", id="no content"),
        pytest.param(b"HTTP/1.1 103 Early\r\n\r\n" + WHOLE, b"{}", id="early hints"),
    ],
)
@pytest.mark.parametrize("size", [1, 7, 10_000])
async def test_answers_of_every_form_are_read(client, answer, expected, size):
    """However a body is delimited and cut, and whatever comes before it, the answer is the same."""
    async with talking(answer, size=size) as url:
        assert (await client.send("PUT", url, [], b"{}")).body == expected


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}", id="cut off"),
        pytest.param(CHUNKED + b"1\r\n{\r\n", id="chunks cut off"),
        pytest.param(b"HTTP/1.1 200 OK\r\nX: " + b"x" * 70_000, id="endless header"),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n", id="a length beyond the bound"),
        pytest.param(b"HTTP/1.1 101 Switch\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n", id="upgrade"),
        pytest.param(b"", id="nothing"),
    ],
)
async def test_broken_answers_are_ambiguous(client, answer):
    """An answer that is not whole says nothing of what happened."""
    async with talking(answer) as url:
        with pytest.raises(AmbiguousDeliveryError):
            await client.send("PUT", url, [], b"{}")


async def test_connection_is_kept_and_dropped_when_more_comes(client):
    """A second answer to one request is not taken for the answer to the next."""
    async with talking(WHOLE * 2, close=False) as url:
        assert (await client.send("PUT", url, [], b"{}")).body == b"{}"
        await asyncio.sleep(0.05)
        assert (await client.send("PUT", url, [], b"{}")).body == b"{}"


async def test_kept_connections_are_used_again(client, server):
    """Requests one after the other share a connection; requests at once have one each."""
    for _ in range(3):
        await client.send("GET", f"{server.base}/metadata", [])
    assert len(server.peers) == 1
    await asyncio.gather(*(client.send("GET", f"{server.base}/metadata", []) for _ in range(3)))
    assert len(server.peers) == 3


async def test_endless_answer_ends_at_the_deadline(hasty):
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
        await hasty.send("GET", f"http://127.0.0.1:{drips.sockets[0].getsockname()[1]}/x", [])
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


async def test_header_of_other_characters_is_not_sent(client, server):
    """A name or a value that is not ASCII is refused before anything is sent."""
    for pair in (("If-Match", "\u00e9"), ("X-\u00e9", "a")):
        with pytest.raises(DeliveryError):
            await client.send("PUT", f"{server.base}/Patient/a", [pair], b"{}")
    assert server.requests == []


async def test_request_is_written_as_given(client, server):
    """Headers go out in their order and as they are written, with the host and the length; the body follows."""
    given = [("If-Match", 'W/"1"'), ("X-b", "1"), ("x-a", "2")]
    written = client_module._written("PUT", client_module._target("http://h:81/x?y=1"), given, b"{}")
    lines = [b"PUT /x?y=1 HTTP/1.1", b"Host: h:81", b'If-Match: W/"1"', b"X-b: 1", b"x-a: 2", b"Content-Length: 2"]
    assert written == b"\r\n".join((*lines, b"", b"{}"))


ORIGINS = (
    "http://h",
    "https://h:443",
    "https://h:8443",
    "http://[::1]:80",
    "http://me:it@127.0.0.1:9",
    "HTTP://H.Example",
)


@given(st.from_regex(client_module._PLAIN, fullmatch=True), st.sampled_from(ORIGINS))
def test_plain_address_leads_where_httpx_says(path, origin):
    """What is not given to httpx is what httpx would leave as it is; so is what it would write otherwise."""
    assert client_module._target(origin + path) == client_module._parsed(origin + path)


@pytest.mark.parametrize("path", ["/a/../b", "/a/./b", "/a b", "/a?q=\u00e9", "/a#b", "/a?q=%zz", "", "/"])
def test_other_address_is_read_by_httpx(path):
    """A path that httpx changes goes out as it has it."""
    assert client_module._target(f"http://h{path}").path.encode() == httpx.URL(f"http://h{path}").raw_path


def test_addresses_kept_are_bounded():
    """However many resources are written to, no more than so many of their addresses are kept."""
    for number in range(client_module.ADDRESSES + 100):
        client_module._target(f"http://h/Patient/{number}")
    assert client_module._target.cache_info().currsize <= client_module.ADDRESSES


async def test_certificate_is_verified_with_the_private_authority(tmp_path):
    """A certificate of a private authority is taken with its CA file, and pauses the destination without it."""
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    server = await FakeFhir().start(ssl=context)
    ca_file = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(str(ca_file))
    trusting, strange = FhirClient(request_seconds=30, ca_file=str(ca_file)), FhirClient(request_seconds=30)
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
        FhirClient(request_seconds=1, ca_file=str(tmp_path / "missing.pem"))


@pytest.mark.parametrize("size", [10, 300_000])
async def test_a_large_body_in_one_piece_with_its_head_is_no_large_head(size):
    """Heads are bounded by what is in them, however much of the body the system hands over at the same time."""
    body = b'"' + b"x" * size + b'"'
    head = b"HTTP/1.1 200 OK\r\nX-One: 1\r\nContent-Length: %d\r\n\r\n" % len(body)
    connection = transport._Connection(None, 10_000_000, lambda: None)
    connection.connection_made(RecordingTransport())
    answer = asyncio.ensure_future(connection.exchange(b"GET", None))
    await asyncio.sleep(0)
    connection.data_received(head + body)
    assert (await answer)[2] == body


@pytest.mark.parametrize("end", [b"", b"\r\nX-Two: 2"])
async def test_a_head_without_an_end_is_bounded(end):
    """Whether it is one line or many."""
    connection = transport._Connection(None, 10_000_000, lambda: None)
    connection.connection_made(RecordingTransport())
    answer = asyncio.ensure_future(connection.exchange(b"GET", None))
    await asyncio.sleep(0)
    connection.data_received(b"HTTP/1.1 200 OK\r\nX-One: ")
    for _ in range(70):
        connection.data_received(b"x" * 1000 + end)
        await asyncio.sleep(0)
        if answer.done():
            break
    with pytest.raises(transport.AnswerTooLargeError):
        await answer


class RecordingTransport:
    """The sending side of a connection that goes nowhere."""

    def write(self, content):
        """Take what is sent."""

    def abort(self):
        """End nothing."""


STRIKE = """
import asyncio, sys
from engine import fault
from engine.deliver.wire.client import FhirClient
fault.arm(sys.argv[2])
async def main():
    client = FhirClient(request_seconds=30)
    await client.send("GET", sys.argv[1], [])
    await client.send("PUT", sys.argv[1], [("Content-Type", "application/json")], b'{"id":"a"}')
asyncio.run(main())
"""


@pytest.mark.process
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
    if arrives:
        async with asyncio.timeout(60):
            while not server.effects:  # noqa: ASYNC110 - the request is on its way through the server
                await asyncio.sleep(0.01)
    else:
        await asyncio.sleep(0.1)
    assert process.returncode == -signal.SIGKILL
    assert server.effects == (["update a"] if arrives else [])
