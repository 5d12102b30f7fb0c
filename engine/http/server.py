"""An HTTP/1.1 server over an ASGI application, on a socket that was bound before; signals are left to the process."""

import asyncio
import contextlib
import ssl
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, cast

import uvicorn

from engine.http.connection import BoundedProtocol, ConnectionLimits, Refuse


def http_server(
    app: Callable[..., Any],
    bounds: ConnectionLimits,
    refuse: Refuse,
    *,
    context: ssl.SSLContext | None,
    keep_alive_seconds: int,
    grace_seconds: int,
) -> uvicorn.Server:
    """Return the server of an ASGI application, without logs of requests; with a context it speaks TLS.

    A connection without a request is kept for `keep_alive_seconds`; what is being answered when the server stops has
    `grace_seconds`.
    """
    settings = uvicorn.Config(
        app,
        http=cast("type[asyncio.Protocol]", partial(BoundedProtocol, bounds=bounds, refuse=refuse)),
        ws="none",
        lifespan="off",
        access_log=False,
        log_config=None,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=keep_alive_seconds,
        timeout_graceful_shutdown=grace_seconds,
        ssl_context_factory=(lambda _config, _default: context) if context is not None else None,
    )
    return _Server(settings)


class _Server(uvicorn.Server):
    """A uvicorn server that leaves signals to the process around it."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture nothing."""
        yield
