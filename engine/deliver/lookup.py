"""Look-ups: a server is asked to search the networks for a patient's documents (`DocumentReference/$p360-retrieve`).

It works on by itself: what counts here is that it took the request on, and under which handle it tells of its end.
The server gives the same handle while one look-up of a patient runs, so that asking again after a lost answer is safe.
"""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import Final
from urllib.parse import quote

from engine.deliver.reply import Ending, RequestReply, reply_of, unanswered
from engine.deliver.verdict import Failure
from engine.deliver.wire.abilities import abilities_of
from engine.deliver.wire.client import ServerResponse
from engine.deliver.wire.failure import error_of, failure_of
from engine.deliver.wire.server import DestinationServer
from engine.errors import DeliveryError
from engine.fhir.outcome import codes

UNSUPPORTED: Final = "lookup-unsupported"
REFUSED: Final = "lookup-refused"
FAILED: Final = "lookup-failed"
# A server that offers none is asked again what it offers, once somebody may have brought it up.
ASK_AGAIN_SECONDS: Final = 600.0
LONGEST_HANDLE: Final = 500
ASYNCHRONOUS: Final = (("Prefer", "respond-async"),)
R4: Final = "/R4"


class LookUpClient:
    """Asks one server; remembers which of its bases takes the operation. `ticks` is a monotonic clock."""

    def __init__(self, server: DestinationServer, ticks: Callable[[], float]) -> None:
        self._server = server
        self._ticks = ticks
        self._base = ""
        self._asked_at: float | None = None

    @property
    def unsupported(self) -> bool:
        """Whether the server was asked for its operations and has none to look patients up."""
        return self._asked_at is not None and not self._base

    async def ask(self, patient: str, at: datetime) -> RequestReply:
        """Ask for a look-up of a patient (`Patient/1`) and return what the server said; nothing is raised."""
        logical_id = quote(patient.rpartition("/")[2], safe="")
        try:
            base = await self._known_base()
            if not base:
                return RequestReply(Ending.REFUSED, UNSUPPORTED)
            url = f"{base}/DocumentReference/$p360-retrieve?patient={logical_id}"
            return _reply(await self._server.ask("POST", url, ASYNCHRONOUS), at)
        except DeliveryError as error:
            return unanswered(error, FAILED)

    async def base(self) -> str:
        """Return the base that states the operation, '' where none does; DeliveryError where the server does not say.

        The one that is configured is taken at its word. A service may offer the operation in STU3 alone, at the base
        above that of R4.
        """
        server = self._server
        if server.settings.lookup_base_url:
            return server.settings.lookup_base_url.rstrip("/")
        above = server.base.removesuffix(R4)
        for base in dict.fromkeys((server.base, above)):
            answer = await server.ask("GET", f"{base}/metadata", ())
            failure = failure_of(answer.status, write=False)
            if failure not in {Failure.NONE, Failure.PERMANENT}:
                raise error_of(failure, f"http-{answer.status}", answer.status, codes(answer.json))
            if failure is Failure.NONE and abilities_of(answer.json).lookup:
                return base
        return ""

    async def _known_base(self) -> str:
        now = self._ticks()
        if not self._base and (self._asked_at is None or now - self._asked_at >= ASK_AGAIN_SECONDS):
            self._base = await self.base()
            self._asked_at = now
        return self._base


def _reply(answer: ServerResponse, at: datetime) -> RequestReply:
    reply = reply_of(answer, at, refused=REFUSED, failed=FAILED)
    if reply.ending is not Ending.ACCEPTED:
        return reply
    handle = answer.headers.get("content-location") or answer.headers.get("location", "")
    return replace(reply, handle=handle[:LONGEST_HANDLE])
