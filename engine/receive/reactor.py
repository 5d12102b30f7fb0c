"""Twisted's reactor on the asyncio loop that is running, so that both live in one thread."""

import asyncio
import sys
from typing import Any
from weakref import WeakKeyDictionary

from twisted.internet.asyncioreactor import AsyncioSelectorReactor
from twisted.internet.main import installReactor
from twisted.logger import STDLibLogObserver, globalLogBeginner

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
        reactor = _reactors[loop] = AsyncioSelectorReactor(loop)
        if "twisted.internet.reactor" not in sys.modules:
            installReactor(reactor)  # type: ignore[no-untyped-call]
    return reactor
