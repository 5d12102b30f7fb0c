"""A care manager's system in a thread of the tests: it takes webhooks over HTTPS, and answers as its script says."""

import contextlib
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

import orjson
import trustme

# What is done with a request: its status, or a name below.
Step = int | str
SILENT, LEAVE, ENDLESS, ELSEWHERE = "silent", "leave", "endless", "elsewhere"
PATIENCE_SECONDS: Final = 30


@dataclass(frozen=True, slots=True)
class Post:
    """One delivery: its path, its headers by lower-case names, its body as sent, and when it came (monotonic)."""

    path: str
    headers: dict[str, str]
    raw: bytes
    at: float

    @property
    def body(self) -> Any:
        """The resource."""
        return orjson.loads(self.raw)

    @property
    def event(self) -> str:
        """X-Service-EventId."""
        return self.headers["x-service-eventid"]


@dataclass
class Receiver:
    """`script` says what is done with each delivery, the last entry with all that follow."""

    port: int
    host: str
    script: list[Step]
    posts: list[Post] = field(default_factory=list)
    gate: threading.Condition = field(default_factory=threading.Condition)
    go: threading.Event = field(default_factory=threading.Event)
    pause: Callable[[Post], float] = lambda _post: 0.0

    @property
    def url(self) -> str:
        """Its endpoint."""
        return f"https://{self.host}:{self.port}/hook"

    def wait(self, count: int, seconds: float = PATIENCE_SECONDS) -> list[Post]:
        """Return the deliveries once there are so many; AssertionError where they do not come."""
        with self.gate:
            assert self.gate.wait_for(lambda: len(self.posts) >= count, seconds), [post.event for post in self.posts]
            return list(self.posts)

    def took(self, post: Post) -> Step:
        """Keep a delivery, and return what is done with it."""
        with self.gate:
            self.posts.append(post)
            step = self.script.pop(0) if len(self.script) > 1 else self.script[0]
            self.gate.notify_all()
        return step


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def __init__(self, host: str, context: ssl.SSLContext) -> None:
        super().__init__((host, 0), _Taker)
        self.context = context
        self.receiver = Receiver(self.server_address[1], host, [200])

    def finish_request(self, request: Any, client_address: Any) -> None:
        """Speak TLS in the thread of the connection."""
        with contextlib.suppress(OSError):
            request.settimeout(PATIENCE_SECONDS)
            wrapped = self.context.wrap_socket(request, server_side=True)
            super().finish_request(wrapped, client_address)  # type: ignore[arg-type] # a socket all the same
            wrapped.close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing."""


class _Taker(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_POST(self) -> None:
        """Take a delivery."""
        receiver = self.server.receiver
        body = b""
        length = int(self.headers.get("content-length", 0))
        with contextlib.suppress(OSError):
            body = self.rfile.read(length)
        if len(body) < length:
            # Whoever sends it was killed meanwhile.
            self.close_connection = True
            return
        headers = {name.lower(): value for name, value in self.headers.items()}
        post = Post(self.path, headers, body, time.monotonic())
        step = receiver.took(post)
        if wait := receiver.pause(post):
            receiver.go.wait(wait)
        if step == SILENT:
            receiver.go.wait(PATIENCE_SECONDS)
        if step in {SILENT, LEAVE}:
            self.close_connection = True
            return
        if step == ENDLESS:
            self.send_response(200)
            self.end_headers()
            with contextlib.suppress(OSError):
                while not receiver.go.is_set():
                    self.wfile.write(b"x" * 65_536)
            self.close_connection = True
            return
        self.send_response(302 if step == ELSEWHERE else int(step))
        if step == ELSEWHERE:
            self.send_header("location", f"https://{receiver.host}:{receiver.port}/other")
        if step != 204:
            self.send_header("content-length", "2")
        self.end_headers()
        if step != 204:
            self.wfile.write(b"ok")

    def log_message(self, *_: Any) -> None:
        """Log nothing."""


def server_context(certificate: trustme.LeafCert) -> ssl.SSLContext:
    """Return a context that shows a certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate.configure_cert(context)
    return context


@contextlib.contextmanager
def receiving(context: ssl.SSLContext, *script: Step, host: str = "127.0.0.1") -> Iterator[Receiver]:
    """Take webhooks until the block ends."""
    server = _Server(host, context)
    server.receiver.script = list(script) or [200]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server.receiver
    finally:
        server.receiver.go.set()
        server.shutdown()
        server.server_close()
        thread.join(PATIENCE_SECONDS)


def trusted(folder: Path, authority: trustme.CA) -> dict[str, Any]:
    """Return what lets a service trust an authority of the tests."""
    file = folder / "authority.pem"
    authority.cert_pem.write_to_path(str(file))
    return {"ca_bundle": str(file)}
