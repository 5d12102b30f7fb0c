"""Codes that no table has a row for: where messages hold them, and which they are.

`codes.unmapped` (since, until, channel; the last 7 days) returns `{since, until, codes: [{note, place, channel,
entries, last, back_to}]}`: places at which messages held a code that its table has no row for, most frequent first,
with the newest entry; `back_to` where only the newest 20,000 of one note were counted. What stood there,
`codes.values` (place, and since, until) tells to whoever may see patients: `{values: [{value, entries, last}],
looked_at}` of the newest 500 entries; those that are mapped are among them.
"""

from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from engine.errors import PathError, UsageError
from engine.hl7.leaf import NULL
from engine.hl7.path import Getter, getter, parse_path
from engine.journal.read.reading import Reader
from engine.ops.request import period_in, text_in
from engine.ops.views.segments import read
from engine.ops.views.view import time_of

WEEK: Final = timedelta(days=7)
UNMAPPED: Final = "unmapped-code"
MOST_BODIES: Final = 500


def unmapped(folder: Path, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the places of codes that no table has a row for."""
    since, until = period_in(given, WEEK)
    channel = text_in(given, "channel")
    with Reader(folder) as reader:
        found = [one for one in reader.noted(UNMAPPED, since, until) if not channel or one.channel == channel]
    codes = [
        {
            "note": one.note,
            "place": one.note.partition(" ")[2],
            "channel": one.channel,
            "entries": one.entries,
            "last": one.last,
            "back_to": time_of(one.back_to),
        }
        for one in sorted(found, key=lambda one: (-one.entries, one.note, one.channel))
    ]
    return {"since": time_of(since), "until": time_of(until), "codes": codes}


def values(folder: Path, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return what stood at a place of the newest messages whose code there has no mapping; UsageError for no place."""
    since, until = period_in(given, WEEK)
    place = text_in(given, "place")
    try:
        get = getter(parse_path(place))
    except PathError as error:
        raise UsageError(
            f"{place!r} is no place in a message: name one as codes.unmapped does, such as PID-10"
        ) from error
    with Reader(folder) as reader:
        bodies = reader.bodies_noted(f"{UNMAPPED} {place}", since, until, MOST_BODIES)
    found: dict[str, dict[str, Any]] = {}
    for seq, raw in bodies:
        for value in set(_standing(raw, get)):
            one = found.setdefault(value, {"value": value, "entries": 0, "last": seq})
            one["entries"] += 1
    ranked = sorted(found.values(), key=lambda one: (-one["entries"], one["value"]))
    return {"values": ranked, "looked_at": len(bodies)}


def _standing(raw: bytes, get: Getter) -> Iterator[str]:
    message = read(raw)
    if message is not None:
        yield from (leaf for leaf in get(message) if leaf is not None and leaf is not NULL)
