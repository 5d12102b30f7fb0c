"""Twisted's reactor on the asyncio loop that is running, so that both live in one thread.

uvloop gives up its watch of a socket at the first error, such as a reset by the peer: it runs the reader once, never
calls again, and lets nobody watch the socket anew. Twisted alone waits for a call that does not come, and its
`connectionLost` never runs (twisted#11904, uvloop#552). Here, and in `listener/connection.py: Socket.doRead`, it runs.
"""

import asyncio
import sys
from typing import Any
from weakref import WeakKeyDictionary

from twisted.internet.asyncioreactor import AsyncioSelectorReactor
from twisted.internet.main import CONNECTION_LOST, installReactor
from twisted.logger import STDLibLogObserver, globalLogBeginner


class Reactor(AsyncioSelectorReactor):
    """Twisted's reactor, which ends a connection whose socket the loop no longer watches."""

    def addReader(self, reader: Any) -> None:  # noqa: N802 - Twisted's name
        """Watch a socket for reading."""
        try:
            super().addReader(reader)  # type: ignore[no-untyped-call]
        except RuntimeError:
            self._lose(reader, reading=True)

    def addWriter(self, writer: Any) -> None:  # noqa: N802 - Twisted's name
        """Watch a socket for writing."""
        try:
            super().addWriter(writer)  # type: ignore[no-untyped-call]
        except RuntimeError:
            self._lose(writer, reading=False)

    def _lose(self, selectable: Any, *, reading: bool) -> None:
        """End a connection in the next turn, as nobody expects it to end while it asks to be watched."""
        self.callLater(0, self._disconnectSelectable, selectable, CONNECTION_LOST, reading)  # type: ignore[no-untyped-call]


_reactors: WeakKeyDictionary[asyncio.AbstractEventLoop, Any] = WeakKeyDictionary()

_logging: list[bool] = []


def install() -> None:
    """Install Twisted's reactor on the running loop; call it once, at the start of the process.

    What Twisted would write to standard error by itself goes to Python's logging.
    """
    running_reactor()
    if not _logging:
        observers: list[Any] = [STDLibLogObserver()]
        globalLogBeginner.beginLoggingTo(observers, redirectStandardIO=False, discardBuffer=True)
        _logging.append(True)


def running_reactor() -> Any:
    """Return the reactor of the running loop, made on first use; RuntimeError where no loop runs.

    The first one becomes Twisted's global reactor. Importing `twisted.internet.reactor` before that would install
    another one, which is why nothing here imports it.
    """
    loop = asyncio.get_running_loop()
    reactor = _reactors.get(loop)
    if reactor is None:
        reactor = _reactors[loop] = Reactor(loop)
        if "twisted.internet.reactor" not in sys.modules:
            installReactor(reactor)  # type: ignore[no-untyped-call]
    return reactor
