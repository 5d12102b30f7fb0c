"""A client that many threads may use: no two requests under way share a pool of connections.

httpcore's pool lends a kept connection before it marks it as taken, and may close it meanwhile for another thread
(its issue 1110); the request then fails with "Bad file descriptor", though the service did nothing wrong.
"""

from collections.abc import Iterator

import httpx

from tests.interchange.process import TRUST


def shared_client() -> httpx.Client:
    """Return a client for requests of many threads at once; to be closed when none is under way."""
    return httpx.Client(timeout=60, transport=Lines())


class Lines(httpx.BaseTransport):
    """Transports, each with the connections it keeps, of which a request has one to itself until its answer is read."""

    def __init__(self) -> None:
        self._free: list[httpx.HTTPTransport] = []

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send it over the transport that was last given back, or over a new one."""
        try:
            line = self._free.pop()
        except IndexError:
            line = httpx.HTTPTransport(verify=TRUST, trust_env=False)
        try:
            answer = line.handle_request(request)
        except BaseException:
            line.close()
            raise
        answer.stream = _Lent(answer.stream, self._free, line)
        return answer

    def close(self) -> None:
        """Close every connection."""
        for line in self._free:
            line.close()


class _Lent(httpx.SyncByteStream):
    """The body of an answer; its transport is free again once it is closed."""

    def __init__(
        self, stream: httpx.SyncByteStream, free: list[httpx.HTTPTransport], line: httpx.HTTPTransport
    ) -> None:
        self._stream = stream
        self._free = free
        self._line = line

    def __iter__(self) -> Iterator[bytes]:
        yield from self._stream

    def close(self) -> None:
        self._stream.close()
        self._free.append(self._line)
