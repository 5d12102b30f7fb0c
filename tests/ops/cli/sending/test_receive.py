"""`adt-engine receive` as a process: what it prints, keeps and counts, and how it ends."""

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from engine.errors import StartError, UsageError
from engine.ops.cli.sending.receive import receive
from engine.ops.sender.feed import read_messages
from engine.ops.sender.line import BlockAnswer, send_messages
from tests.interchange.nursery import ran
from tests.ops.cli.sending.test_send import message
from tests.relay.receivers import Certificates

ROOT: Final = Path(__file__).parents[4]
PAGE: Final = ROOT / "engine/ops/docs/receive.md"
SECONDS: Final = 60


@dataclass
class Receiving:
    """A running command: its port, and once it has ended all that it printed after the first line."""

    port: int
    lines: list[str]

    @property
    def objects(self) -> list[dict[str, Any]]:
        """What was printed, read as JSON."""
        return [json.loads(line) for line in self.lines]


@contextlib.contextmanager
def started(*options: str) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """Run the command on a free port until the block ends; yield it with its port."""
    command = [sys.executable, "-m", "engine", "receive", "--port", "0", *options]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        try:
            first = run.stdout.readline()
            assert first, run.communicate()
            yield run, int(re.findall(r"\d+", first)[-1])
        finally:
            run.kill()


@contextlib.contextmanager
def receiving(*options: str, stop: int = signal.SIGTERM) -> Iterator[Receiving]:
    """Run the command until the block ends, then stop it by a signal; it must end with 0."""
    with started(*options) as (run, port):
        running = Receiving(port, [])
        yield running
        run.send_signal(stop)
        out, errors = run.communicate(timeout=SECONDS)
        assert (run.returncode, errors) == (0, "")
        running.lines.extend(out.splitlines())


async def sent(port: int, *messages: bytes, **options: Any) -> list[BlockAnswer]:
    """Send messages to a port of this machine."""
    return await send_messages("127.0.0.1", port, messages, **options)


@pytest.mark.parametrize("stop", [signal.SIGTERM, signal.SIGINT])
async def test_a_line_for_each_message_and_a_summary(stop: int) -> None:
    """Header fields alone are printed, the summary at the end, exit 0 for either signal."""
    with receiving("--fail", "3=AE", stop=stop) as running:
        answers = await sent(running.port, message("C1"), message("C1"), message("C2"))
        with socket.create_connection(("127.0.0.1", running.port)) as broken:
            broken.sendall(b"\x0bMSH|")
            broken.shutdown(socket.SHUT_WR)
            assert broken.recv(1) == b""
    assert [answer.code for answer in answers] == ["AA", "AA", "AE"]
    size = f"{len(message())} bytes"
    assert [line.split("  ")[1:] for line in running.lines[:4]] == [
        ["#1", "ADT^A08", "C1", size, "new", "AA"],
        ["#1", "ADT^A08", "C1", size, "repeat", "AA"],
        ["#1", "ADT^A08", "C2", size, "new", "AE"],
        ["#2", "block-cut-off", "4 bytes"],
    ]
    assert running.lines[4:] == [
        "3 messages: 2 new, 1 repeats, 0 repeats with other bytes; 2 connections",
        "answers: 2 AA, 1 AE",
        "events: 1 block-cut-off",
    ]
    assert "100001" not in "".join(running.lines)  # PID-3


async def test_whole_messages_where_asked_for() -> None:
    """With --full each segment is a line of its own, and nothing of it steers the terminal."""
    with receiving("--full") as running:
        await sent(running.port, message("C1") + b"NTE|1||\x1b[31m\xff\r")
    assert running.lines[1:4] == [
        "    MSH|^~\\&|REG|RVB|ENG|RVB|20260301||ADT^A08|C1|P|2.5.1",
        "    PID|1||100001^^^RVB^MR",
        "    NTE|1||�[31m\\xff",
    ]


async def test_lines_of_json() -> None:
    """A program reads each line by itself: messages, events, the summary."""
    with receiving("--json", "--drop-answers", "2") as running:
        await sent(running.port, message("C1"), message("C2"))
        with socket.create_connection(("127.0.0.1", running.port)) as stranger:
            stranger.sendall(b"GET / HTTP/1.1\r\n")
            stranger.shutdown(socket.SHUT_WR)
            assert stranger.recv(1) == b""
    first, second, *events, last = running.objects
    told = first["message"]
    assert (told["number"], told["type"], told["control_id"], told["bytes"]) == (1, "ADT^A08", "C1", len(message("C1")))
    assert (told["repeat"], told["answers"], told["fault"]) == ("new", ["AA"], None)
    assert "segments" not in first["message"]
    assert second["message"]["fault"] == "dropped answer"
    assert [one["event"]["kind"] for one in events] == ["unframed-http", "stray-bytes"]
    assert last["summary"] == {
        "messages": 2,
        "new": 2,
        "repeats": 0,
        "repeats_with_other_bytes": 0,
        "connections": 2,
        "answers": {"AA": 1},
        "faults": {"dropped answer": 1},
        "events": {"stray-bytes": 1, "unframed-http": 1},
    }


@pytest.mark.parametrize("name", ["kept", "kept.hl7"])
async def test_the_exact_bytes_are_kept_in_order(tmp_path: Path, name: str) -> None:
    """A file each, or all in one; `send` reads them again as they came, and nobody else may read them."""
    messages = [message("C2") + b"NTE|1||\xff\n\r", message("C1"), message("C2")]
    with receiving("--save", str(tmp_path / name)) as running:
        await sent(running.port, *messages)
    assert list(read_messages([tmp_path / name])) == messages
    assert (tmp_path / name).stat().st_mode & 0o077 == 0


async def test_what_cannot_be_kept_ends_it(tmp_path: Path) -> None:
    """A message that cannot be written is not answered, and the command ends with the reason."""
    folder = tmp_path / "kept"
    with started("--save", str(folder)) as (run, port):
        folder.rmdir()
        (answer,) = await sent(port, message())
        _, errors = run.communicate(timeout=SECONDS)
    assert not answer.positive
    assert run.returncode == 2
    assert f"{folder} cannot be written (No such file or directory)" in errors


async def test_mutual_tls(tmp_path: Path) -> None:
    """A sender with a certificate of the authority is answered."""
    own = Certificates(tmp_path)
    pem = own.receiver.read_bytes()
    key, mark, chain = pem.partition(b"-----BEGIN CERTIFICATE-----")
    (tmp_path / "key.pem").write_bytes(key)
    (tmp_path / "chain.pem").write_bytes(mark + chain)
    files = ("--tls-certificate", str(tmp_path / "chain.pem"), "--tls-key", str(tmp_path / "key.pem"))
    with receiving(*files, "--tls-client-ca", str(own.authority)) as running:
        (answer,) = await sent(running.port, message(), tls=own.of_sender(mutual=True))
        (refused,) = await sent(running.port, message("C2"), tls=own.of_sender(mutual=False))
    assert (answer.code, refused.positive) == ("AA", False)
    assert re.fullmatch(r"events: \d tls-refused-peer-did-not-return-a-certificate", running.lines[-1])


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        pytest.param({"answer": "YES"}, UsageError, "--answer YES is no answer; write one of AA, ", id="answer"),
        pytest.param({"fail": ["0=AE"]}, UsageError, "--fail 0=AE is not N=CODE; write one such as 10=AE", id="nth"),
        pytest.param({"fail": ["3=NO"]}, UsageError, "--fail 3=NO is not N=CODE", id="code"),
        pytest.param({"tls_key": Path("k.pem")}, UsageError, "name both", id="half of TLS"),
        pytest.param(
            {"tls_key": Path("no-key.pem"), "tls_certificate": Path("no-pem.pem")},
            StartError,
            "--tls-certificate: no-pem.pem cannot be read",
            id="no file",
        ),
        pytest.param({"save": ROOT / "samples"}, UsageError, "samples is not empty: name a new folder", id="save"),
    ],
)
def test_wrong_use_is_named(options: dict[str, Any], error: type[Exception], said: str) -> None:
    """What the command cannot use is told with the next step before it listens."""
    with pytest.raises(error, match=re.escape(said)):
        receive(**options)


def test_a_taken_port_is_named() -> None:
    """Exit 1, and another port or address is the next step."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = ran("receive", "--port", str(port))
    assert done.returncode == 1
    assert f"cannot listen at 127.0.0.1:{port}" in done.stderr
    assert "name another --port or --host" in done.stderr


def test_the_page_shows_what_happens(tmp_path: Path) -> None:
    """The first block of the page of `receive`, run as it stands but for the port, prints what is shown below it."""
    script, shown = re.findall(r"^```sh\n(.*?)^```\n```text\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)[0]
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", script.replace("2600", port)],
        cwd=tmp_path,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.stdout == shown, done.stderr
    assert len(read_messages([tmp_path / "received"])) == 200
