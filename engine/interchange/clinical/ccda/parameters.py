"""The parameter of $export-ccda: the time zone of the document's times."""

from functools import lru_cache
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from engine.interchange.kernel.outcome import Category, refuse, unsupported
from engine.interchange.store.search.page import FORMAT, Pairs

ZONE: Final = "tz"
USUAL: Final = "UTC"


def read_zone(query: Pairs) -> str:
    """Return the name of the time zone that a query asks for, UTC by default; RefusedError (400) for anything else."""
    given = [value for name, value in query if name == ZONE]
    unknown = next((name for name, _ in query if name not in {ZONE, *FORMAT}), None)
    if unknown is not None:
        raise unsupported(unknown, f"; $export-ccda takes {ZONE} and _format")
    if len(given) > 1:
        raise refuse(Category.BAD_VALUE, f"{ZONE} is given more than once.", location=f"http.{ZONE}")
    name = given[0] if given else USUAL
    if find_zone(name) is None:
        text = f"{ZONE} is the name of a time zone, such as America/Los_Angeles."
        raise refuse(Category.BAD_VALUE, text, location=f"http.{ZONE}")
    return name


@lru_cache(maxsize=128)
def find_zone(name: str) -> ZoneInfo | None:
    """Return a time zone by its name in the IANA database; None for one that is not there."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        # A name may also be that of a folder, or of a file that is no zone.
        return None
