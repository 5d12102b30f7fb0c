"""What Python and its libraries would write by themselves, told as a kind and a place, for their texts may hold all."""

import asyncio
import logging
import sys
import threading
from pathlib import Path
from typing import Any

from engine.telemetry import logger, place_of


class _Lines(logging.Handler):
    """Turns a library's record into one line of ours, without its text."""

    def emit(self, record: logging.LogRecord) -> None:
        """Tell where the record was made, and the error that it was made for."""
        error = record.exc_info[1] if record.exc_info else None
        _tell("library warned", error, f"{Path(record.pathname).stem}:{record.lineno}")


def hush() -> None:
    """Take over the logs of libraries, warnings, and errors that nobody caught in threads and finalisers."""
    logging.basicConfig(handlers=[_Lines()], level=logging.WARNING, force=True)
    logging.captureWarnings(capture=True)
    threading.excepthook = lambda given: _tell("thread failed", given.exc_value)
    sys.unraisablehook = lambda given: _tell("finaliser failed", given.exc_value)


def hush_loop(loop: asyncio.AbstractEventLoop) -> None:
    """Take over what an event loop would write of errors that nobody awaited."""
    loop.set_exception_handler(_of_loop)


def _of_loop(_loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    _tell("task failed", context.get("exception"))


def _tell(event: str, error: BaseException | None, place: str = "") -> None:
    told = {"error": type(error).__name__} if error is not None else {}
    where = (place_of(error) if error is not None else "") or place
    logger().error(event, file=where, **told)
