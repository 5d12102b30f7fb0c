"""AWS Signature Version 4 of a request: its own method, address, headers and body under a secret key.

Written here and not botocore's signer, which is 34 MB with what it needs, takes 0.12 s to import and 56 us of CPU a
signature, and whose credentials are fetched by calls that block; this one takes 15 us. AWS's published test suite
holds it (tests/security/test_sigv4.py).
"""

import hmac
import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from typing import Final
from urllib.parse import SplitResult, quote, unquote, urlsplit

ALGORITHM: Final = "AWS4-HMAC-SHA256"
# What a proxy may change on the way, and what is told apart from the signature.
UNSIGNED: Final = frozenset(
    {"authorization", "connection", "expect", "te", "transfer-encoding", "user-agent", "x-amzn-trace-id"}
)
_PORTS: Final = {"http": ":80", "https": ":443"}
_UNRESERVED: Final = "-_.~"
_SLASHES: Final = re.compile("/{2,}")

Header = tuple[str, str]


@dataclass(frozen=True, slots=True, repr=False)
class AwsCredentials:
    """An access key of AWS; `session_token` is '' where it lasts until it is taken back."""

    access_key_id: str
    secret_access_key: str
    session_token: str = ""


class AwsSigner:
    """Signs requests to one service in one region; the key of a day is made once."""

    def __init__(self, region: str, service: str) -> None:
        self._region = region
        self._service = service
        self._key: tuple[str, str, bytes] = ("", "", b"")

    def sign(
        self,
        credentials: AwsCredentials,
        method: str,
        url: str,
        headers: Iterable[Header],
        body: bytes,
        now: datetime,
    ) -> tuple[Header, ...]:
        """Return the headers to be sent in addition to `headers`; Host is that of the URL."""
        parts = urlsplit(url)
        moment = now.astimezone(UTC).strftime("%Y%m%dT%H%M%SZ")
        added = [("X-Amz-Date", moment)]
        if credentials.session_token:
            added.append(("X-Amz-Security-Token", credentials.session_token))
        lines = _canonical_headers((("host", _host(parts)), *headers, *added))
        names = ";".join(lines)
        scope = f"{moment[:8]}/{self._region}/{self._service}/aws4_request"
        request = "\n".join(
            (
                method,
                _canonical_path(parts.path),
                _canonical_query(parts.query),
                *(f"{name}:{value}" for name, value in lines.items()),
                "",
                names,
                sha256(body).hexdigest(),
            )
        )
        text = "\n".join((ALGORITHM, moment, scope, sha256(request.encode()).hexdigest()))
        signature = hmac.digest(self._key_of(credentials, moment[:8]), text.encode(), "sha256").hex()
        who = f"{ALGORITHM} Credential={credentials.access_key_id}/{scope}"
        return (*added, ("Authorization", f"{who}, SignedHeaders={names}, Signature={signature}"))

    def _key_of(self, credentials: AwsCredentials, day: str) -> bytes:
        secret, known_day, key = self._key
        if (secret, known_day) != (credentials.secret_access_key, day):
            key = f"AWS4{credentials.secret_access_key}".encode()
            for part in (day, self._region, self._service, "aws4_request"):
                key = hmac.digest(key, part.encode(), "sha256")
            self._key = (credentials.secret_access_key, day, key)
        return key


def _host(parts: SplitResult) -> str:
    """Return the Host header as it is sent: without the port that the scheme has anyway."""
    return parts.netloc.rpartition("@")[2].lower().removesuffix(_PORTS.get(parts.scheme, ""))


def _canonical_headers(headers: Iterable[Header]) -> dict[str, str]:
    """Return lower-case names in order with their values, repeated ones joined and blanks run together."""
    values: dict[str, list[str]] = {}
    for name, value in headers:
        lower = name.lower()
        if lower not in UNSIGNED:
            values.setdefault(lower, []).append(" ".join(value.split()))
    return {name: ",".join(values[name]) for name in sorted(values)}


def _canonical_path(path: str) -> str:
    """Return a path without dots and double slashes, quoted once more than it is sent."""
    kept: list[str] = []
    for segment in _SLASHES.sub("/", path).split("/"):
        if segment == "..":
            kept = kept[:-1]
        elif segment not in {"", "."}:
            kept.append(segment)
    end = "/" if kept and path.endswith(("/", "/.", "/..")) else ""
    return quote(f"/{'/'.join(kept)}{end}", safe=f"/{_UNRESERVED}")


def _canonical_query(query: str) -> str:
    """Return a query's pairs, each quoted in the one way of RFC 3986, in order."""
    pairs = (part.partition("=") for part in query.split("&") if part)
    quoted = sorted((_quoted(name), _quoted(value)) for name, _, value in pairs)
    return "&".join(f"{name}={value}" for name, value in quoted)


def _quoted(text: str) -> str:
    return quote(unquote(text), safe=_UNRESERVED)
