"""Codes that no table has a row for: where messages hold them, and which they are."""

from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Final

from engine.errors import PathError, UsageError
from engine.hl7.leaf import NULL
from engine.hl7.path import Path as Hl7Path
from engine.hl7.path import parse_path
from engine.journal.read.reading import Reader
from engine.ops.views.answer import Answer, Count, Time, moment_text
from engine.ops.views.segments import read

UNMAPPED: Final = "unmapped-code"
MOST_BODIES: Final = 500


class UnmappedPlace(Answer, facts=True):
    """Where messages held an unmapped code; `back_to` where only the newest 20,000 of a note were counted.

    `destinations`: those whose mapping had no row for the newest one's.
    """

    note: str
    place: str
    channel: str
    entries: Count
    last: Count
    back_to: Time | None
    destinations: tuple[str, ...] = ()


class UnmappedCodes(Answer, facts=True):
    """The places of a period, most frequent first, each with its newest entry."""

    since: Time
    until: Time
    codes: tuple[UnmappedPlace, ...]


class CodeValue(Answer):
    """A value found at a place, and the newest entry that has it."""

    value: str
    entries: Count
    last: Count


class CodeValues(Answer):
    """The values at a place in the newest 500 entries, mapped ones too."""

    values: tuple[CodeValue, ...]
    looked_at: Count


def unmapped(folder: Path, since: datetime, until: datetime, channel: str = "") -> UnmappedCodes:
    """Return the places of codes that no table has a row for, of one channel where it is named."""
    with Reader(folder) as reader:
        found = [one for one in reader.noted(UNMAPPED, since, until) if not channel or one.channel == channel]
    found.sort(key=lambda one: (-one.entries, one.note, one.channel))
    codes = tuple(UnmappedPlace.of(one, place=one.note.partition(" ")[2]) for one in found)
    return UnmappedCodes(since=moment_text(since), until=moment_text(until), codes=codes)


def values(
    folder: Path, place: str, since: datetime, until: datetime, charsets: Mapping[str, str] | None = None
) -> CodeValues:
    """Return what stood at a place of the newest messages whose code there has no mapping; UsageError for no place.

    `charsets`: those of channels, by name, as far as they are known.
    """
    try:
        path = parse_path(place)
    except PathError as error:
        raise UsageError(
            f"{place!r} is not a place in a message: name one as codes.unmapped does, such as PID-10"
        ) from error
    with Reader(folder) as reader:
        bodies = reader.bodies_noted(f"{UNMAPPED} {place}", since, until, MOST_BODIES)
        channels = reader.channels([seq for seq, _ in bodies]) if charsets else {}
    entries, newest = Counter[str](), dict[str, int]()
    for seq, raw in bodies:
        for value in set(_standing(raw, path, (charsets or {}).get(channels.get(seq, ""), ""))):
            entries[value] += 1
            newest.setdefault(value, seq)
    ranked = sorted(entries.items(), key=lambda one: (-one[1], one[0]))
    found = tuple(CodeValue(value=value, entries=count, last=newest[value]) for value, count in ranked)
    return CodeValues(values=found, looked_at=len(bodies))


def _standing(raw: bytes, path: Hl7Path, charset: str) -> Iterator[str]:
    message = read(raw, charset)
    if message is not None:
        yield from (leaf for leaf in path.leaves(message) if leaf is not None and leaf is not NULL)
