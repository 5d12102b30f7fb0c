"""The service as a process: bind, serve, reload on SIGHUP, and stop gracefully on SIGTERM or SIGINT."""

import asyncio
import contextlib
import errno
import signal
import socket
import ssl
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final, cast

import uvicorn
import uvloop

from engine.config.service import ServiceConfiguration
from engine.errors import StartError
from engine.interchange.http.app import App, create_app
from engine.interchange.http.protocol import BoundedProtocol
from engine.interchange.http.reload import Change, Reload, warn
from engine.interchange.http.tls import check_open_line, renew, server_context
from engine.interchange.store.connection import database_path
from engine.telemetry import hush, hush_loop, logger

KEEP_ALIVE_SECONDS: Final = 120
GRACE_SECONDS: Final = 10
_ADVICE: Final = {
    errno.EADDRINUSE: "stop the program that listens there (ss -ltnp tells which), or choose another --port",
    errno.EACCES: "a port below 1024 needs a privilege; choose another --port",
}


class _Server(uvicorn.Server):
    """A uvicorn server that leaves signals to the process around it."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture nothing."""
        yield


def serve(
    configuration: ServiceConfiguration,
    *,
    host: str,
    port: int,
    database: str,
    announce: Callable[[str], None],
    reread: Change,
) -> None:
    """Serve until SIGTERM or SIGINT; `announce` is called with the base address once requests are taken.

    Port 0 takes a free one; a `base_url` or `auth_url` that ends in `:0` then gets its number.
    On SIGHUP `reread` is called with the configuration, and what it returns is put in force (`Reload`).
    StartError: the address, the certificate or the database cannot be used.
    """
    check_open_line(configuration, host)
    tls = configuration.tls
    context = server_context(tls) if tls is not None else None
    listening = bind(host, port)
    bound = partial(at_port, port=listening.getsockname()[1])
    app = create_app(bound(configuration), database_path(database))
    certificate = partial(renew, context, tls) if context is not None and tls is not None else None
    reload = Reload(app.service, configuration, reread, bound, certificate)
    hush()

    def ready() -> None:
        address, number = listening.getsockname()[:2]
        logger().info("listening", address=address, port=number)
        announce(app.service.configuration.base_url)

    try:
        warn(configuration)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_serve(uvicorn_server(app, context), app, listening, ready, reload))
    finally:
        app.close()
        listening.close()
    logger().info("stopped")


def bind(host: str, port: int) -> socket.socket:
    """Return a listening socket; StartError where the address cannot be had."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
        listening.listen(1024)
    except OSError as error:
        listening.close()
        advice = _ADVICE.get(error.errno or 0, "name an address of this machine with --host")
        raise StartError(f"cannot listen on {host}:{port} ({error.strerror}): {advice}") from error
    return listening


def at_port(configuration: ServiceConfiguration, port: int) -> ServiceConfiguration:
    """Return the configuration with the real port where its addresses end in `:0`."""
    addresses = {
        name: f"{getattr(configuration, name).removesuffix(':0')}:{port}"
        for name in ("base_url", "auth_url")
        if getattr(configuration, name).endswith(":0")
    }
    return configuration.model_copy(update=addresses)


def uvicorn_server(app: App, context: ssl.SSLContext | None = None) -> uvicorn.Server:
    """Return the HTTP server of an app, without logs of requests; with a context it speaks TLS."""
    configuration = app.service.configuration
    protocol = partial(BoundedProtocol, max_connections=configuration.max_connections, refused=app.refused)
    settings = uvicorn.Config(
        app,
        http=cast("type[asyncio.Protocol]", protocol),
        ws="none",
        lifespan="off",
        access_log=False,
        log_config=None,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=GRACE_SECONDS,
        ssl_context_factory=(lambda _config, _default: context) if context is not None else None,
    )
    return _Server(settings)


async def _serve(
    server: uvicorn.Server,
    app: App,
    listening: socket.socket,
    announce: Callable[[], None],
    reload: Callable[[], None],
) -> None:
    loop = asyncio.get_running_loop()
    hush_loop(loop)

    def leave() -> None:
        server.should_exit = True

    def stop() -> None:
        """Say so at /readyz for `drain_s`, then take no more connections; a second signal does not wait."""
        if app.stopping:
            leave()
            return
        app.stopping = True
        logger().info("stopping")
        loop.call_later(app.service.configuration.drain_s, leave)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    loop.add_signal_handler(signal.SIGHUP, reload)
    loop.call_soon(announce)
    await server.serve([listening])
