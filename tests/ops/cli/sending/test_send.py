import asyncio
import itertools
import json
import socket
import socketserver
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
import trustme
import typer
from hypothesis import given
from hypothesis import strategies as st

from engine.config.listener_settings import Tls
from engine.errors import UnreachableError, UsageError
from engine.mllp.acknowledgement import Ack, read_acks
from engine.ops.cli.sending.send import send
from engine.ops.sender.feed import deal, read_messages, split_messages
from engine.ops.sender.line import send_messages
from tests.ops.command import invoked
from tests.receive.conftest import OpenDoor, open_door

__all__ = ["open_door"]

Reply = Callable[[bytes], list[bytes] | None]


def message(control_id: str = "C1", *, pid: str = "100001^^^RVB^MR", tail: str = "", mrg: str = "") -> bytes:
    """Return a small A08 with a control id."""
    text = f"MSH|^~\\&|REG|RVB|ENG|RVB|20260301||ADT^A08|{control_id}|P|2.5.1{tail}\rPID|1||{pid}\r"
    return (text + (f"MRG|{mrg}\r" if mrg else "")).encode()


def ack(block: bytes, code: str = "AA", errors: str = "") -> bytes:
    """Return an acknowledgement of a block."""
    control_id = block.split(b"\r")[0].split(b"|")[9].decode()
    return f"MSH|^~\\&|ENG|RVB|REG|RVB|20260301||ACK|9|P|2.5.1\rMSA|{code}|{control_id}\r{errors}".encode()


class Peer:
    """A scripted engine: each block gets the replies that `reply` returns; None closes the line."""

    def __init__(self, reply: Reply) -> None:
        self.reply, self.blocks, self.by_line, self.lines = reply, [], {}, itertools.count()
        self.port = 0

    @contextmanager
    def listening(self, context: ssl.SSLContext | None = None) -> Iterator["Peer"]:
        """Listen on a free port until the block ends."""
        peer = self

        class Line(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                if context is None:
                    return peer.serve(self.request)
                with context.wrap_socket(self.request, server_side=True) as stream:
                    return peer.serve(stream)

        class Server(socketserver.ThreadingTCPServer):
            allow_reuse_address = True
            daemon_threads = False
            block_on_close = True

            def handle_error(self, request: object, client_address: object) -> None:
                """A client that goes away is part of the tests."""

        with Server(("127.0.0.1", 0), Line) as server:
            self.port = server.server_address[1]
            thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
            thread.start()
            yield self
            server.shutdown()
            thread.join()

    def serve(self, stream: socket.socket) -> None:
        """Answer one connection until it ends."""
        buffer, mine = b"", self.by_line.setdefault(next(self.lines), [])
        while received := stream.recv(65536):
            buffer += received
            while b"\x1c\r" in buffer:
                block, buffer = buffer.split(b"\x1c\r", 1)
                self.blocks.append(block[1:])
                mine.append(block[1:])
                replies = self.reply(block[1:])
                if replies is None:
                    stream.close()
                    return
                for reply in replies:
                    stream.sendall(b"\x0b" + reply + b"\x1c\r")


@contextmanager
def engine(reply: Reply = lambda block: [ack(block)]) -> Iterator[Peer]:
    """Listen with a scripted engine that answers AA to all unless told otherwise."""
    with Peer(reply).listening() as peer:
        yield peer


async def test_bytes_go_out_exactly() -> None:
    """Every byte of a message reaches the engine as it stands in the file."""
    raw = message() + b"NTE|1||\xff\xfe \x1b$B\r\nZZZ|  trailing  \n"
    with engine() as peer:
        (answer,) = await send_messages("127.0.0.1", peer.port, [raw])
    assert peer.blocks == [raw]
    assert (answer.control_id, answer.event, answer.code, answer.positive) == ("C1", "ADT^A08", "AA", True)


async def test_answers_come_in_the_order_of_the_messages() -> None:
    """One connection sends the next message only after the answer to the one before."""
    messages = [message(f"C{number}") for number in range(20)]
    heard: list[int] = []
    with engine() as peer:
        answers = await send_messages(
            "127.0.0.1", peer.port, messages, on_answer=lambda answer: heard.append(answer.position)
        )
    assert peer.blocks == messages
    assert [answer.control_id for answer in answers] == [f"C{number}" for number in range(20)]
    assert heard == list(range(20))


async def test_a_refusal_carries_its_code_and_text() -> None:
    """ERR of 2.5 and later, ERR of before and MSA-3 all show code and text."""
    new = "ERR||PID^1^3|204^Unknown key identifier^HL70357|E||||No identifier names a patient\r"
    old = "ERR|PID^1^3^101&Required field missing&HL70357\r"
    with engine(lambda block: [ack(block, "AE", new if b"|C1|" in block else old)]) as peer:
        first, second = await send_messages("127.0.0.1", peer.port, [message("C1"), message("C2")])
    assert first.errors == (("204", "No identifier names a patient"),)
    assert second.errors == (("101", "Required field missing"),)
    assert not first.positive
    assert read_acks(b"MSH|^~\\&|\rMSA|AR|7|no such event\r") == (Ack("AR", "7", (("", "no such event"),)),)


async def test_only_the_answer_to_the_outstanding_message_counts() -> None:
    """A late answer to another control id is passed over."""
    stray = ack(message("OLD"), "AE")
    with engine(lambda block: [stray, ack(block)]) as peer:
        (answer,) = await send_messages("127.0.0.1", peer.port, [message()])
    assert [found.code for found in answer.acks] == ["AA"]


@pytest.mark.parametrize(
    ("tail", "codes"),
    [
        pytest.param("|||AL|NE", ["CA"], id="accept-only"),
        pytest.param("|||AL|AL", ["CA", "AA"], id="both"),
        pytest.param("|||NE|AL", ["AA"], id="application-only"),
        pytest.param("|||NE|NE", [], id="none"),
        pytest.param("|||AL|SU", ["CA", "AA"], id="application-on-success"),
        pytest.param("|||AL|ER", ["CA"], id="application-on-error"),
    ],
)
async def test_enhanced_mode_waits_for_what_was_asked(tail: str, codes: list[str]) -> None:
    """MSH-15 and MSH-16 say how many answers there are; all of them are collected."""
    with engine(lambda block: [ack(block, code) for code in codes]) as peer:
        first, second = await send_messages(
            "127.0.0.1", peer.port, [message("C1", tail=tail), message("C2", tail=tail)]
        )
    assert [found.code for found in first.acks] == codes
    assert [found.control_id for found in second.acks] == ["C2"] * len(codes)
    assert first.positive
    assert second.positive


async def test_a_batch_is_one_block_with_an_answer_for_each_message() -> None:
    """A file with an envelope goes out whole; its reply holds one acknowledgement a message."""
    batch = b"FHS|^~\\&\rBHS|^~\\&|||||||||B1\r" + message("C1") + message("C2") + b"BTS|2\rFTS|1\r"
    reply = b"BHS|^~\\&\r" + ack(message("C1")) + ack(message("C2"), "AE", "ERR|||205^x\r") + b"BTS|2\r"
    with engine(lambda _: [reply]) as peer:
        (answer,) = await send_messages("127.0.0.1", peer.port, split_messages(batch))
    assert peer.blocks == [batch]
    assert [(found.code, found.control_id) for found in answer.acks] == [("AA", "C1"), ("AE", "C2")]
    assert (answer.code, answer.positive, answer.errors) == ("AE", False, (("205", "x"),))


async def test_a_closed_line_is_opened_again_for_the_next_message() -> None:
    """A line that closes without an answer fails its message only."""
    with engine(lambda block: None if b"|C1|" in block else [ack(block)]) as peer:
        first, second = await send_messages("127.0.0.1", peer.port, [message("C1"), message("C2")])
    assert first.failure.startswith("the connection was closed without an answer")
    assert not first.positive
    assert second.positive


async def test_a_line_closed_after_a_refusal_does_not_cost_the_next_message() -> None:
    """An engine that closes behind its refusal is connected to anew."""
    closing = threading.Event()

    def reply(block: bytes) -> list[bytes] | None:
        return [ack(block, "AE")] if b"|C1|" in block else [ack(block)]

    class Closing(Peer):
        def serve(self, stream: socket.socket) -> None:
            received = stream.recv(65536).strip(b"\x0b\x1c\r")
            stream.sendall(b"\x0b" + reply(received)[0] + b"\x1c\r")
            stream.close()
            closing.set()

    with Closing(reply).listening() as peer:
        first, second = await send_messages("127.0.0.1", peer.port, [message("C1"), message("C2")])
    assert (first.code, second.code) == ("AE", "AA")
    assert closing.is_set()


async def test_silence_ends_at_the_timeout() -> None:
    """An engine that says nothing is waited for as long as told, and no longer."""
    with engine(lambda _: []) as peer:
        (answer,) = await send_messages("127.0.0.1", peer.port, [message()], timeout_seconds=0.1)
    assert answer.failure == "no answer within 0.1 seconds"


async def test_what_is_no_block_is_no_answer() -> None:
    """Bytes without a start block are told apart from an acknowledgement."""

    class Babbling(Peer):
        def serve(self, stream: socket.socket) -> None:
            stream.recv(65536)
            stream.sendall(b"HTTP/1.1 400 Bad Request\x1c\r")
            stream.close()

    with Babbling(lambda _: []).listening() as peer:
        (answer,) = await send_messages("127.0.0.1", peer.port, [message()])
    assert answer.failure == "the answer is no MLLP block"


async def test_the_rate_holds_over_all_connections() -> None:
    """Twenty messages at a hundred a second take about a fifth of a second, however many lines there are."""
    messages = [message(f"C{number}", pid=str(number)) for number in range(20)]
    with engine() as peer:
        started = time.perf_counter()
        await send_messages("127.0.0.1", peer.port, messages, connections=4, rate=100)
    assert time.perf_counter() - started >= 0.18


async def test_with_several_connections_each_patient_keeps_one() -> None:
    """Messages of one patient never overtake each other, also when a merge joins two numbers."""
    messages = [message(f"{number}-{turn}", pid=f"P{number}^^^RVB") for turn in range(5) for number in range(12)]
    messages.append(message("M", pid="P1^^^RVB", mrg="P2^^^RVB"))
    with engine() as peer:
        answers = await send_messages("127.0.0.1", peer.port, messages, connections=4)
    assert all(answer.positive for answer in answers)
    assert len(peer.by_line) > 1
    joined = [line for line in peer.by_line.values() if any(b"|M|" in block for block in line)]
    assert sum(b"PID|1||P2^" in block or b"PID|1||P1^" in block for block in joined[0]) == 11
    for line in peer.by_line.values():
        positions = [messages.index(block) for block in line]
        assert positions == sorted(positions)


@given(st.lists(st.lists(st.integers(0, 30), min_size=1, max_size=3), max_size=40), st.integers(1, 9))
def test_dealing_loses_nothing_and_parts_nobody(groups: list[list[int]], connections: int) -> None:
    """Each message is dealt once, in order, and messages that share a number share a connection."""
    messages = [message(str(index), pid="~".join(map(str, group))) for index, group in enumerate(groups)]
    hands = deal(messages, connections)
    assert sorted(position for hand in hands for position in hand) == list(range(len(messages)))
    assert all(list(hand) == sorted(hand) for hand in hands)
    homes: dict[int, set[int]] = {}
    for home, hand in enumerate(hands):
        for position in hand:
            for number in groups[position]:
                homes.setdefault(number, set()).add(home)
    assert all(len(home) == 1 for home in homes.values())


def test_files_hold_one_message_or_several() -> None:
    """A file is split at each MSH, MLLP bytes around messages fall away, and a file without MSH is one block."""
    one, two = message("C1"), message("C2").replace(b"\r", b"\n")
    assert split_messages(one) == (one,)
    assert split_messages(two + b"\n" + one) == (two + b"\n", one)
    assert split_messages(b"\x0b" + one + b"\x1c\r\x0b" + two + b"\x1c\r") == (one, two)
    assert split_messages(b"PID|1||100001\r") == (b"PID|1||100001\r",)
    assert split_messages(b"\r\n") == ()


def test_a_folder_is_sent_in_order_of_name(tmp_path: Path) -> None:
    """The *.hl7 files of a folder come in order of name; an empty or absent path is wrong use."""
    for name in ("b.hl7", "a.hl7", "notes.txt"):
        (tmp_path / name).write_bytes(message(name))
    assert read_messages([tmp_path]) == (message("a.hl7"), message("b.hl7"))
    with pytest.raises(UsageError, match="cannot be read"):
        read_messages([tmp_path / "c.hl7"])
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match="has no"):
        read_messages([tmp_path / "empty"])


async def test_nobody_listening_is_said_with_the_next_step() -> None:
    """A refused connection is one line that names the address and what to do."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(UnreachableError, match=f"nothing is listening at 127.0.0.1:{port} .connection refused.; start"):
        await send_messages("127.0.0.1", port, [message()])


async def test_tls_is_verified() -> None:
    """A certificate of the given authority is taken; any other is refused with the reason."""
    authority = trustme.CA()
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(server)
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)
    with Peer(lambda block: [ack(block)]).listening(server) as peer:
        (answer,) = await send_messages("127.0.0.1", peer.port, [message()], tls=trusting)
        assert answer.positive
        with pytest.raises(UnreachableError, match="could not be verified"):
            await send_messages("127.0.0.1", peer.port, [message()], tls=ssl.create_default_context())


async def test_a_port_that_speaks_tls_is_told_apart(open_door: OpenDoor, tmp_path: Path) -> None:
    """The engine's own door with TLS: --tls-ca is named, whatever the door answers to what is no TLS."""
    leaf = trustme.CA().issue_cert("127.0.0.1")
    (tmp_path / "server.pem").write_bytes(b"".join(pem.bytes() for pem in leaf.cert_chain_pems))
    leaf.private_key_pem.write_to_path(tmp_path / "server.key")
    tls = Tls(certificate=str(tmp_path / "server.pem"), key=str(tmp_path / "server.key"))
    heard = await open_door(tls=tls)
    (answer,) = await send_messages("127.0.0.1", heard.listening.port, [message()])
    assert "--tls-ca" in answer.failure
    assert not heard.blocks


async def test_a_tls_alert_names_what_is_missing() -> None:
    """A server that answers with an alert, as OpenSSL does."""

    class Alerting(Peer):
        def serve(self, stream: socket.socket) -> None:
            stream.recv(65536)
            stream.sendall(b"\x15\x03\x01\x00\x02\x02\x46")
            stream.close()

    with Alerting(lambda _: []).listening() as peer:
        (answer,) = await send_messages("127.0.0.1", peer.port, [message()])
    assert answer.failure == "the other end speaks TLS: name its authority with --tls-ca"


async def test_a_port_without_tls_is_told_apart(open_door: OpenDoor) -> None:
    """The other way round: --tls-ca is to be left out."""
    heard = await open_door()
    with pytest.raises(UnreachableError, match=r"leave out --tls-ca|closed without an answer"):
        await send_messages(
            "127.0.0.1", heard.listening.port, [message()], tls=ssl.create_default_context(), timeout_seconds=3
        )


@pytest.mark.parametrize("encrypted", [False, True])
async def test_a_full_door_is_named_as_what_it_may_be(open_door: OpenDoor, *, encrypted: bool, tmp_path: Path) -> None:
    """The limit of one address is reached: nobody can be answered, so the client says what that may mean."""
    authority, options = trustme.CA(), {}
    trusting = ssl.create_default_context() if encrypted else None
    if trusting:
        leaf = authority.issue_cert("127.0.0.1")
        (tmp_path / "server.pem").write_bytes(b"".join(pem.bytes() for pem in leaf.cert_chain_pems))
        leaf.private_key_pem.write_to_path(tmp_path / "server.key")
        authority.configure_trust(trusting)
        options = {"tls": Tls(certificate=str(tmp_path / "server.pem"), key=str(tmp_path / "server.key"))}
    heard = await open_door(limits={"connections_per_address": 1}, **options)
    _reader, writer = await asyncio.open_connection("127.0.0.1", heard.listening.port)
    try:
        (answer,) = await send_messages("127.0.0.1", heard.listening.port, [message()], tls=trusting)
        told = answer.failure
    except UnreachableError as error:
        told = str(error)
    writer.close()
    await writer.wait_closed()
    assert "connections_per_address" in told
    assert "nobody listens" not in told
    assert heard.events["refused-full"]


app = typer.Typer()
app.command()(send)


run = partial(invoked, app)


def test_the_command_shows_a_table_and_totals(tmp_path: Path) -> None:
    """Each message has a line with its acknowledgement, and the totals follow; exit 1 as one was refused."""
    (tmp_path / "a.hl7").write_bytes(message("C1") + message("C2"))
    error = "ERR|||204^Unknown key identifier|E||||[bold]No\x1b[31m patient\r"
    with engine(lambda block: [ack(block, "AE", error) if b"|C2|" in block else ack(block)]) as peer:
        code, text = run(str(tmp_path), "--to", f"127.0.0.1:{peer.port}")
    assert code == 1
    assert "C1" in text
    assert "204" in text
    assert "[bold]No" in text
    assert "\x1b" not in text
    assert "1 AA, 1 AE" in text


def test_the_command_writes_json(tmp_path: Path) -> None:
    """With --json a program reads the same, and which file each message stands in; exit 0 as all were taken."""
    (tmp_path / "a.hl7").write_bytes(message("C1"))
    (tmp_path / "b.hl7").write_bytes(message("C2") + b"\r\n" + message("C3"))
    with engine() as peer:
        code, text = run(str(tmp_path), "--to", f"127.0.0.1:{peer.port}", "--json")
    report = json.loads(text)
    assert code == 0
    assert report["totals"] == {"AA": 3}
    assert [(one["control_id"], Path(one["file"]).name) for one in report["messages"]] == [
        ("C1", "a.hl7"), ("C2", "b.hl7"), ("C3", "b.hl7"),
    ]  # fmt: skip
    assert report["messages"][0]["acks"] == [{"code": "AA", "control_id": "C1", "errors": []}]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        pytest.param(["--to", "nowhere"], "is not HOST:PORT", id="address"),
        pytest.param(["--tls-ca", "absent.pem"], "is not a usable PEM file", id="authority"),
    ],
)
def test_wrong_use_is_named(tmp_path: Path, arguments: list[str], text: str) -> None:
    """What the command cannot use is a UsageError, which ends the program with exit 2."""
    file = tmp_path / "a.hl7"
    file.write_bytes(message())
    with pytest.raises(UsageError, match=text):
        run(str(file), *arguments)


async def test_a_line_that_was_never_answered_is_closed() -> None:
    """Nothing is left open when the sender is cancelled."""
    came = threading.Event()

    def silent(_block: bytes) -> list[bytes]:
        came.set()
        return []

    with engine(silent) as peer:
        task = asyncio.create_task(send_messages("127.0.0.1", peer.port, [message()]))
        assert await asyncio.to_thread(came.wait, 60)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
