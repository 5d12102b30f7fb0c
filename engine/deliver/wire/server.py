"""One FHIR server as the engine speaks to it (address, authorization, version), and whether memory of it may hold.

A server that is restored from a backup gives the same ids and versions to other records, so that `If-Match` alone does
not protect them. Nothing in FHIR tells of a restore; but none takes place between two answers of a burst without a lost
connection, an answer that fails, or a pause. So bodies are remembered within a burst only, which is where reading first
would cost something: a server that is asked now and then is read each time, for a request more.
"""

import math
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from engine.config.destination import Destination as Settings
from engine.config.http_client import HeaderValue, is_header_value
from engine.deliver.stored import PATIENT, Body, Cache
from engine.deliver.verdict import Failure
from engine.deliver.wire.abilities import Abilities, IfMatchProofs
from engine.deliver.wire.authorizer import Authorization, Authorizer
from engine.deliver.wire.client import FhirClient, ServerResponse
from engine.deliver.wire.failure import error_of, failure_of
from engine.deliver.wire.rate import RateLimiter
from engine.fhir.versions.conversion import convert
from engine.fhir.versions.direction import Direction
from engine.fhir.versions.names import in_stu3, stu3_name

# A pause after which nothing is remembered: nothing is under way, and no answer came since.
QUIET_SECONDS: Final = 0.25
# How long requests may be under way without any answer until nothing is remembered.
HANGING_SECONDS: Final = 3.0


class Continuity:
    """The answers of one server. `ticks` is a monotonic clock.

    `doubt` is called after a pause, `forget` after a lost connection and a request without an answer. `breaks` counts
    the latter: what was read before one is not written upon.
    """

    def __init__(
        self,
        ticks: Callable[[], float],
        forget: Callable[[], None] = lambda: None,
        doubt: Callable[[], None] = lambda: None,
    ) -> None:
        self.breaks = 0
        self._forget = forget
        self._doubt = doubt
        self._ticks = ticks
        self._under_way = 0
        self._answered_at = -math.inf

    def sent(self) -> None:
        """Note that a request is sent."""
        self._under_way += 1

    def answered(self) -> None:
        """Note an answer, whatever it says."""
        self._under_way -= 1
        self._answered_at = self._ticks()

    def unanswered(self) -> None:
        """Note that a request found no answer."""
        self._under_way -= 1
        self.broken()

    def broken(self) -> None:
        """Note that a connection was lost: the server behind the next one may be another."""
        self.breaks += 1
        self._forget()

    def check(self) -> None:
        """Doubt what is remembered where the server was quiet for too long."""
        quiet = self._ticks() - self._answered_at
        if quiet > (HANGING_SECONDS if self._under_way else QUIET_SECONDS):
            self._doubt()


# How long a secret in a header is taken for what it was.
HEADER_SECONDS: Final = 5.0
# What a server answers that does not take the engine's credentials.
REFUSED: Final = frozenset({401, 403})
MEDIA_TYPE = "application/fhir+json"
# Some servers answer a search as they answered it a minute ago, which hides what was written since.
FRESH: Final = ("Cache-Control", "no-cache")
# Transactions in a row that failed and were not the fault of what was in them, until they are sent no more.
MOST_FAILURES: Final = 3

Fence = Callable[[], Awaitable[None]]


class Caches:
    """What is remembered of a server's resources: a cache of each type, that of Patients given."""

    def __init__(self, patients: Cache) -> None:
        self.patients = patients
        self._by_type = {PATIENT: patients}

    def of(self, type_: str) -> Cache:
        """Return the cache of the resources of a type."""
        cache = self._by_type.get(type_)
        if cache is None:
            cache = self._by_type[type_] = Cache(self.patients.most, ticks=self.patients.ticks)
        return cache

    def clear(self) -> None:
        """Forget everything: the server may have gone back behind it."""
        for cache in self._by_type.values():
            cache.clear()

    def doubt(self) -> None:
        """Give out no body that was met before now: the server was quiet, and what it has may be another's."""
        for cache in self._by_type.values():
            cache.doubt()


class FixedHeaders:
    """The headers that the settings of a destination add to each request; secrets are read anew every few seconds.

    `ticks` is a monotonic clock.
    """

    def __init__(self, headers: Mapping[str, HeaderValue], ticks: Callable[[], float]) -> None:
        self._headers = headers
        self._ticks = ticks
        self._pairs: tuple[tuple[str, str], ...] = ()
        self._read_at = -math.inf

    def pairs(self) -> tuple[tuple[str, str], ...]:
        """Return names and values; DestinationError where a secret cannot be read, or holds what no header can."""
        now = self._ticks()
        if now - self._read_at >= HEADER_SECONDS:
            self._pairs = tuple((name, _header_text(value)) for name, value in self._headers.items())
            self._read_at = now
        return self._pairs

    def doubt(self) -> None:
        """Read the secrets before the next request: the server takes them no more."""
        self._read_at = -math.inf


def _header_text(value: HeaderValue) -> str:
    try:
        text = value.read()
    except LookupError as error:
        raise error_of(Failure.DESTINATION, "secret-unreadable", 0, ("secret-unreadable",)) from error
    if not is_header_value(text):
        raise error_of(Failure.DESTINATION, "header-unusable", 0, ("header-unusable",))
    return text


class DestinationServer:
    """A destination's client, sign-in, abilities, and what is remembered of its Patients and its other resources.

    `fence` is awaited before each request that may change something; what it raises is raised, and nothing is sent.
    `headers` are those of the settings, `limiter` their requests a second; None for none.
    `is_draft`: what is created has a provisional id, which no resource that is there can name.
    `proving`: a trial of If-Match is on its way, which is not made twice.
    """

    is_draft = False

    def __init__(
        self,
        settings: Settings,
        client: FhirClient,
        authorizer: Authorizer,
        caches: Caches,
        continuity: Continuity,
        fence: Fence | None = None,
        headers: FixedHeaders | None = None,
        limiter: RateLimiter | None = None,
    ) -> None:
        self.settings = settings
        self._read_headers = tuple(settings.behaviour.read_headers.items())
        self.base = settings.base_url.rstrip("/")
        self.cache = caches.patients
        self._caches = caches
        self.abilities = Abilities()
        self.client = client
        self.authorizer = authorizer
        self.continuity = continuity
        self.proofs = IfMatchProofs()
        self.proving = False
        self.transactions_failed = 0
        self.creates_watched = 0
        self._fence = fence
        self._headers = headers
        self._limiter = limiter
        self._stu3 = settings.fhir == "STU3"

    async def ask(
        self, method: str, url: str, headers: tuple[tuple[str, str], ...], body: bytes = b""
    ) -> ServerResponse:
        """Send one request with the destination's authorization; once more with a new one where that is refused."""
        names = [("Accept", MEDIA_TYPE), ("User-Agent", "adt-engine"), *headers]
        if method == "GET":
            names += (FRESH, *self._read_headers)
        again = False
        while True:
            # Its turn first: what proves the engine and what the fence says are of the moment at which it leaves.
            if self._limiter is not None:
                await self._limiter.turn()
            fixed = self._headers.pairs() if self._headers is not None else ()
            answer, authorization = await self._send(method, url, [*names, *fixed], body)
            if again or answer.status not in REFUSED or not self.authorizer.refused(authorization, answer.status):
                return answer
            again = True

    def forget(self) -> None:
        """Forget all that is remembered of resources: the server may have gone back behind it."""
        self._caches.clear()

    def prove(self, if_match: bool) -> None:
        """Note what a trial of If-Match has shown, for this version of the server."""
        self.abilities = self.abilities.proven(if_match)
        self.proofs.add(self.abilities.server, if_match)

    def transaction_failed(self) -> None:
        """Count a transaction that failed by itself; after too many in a row none is sent any more."""
        self.transactions_failed += 1
        if self.transactions_failed >= MOST_FAILURES:
            self.refrain("transactions-fail")

    def refrain(self, reason: str) -> None:
        """Send no transactions any more until the server is asked anew what it can do."""
        self.abilities = replace(self.abilities, transaction=False, unfit=reason)

    def cache_of(self, type_: str) -> Cache:
        """Return the cache of the resources of a type."""
        return self._caches.of(type_)

    def lacks(self, type_: str) -> bool:
        """Say whether the server's FHIR version has no such resource type."""
        return self._stu3 and not in_stu3(type_)

    def keeps(self, type_: str) -> bool:
        """Say whether the server keeps a type of R4, as far as it says which it keeps."""
        return not type_ or self.abilities.keeps(stu3_name(type_) if self._stu3 else type_)

    def outward(self, resource: Body) -> Body:
        """Return a resource in the server's FHIR version."""
        return convert(resource, Direction.TO_STU3) if self._stu3 else resource

    def inward(self, body: Any) -> Any:
        """Return a resource of the server in R4; anything else as it is."""
        read = self._stu3 and isinstance(body, dict) and "resourceType" in body
        return convert(body, Direction.TO_R4) if read else body

    async def close(self) -> None:
        """Close the connections; requests that wait for their turn fail."""
        if self._limiter is not None:
            self._limiter.close()
        await self.authorizer.close()
        await self.client.close()

    async def _send(
        self, method: str, url: str, headers: list[tuple[str, str]], body: bytes
    ) -> tuple[ServerResponse, Authorization]:
        """Send one request; return the answer and what proved the engine."""
        authorization = await self.authorizer.authorization(method, url, headers, body)
        # After the sign-in, which may take long.
        if self._fence is not None and method != "GET":
            await self._fence()
        self.continuity.sent()
        try:
            answer = await self.client.send(method, url, [*headers, *authorization], body)
        except BaseException:
            self.continuity.unanswered()
            raise
        self.continuity.answered()
        if self._headers is not None and answer.status in REFUSED:
            self._headers.doubt()
        if answer.status >= 500 and failure_of(answer.status, write=True) is not Failure.PERMANENT:
            self.forget()
        return answer, authorization
