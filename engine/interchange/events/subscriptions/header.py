"""Header lines of a channel (`Name: value`): their syntax, how readers see them, and how they are stored sealed.

The key is derived from the service's secret. A seal is bound to one subscription of one tenant: it cannot be opened in
another row.
"""

import re
from typing import Final

import orjson
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from engine.interchange.kernel.outcome import Category, refuse

NONCE_BYTES: Final = 12
KEY_BYTES: Final = 32
PURPOSE: Final = b"header lines of webhooks"

Lines = tuple[str, ...]


def seal(secret: bytes, tenant: int, subscription_id: str, lines: Lines, nonce: bytes) -> bytes:
    """Return header lines sealed, b'' for none; `nonce` is 12 random bytes, new for each call."""
    if not lines:
        return b""
    return nonce + AESGCM(_key(secret)).encrypt(nonce, orjson.dumps(lines), _bound(tenant, subscription_id))


def unseal(secret: bytes, tenant: int, subscription_id: str, sealed: bytes) -> Lines | None:
    """Return the header lines; None if they were sealed by another service or for another subscription."""
    if not sealed:
        return ()
    nonce, text = sealed[:NONCE_BYTES], sealed[NONCE_BYTES:]
    try:
        return tuple(orjson.loads(AESGCM(_key(secret)).decrypt(nonce, text, _bound(tenant, subscription_id))))
    except InvalidTag:
        return None


def _key(secret: bytes) -> bytes:
    return HKDF(SHA256(), KEY_BYTES, None, PURPOSE).derive(secret)


def _bound(tenant: int, subscription_id: str) -> bytes:
    return f"{tenant}/{subscription_id}".encode()


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
