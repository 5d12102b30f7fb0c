"""The index of words of a running engine: filled while it runs; the log says where it cannot be."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path

from engine import telemetry
from engine.errors import place_of
from engine.journal.read.texts import Texts

_log = telemetry.logger()


@contextlib.asynccontextmanager
async def indexed(folder: Path, charsets: Callable[[], Mapping[str, str]]) -> AsyncIterator[None]:
    """Keep the words of a folder's messages indexed, in a thread; searching works without, only slower.

    `charsets`: those of the channels now, in which messages are read whose MSH-18 is empty.
    """
    texts = Texts(folder, _failed, charsets)
    texts.start()
    try:
        yield
    finally:
        await asyncio.to_thread(texts.stop)


def _failed(error: BaseException) -> None:
    _log.error("words not indexed", error=type(error).__name__, point=place_of(error))
