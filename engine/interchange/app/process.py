"""The service as a process: bind, serve, reload its configuration on SIGHUP, stop gracefully on SIGTERM or SIGINT."""

import asyncio
import errno
import signal
import socket
import ssl
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Final

import uvicorn
import uvloop

from engine import fault, interpreter
from engine.config.network import is_loopback
from engine.config.service import Environment, ServiceConfiguration, Tls
from engine.errors import ConfigurationError, StartError
from engine.http import binding, server
from engine.http.connection import ConnectionLimits
from engine.http.tls import KeyPair, renew, server_context
from engine.interchange.app.application import WORK, ServiceApp, create_app, work
from engine.interchange.core.service import Service
from engine.interchange.jobs.job import Work
from engine.interchange.store.place import place_of
from engine.interchange.tokens.scope import right
from engine.interchange.web.http.wire import refusal
from engine.telemetry import hush, hush_loop, logger

Change = Callable[[ServiceConfiguration], ServiceConfiguration]


def warn(configuration: ServiceConfiguration) -> None:
    """Log warnings on a configuration: keys without effect, secrets that cannot be read, unknown scopes."""
    if configuration.unheeded:
        logger().warning("not in force", waits_for=list(configuration.unheeded))
    for name, client in configuration.clients.items():
        if client.trouble:
            logger().warning("client cannot prove itself", client=name, error=client.trouble)
        unknown = [scope for scope in client.scopes if right(scope) is None]
        if unknown:
            logger().warning("no such scope", client=name, codes=unknown)


class ConfigurationReloader:
    """Reloads the configuration when called, as a whole or not at all.

    `written` is the configuration from the file; `reread` returns its successor or raises ConfigurationError; `bound`
    puts the bound port into addresses with port 0; `certificate` reloads the TLS files, or raises StartError.
    """

    def __init__(
        self,
        service: Service,
        written: ServiceConfiguration,
        reread: Change,
        bound: Change,
        certificate: Callable[[], None] | None = None,
    ) -> None:
        self._service = service
        self._written = written
        self._reread = reread
        self._bound = bound
        self._certificate = certificate

    def __call__(self) -> None:
        """Apply the new configuration, or log each reason to keep the old one."""
        try:
            new = self._reread(self._written)
            if self._certificate is not None:
                self._certificate()
        except StartError as error:
            logger().error("reload refused", error=str(error))
            return
        except ConfigurationError as error:
            for problem in error.problems:
                logger().error(
                    "reload refused", file=f"{problem.file}:{problem.line}:{problem.column}", error=str(problem)
                )
            return
        self._service.store.number(new.tenants)
        self._service.configuration = self._bound(new)
        changed = [name for name in type(new).model_fields if getattr(new, name) != getattr(self._written, name)]
        self._written = new
        logger().info("reloaded", count=len(changed), codes=changed)
        warn(new)


ARRIVAL_SECONDS: Final = 30.0
KEEP_ALIVE_SECONDS: Final = 120
GRACE_SECONDS: Final = 10
_ADVICE: Final = {
    errno.EADDRINUSE: "stop the program that listens there (ss -ltnp tells which), or choose another --port",
    errno.EACCES: "a port below 1024 needs a privilege; choose another --port",
}


def serve(
    configuration: ServiceConfiguration,
    *,
    host: str,
    port: int,
    database: str,
    announce: Callable[[str], None],
    reread: Change,
    works: Mapping[str, Work] = WORK,
) -> None:
    """Serve until SIGTERM or SIGINT; `announce` is called with the base address once the service is ready.

    Port 0 takes a free one; a `base_url` or `auth_url` that ends in `:0`, and a return address of a client below such
    a `base_url`, then gets its number.
    On SIGHUP `reread` is called with the configuration, and what it returns is put in force
    (`ConfigurationReloader`). `works` are the kinds of jobs.
    StartError: the address, the certificate or the database cannot be used.
    """
    check_open_line(configuration, host)
    pair = pair_of(configuration.tls)
    context = server_context(pair) if pair is not None else None
    listening = bind(host, port)
    bound = partial(at_port, port=listening.getsockname()[1])
    app = create_app(bound(configuration), place_of(database), works=works)
    certificate = partial(renew, context, pair) if context is not None and pair is not None else None
    reload = ConfigurationReloader(app.service, configuration, reread, bound, certificate)
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


def check_open_line(configuration: ServiceConfiguration, host: str) -> None:
    """Refuse an address other than loopback for plain HTTP in production, and with a fault armed: StartError."""
    if fault.armed() and not is_loopback(host):
        raise StartError("with ENGINE_FAULT set the service listens on loopback only: unset it, or name another --host")
    safe = configuration.tls is not None or configuration.behind_proxy or is_loopback(host)
    if configuration.environment is Environment.PRODUCTION and not safe:
        raise StartError(
            f"production on {host} without TLS: set tls.certificate and tls.key,"
            " or behind_proxy: true where a proxy speaks TLS for the service"
        )


def pair_of(tls: Tls | None) -> KeyPair | None:
    """Return the TLS files with their configuration keys."""
    return None if tls is None else KeyPair(Path(tls.certificate), Path(tls.key), ("tls.certificate", "tls.key"))


def bind(host: str, port: int) -> socket.socket:
    """Return a listening socket; StartError if the address cannot be bound."""
    try:
        return binding.bind(host, port, backlog=1024)
    except OSError as error:
        advice = _ADVICE.get(error.errno or 0, "name an address of this machine with --host")
        raise StartError(f"cannot listen on {host}:{port} ({error.strerror}): {advice}") from error


def at_port(configuration: ServiceConfiguration, port: int) -> ServiceConfiguration:
    """Return the configuration with the bound port in addresses that end in `:0`, and in clients' return addresses."""
    open_address = f"{configuration.base_url}/"
    addresses: dict[str, object] = {
        name: f"{getattr(configuration, name).removesuffix(':0')}:{port}"
        for name in ("base_url", "auth_url")
        if getattr(configuration, name).endswith(":0")
    }
    if "base_url" in addresses:
        addresses["clients"] = {
            name: client.model_copy(
                update={
                    "redirect_uris": tuple(
                        uri.replace(open_address, f"{addresses['base_url']}/", 1) for uri in client.redirect_uris
                    )
                }
            )
            for name, client in configuration.clients.items()
        }
    return configuration.model_copy(update=addresses)


def uvicorn_server(app: ServiceApp, context: ssl.SSLContext | None = None) -> uvicorn.Server:
    """Return the HTTP server of an app, without access logs; with a context it serves TLS."""
    configuration = app.service.configuration
    return server.http_server(
        app,
        ConnectionLimits(configuration.max_connections, arrival_seconds=ARRIVAL_SECONDS),
        partial(refusal, app.refused),
        context=context,
        keep_alive_seconds=KEEP_ALIVE_SECONDS,
        grace_seconds=GRACE_SECONDS,
    )


async def _serve(
    serving: uvicorn.Server,
    app: ServiceApp,
    listening: socket.socket,
    announce: Callable[[], None],
    reload: Callable[[], None],
) -> None:
    loop = asyncio.get_running_loop()
    hush_loop(loop)

    def leave() -> None:
        serving.should_exit = True

    def stop() -> None:
        """Fail /readyz for `drain_s`, then accept no more connections; a second signal does not wait."""
        if app.stopping:
            leave()
            return
        app.stopping = True
        logger().info("stopping")
        loop.call_later(app.service.configuration.drain_s, leave)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    loop.add_signal_handler(signal.SIGHUP, reload)
    interpreter.settle()
    loop.call_soon(announce)
    await serve_with_jobs(serving, app, listening)


async def serve_with_jobs(serving: uvicorn.Server, app: ServiceApp, listening: socket.socket) -> None:
    """Serve and run the background work until the server exits, after its last answer."""
    background = asyncio.create_task(work(app))
    try:
        await serving.serve([listening])
    finally:
        background.cancel()
        await asyncio.wait([background])
