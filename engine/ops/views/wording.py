"""How values look on a page: moments, ages, sizes, and text that somebody else wrote."""

import re
import unicodedata
from datetime import UTC, datetime
from typing import Final

import orjson

# What would move the cursor, colour a terminal or turn the direction of the text is shown as its number instead.
# Selectors of variants stay: Japanese names are written with them.
_UNSEEN: Final = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b-\u200f\u2028-\u202e"
    r"\u2060-\u206f\u2800\u3164\ufeff\uffa0\ufff9-\ufffb\U0001d173-\U0001d17a\U000e0000-\U000e007f]"
)
_STEPS: Final = ((86_400, "d", 3_600, "h"), (3_600, "h", 60, "min"), (60, "min", 1, "s"))
NOTHING: Final = "–"


def visible(text: object) -> str:
    """Return text in which nothing is unseen: control and direction characters are written as numbers."""
    return _UNSEEN.sub(_named, str(text))


def visible_lines(text: object) -> str:
    """Return text of several lines in which nothing is unseen; HL7's ends of segments end lines."""
    return "\n".join(visible(line) for line in re.split(r"\r\n|\r|\n", str(text)))


def _named(found: re.Match[str]) -> str:
    character = found.group()
    if character == "\x1b":
        return "⟨ESC⟩"
    return f"⟨{unicodedata.name(character, f'U+{ord(character):04X}')}⟩"


def moment(value: object) -> str:
    """Return an ISO time as this machine's clock would show it, to the second; a dash where there is none."""
    found = moment_of(value)
    return f"{found.astimezone():%Y-%m-%d %H:%M:%S}" if found else NOTHING


def clock(value: object) -> str:
    """Return an ISO time as this machine's clock would show it: `02:13` for one of today, else with its day."""
    found = moment_of(value)
    if found is None:
        return NOTHING
    local = found.astimezone()
    today = local.date() == datetime.now(UTC).astimezone().date()
    return f"{local:%H:%M}" if today else f"{local:%Y-%m-%d %H:%M}"


def moment_of(value: object) -> datetime | None:
    """Return the moment that a value holds or writes, aware; None where it holds none."""
    if isinstance(value, datetime):
        return value
    try:
        found = datetime.fromisoformat(str(value)) if value else None
    except ValueError:
        return None
    return found.replace(tzinfo=found.tzinfo or UTC) if found else None


def span(seconds: float | None) -> str:
    """Return a duration in its two largest units: `2 h 10 min`; a dash where there is none."""
    if seconds is None:
        return NOTHING
    whole = max(int(float(seconds)), 0)
    for large, large_name, small, small_name in _STEPS:
        if whole >= large:
            rest = whole % large // small
            return f"{whole // large} {large_name}" + (f" {rest} {small_name}" if rest else "")
    return f"{whole} s"


def number(value: object) -> str:
    """Return a number with thin spaces between thousands; a dash where there is none."""
    if value is None or value == "":
        return NOTHING
    return f"{value:,}".replace(",", "\u202f") if isinstance(value, int | float) else str(value)


def milliseconds(value: float | None) -> str:
    """Return a duration given in milliseconds: `12 ms`, `1.4 s`."""
    if value is None:
        return NOTHING
    return f"{float(value):.0f} ms" if float(value) < 1000 else f"{float(value) / 1000:.1f} s"


def pretty(value: object) -> str:
    """Return JSON as people read it, or text as it is."""
    if isinstance(value, str):
        return value
    return orjson.dumps(value, option=orjson.OPT_INDENT_2, default=str).decode()
