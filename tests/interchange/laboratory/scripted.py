"""A laboratory in a thread of the tests: it answers each order as its script says, and keeps what it received."""

import contextlib
import socket
import ssl
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from tests.interchange.laboratory.answers import CR, EB, SB, acknowledgement, segments

# Longer than any order of the tests, and than any wait in them.
WHOLE: Final = EB + CR
PATIENCE_SECONDS: Final = 20


@dataclass
class Scripted:
    """`script` says what is done with each connection, the last entry with all that follow; see `_serve`."""

    port: int
    script: list[str]
    tls: ssl.SSLContext | None = None
    messages: list[bytes] = field(default_factory=list)
    connections: int = 0
    received: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    reached: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    go: threading.Event = field(default_factory=threading.Event)

    def has(self, number: int) -> bool:
        """Say whether it has received so many messages."""
        return len(self.messages) >= number

    @property
    def control_ids(self) -> list[str]:
        """The control ids of what it received whole."""
        return [segments(message)[0][10] for message in self.messages]


@contextlib.contextmanager
def scripted(*script: str, tls: ssl.SSLContext | None = None) -> Iterator[Scripted]:
    """Run a laboratory until the block ends; nobody answers on its port afterwards."""
    listening = socket.create_server(("127.0.0.1", 0))
    found = Scripted(listening.getsockname()[1], list(script) or ["AA"], tls)
    thread = threading.Thread(target=_listen, args=(listening, found), daemon=True)
    thread.start()
    try:
        yield found
    finally:
        found.go.set()
        # To close it is not enough: a thread that waits in accept would take one more.
        with contextlib.suppress(OSError):
            listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        thread.join(PATIENCE_SECONDS)


def _listen(listening: socket.socket, laboratory: Scripted) -> None:
    while True:
        try:
            line, _ = listening.accept()
        except OSError:
            return
        with contextlib.suppress(OSError), line:
            line.settimeout(PATIENCE_SECONDS)
            laboratory.connections += 1
            laboratory.reached.release()
            script = laboratory.script
            step = script.pop(0) if len(script) > 1 else script[0]
            if laboratory.tls is None:
                _serve(line, laboratory, step)
                continue
            # Wrapped first: a handshake that fails would leave the socket to nobody.
            wrapped = laboratory.tls.wrap_socket(line, server_side=True, do_handshake_on_connect=False)
            with wrapped:
                wrapped.do_handshake()
                _serve(wrapped, laboratory, step)


def _serve(line: socket.socket, laboratory: Scripted, step: str) -> None:
    """Do with one connection as it is said.

    `AA` and the like (with a reason behind) answer; `CA AA` answers twice; `leave` closes at once; `half` reads some
    bytes and closes; `close` reads all and closes; `silent` reads all and waits; `wait` answers AA once told to go;
    `other` answers another message; `bare` has no MSA; `noise` is no block; `part` is half an answer; `late` comes too
    late.
    """
    if step == "leave":
        return
    message = _read(line, 20 if step == "half" else 1 << 24)
    if step == "half":
        line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
        return
    if not message:
        return
    laboratory.messages.append(message)
    laboratory.received.release()
    if step in {"silent", "wait", "late"}:
        laboratory.go.wait(PATIENCE_SECONDS)
    if step not in {"close", "silent"}:
        line.sendall(_answer(message, step))
    with contextlib.suppress(OSError):
        # What closes first while bytes are on their way resets the line, and the answer with it.
        line.settimeout(1 if step in {"CA AA", "CA", "AA"} else PATIENCE_SECONDS)
        if step not in {"close", "silent", "part", "noise"}:
            line.recv(1)


def _answer(message: bytes, step: str) -> bytes:
    if step == "noise":
        return b"HTTP/1.1 400 Bad Request\r\n\r\n" + WHOLE
    if step == "other":
        stranger = message.replace(segments(message)[0][10].encode(), b"SOMEBODYELSE")
        return SB + acknowledgement(stranger, "AA", "", 1) + WHOLE
    if step == "bare":
        return SB + b"MSH|^~\\&|LAB||CDIS||20260101||ACK|1|T|2.5.1\r" + WHOLE
    if step in {"wait", "late"}:
        step = "AA"
    codes = step.split() if step == "CA AA" else [step]
    blocks = [SB + acknowledgement(message, *_split(one), number) + WHOLE for number, one in enumerate(codes)]
    return blocks[0][:-9] if step == "part" else b"".join(blocks)


def _split(step: str) -> tuple[str, str]:
    code, _, reason = ("AA", "", "") if step == "part" else step.partition(" ")
    return code, reason


def _read(line: socket.socket, most: int) -> bytes:
    held = b""
    while not held.endswith(WHOLE) and len(held) < most:
        part = line.recv(min(65536, most - len(held)))
        if not part:
            break
        held += part
    # What was broken off is no message.
    return held.partition(SB)[2].removesuffix(WHOLE) if held.endswith(WHOLE) else b""
