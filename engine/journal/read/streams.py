"""Streams: entry numbers out of an index, newest first; several are walked as one, each number once."""

from collections.abc import Iterable, Iterator
from heapq import merge
from typing import Any, Final, NamedTuple

from engine.database.connection import Connection

EVERYTHING: Final = 2**62


class Stream(NamedTuple):
    """A query for entry numbers, newest first; its last two values are the bounds: below one, from the other on."""

    sql: str
    values: tuple[Any, ...] = ()


def walk(connection: Connection, streams: Iterable[Stream], before: int, least: int) -> Iterator[int]:
    """Yield the numbers of all streams, newest first, each once; rows are read only as far as they are asked for."""
    last = EVERYTHING
    for seq in merge(*(_numbers(connection, stream, before, least) for stream in streams), reverse=True):
        if seq != last:
            last = seq
            yield seq


def count(connection: Connection, stream: Stream, before: int, least: int, most: int) -> int:
    """Return how many numbers a stream has, at most `most`."""
    sql = f"SELECT COUNT(*) FROM ({stream.sql} LIMIT ?) AS counted"  # noqa: S608 - a stream's query is a constant
    found: int = connection.execute(sql, (*stream.values, before, least, most)).fetchone()[0]
    return found


def _numbers(connection: Connection, stream: Stream, before: int, least: int) -> Iterator[int]:
    for (seq,) in connection.execute(stream.sql, (*stream.values, before, least)):
        yield seq
