"""Header lines of a channel (`Name: value`): their syntax, and how they are shown to readers of a subscription."""

import re
from typing import Final

from engine.interchange.kernel.outcome import Category, refuse

Lines = tuple[str, ...]

PLACE: Final = "Subscription.channel.header"
LINE: Final = re.compile(r"([A-Za-z0-9!#$%&'*+.^_`|~-]+): *(.*?) *", re.ASCII)
VALUE: Final = re.compile(r"[\x20-\x7e]+")
# Shown in place of a stored value.
MASK: Final = "***"
MOST_LINES: Final = 20
LONGEST: Final = 4096
# Headers of the connection, which a line would break.
REFUSED: Final = frozenset(
    {
        *("host", "content-length", "transfer-encoding", "connection", "te", "trailer", "upgrade", "expect"),
        *("keep-alive", "proxy-connection", "proxy-authorization", "content-encoding"),
    }
)
# Set by the service: such a line is stored, and not sent.
OWN: Final = frozenset({"content-type", "user-agent", "x-service-eventid"})


def parse_line(line: str) -> tuple[str, str]:
    """Return name and value of a line; RefusedError (422), without the value, for a malformed one."""
    match = LINE.fullmatch(line)
    if match is None or len(line) > LONGEST or not VALUE.fullmatch(match[2]):
        text = f"A header line is 'Name: value', of printable ASCII characters, {LONGEST} of them at most."
        raise refuse(Category.INVALID, text, location=PLACE)
    if match[1].lower() in REFUSED:
        raise refuse(Category.INVALID, f"The header {match[1]} belongs to the connection.", location=PLACE)
    return match[1], match[2]


def settle_lines(given: Lines, former: Lines | None) -> Lines:
    """Return the lines to be stored: a value given as *** is the former one of that name.

    `former` is None if no value may be taken over. RefusedError (422): a malformed line, or no former value.
    """
    if len(given) > MOST_LINES:
        raise refuse(Category.INVALID, f"There are more than {MOST_LINES} header lines.", location=PLACE)
    known = {name.lower(): value for name, value in map(parse_line, former or ())}
    lines = []
    for name, value in map(parse_line, given):
        kept = value
        if value == MASK:
            if name.lower() not in known:
                text = f"*** means the stored value, and there is none for {name}: give the value"
                text += " (again, once the endpoint is another server)." if former is None else "."
                raise refuse(Category.INVALID, text, location=PLACE)
            kept = known[name.lower()]
        lines.append(f"{name}: {kept}")
    return tuple(lines)


def masked(lines: Lines) -> list[str]:
    """Return the lines as they are shown: names without values."""
    return [f"{name}: {MASK}" for name, _ in map(parse_line, lines)]


def sent_headers(lines: Lines) -> dict[str, str]:
    """Return the headers that lines add to a delivery."""
    pairs = (parse_line(line) for line in lines)
    return {name.lower(): value for name, value in pairs if name.lower() not in OWN}
