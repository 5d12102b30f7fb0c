"""FHIR intake: events of a FHIR server, each stored as one entry by the bytes that came, and only then answered.

There is no server here: the HTTP server hands over the body and sends what is returned. Who asks for a history hands
over what it read.
"""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import orjson

from engine import telemetry
from engine.config.channel import Channel
from engine.config.network import is_allowed
from engine.errors import EventError, JournalError, JournalRefusedError, place_of
from engine.fhir.event import NO_EVENT, NO_ID, NO_RESOURCE, NOT_JSON, deletion, read_event, split
from engine.journal.entry import NewEntry, Recorded, State
from engine.journal.journal import Journal
from engine.pipeline.feed import Feed, PipelineContext
from engine.pipeline.inbound.counters import Counters
from engine.pipeline.inbound.event_entries import FAULT, event_entry, filtered_event, refused_event
from engine.pipeline.inbound.under_way import RequestsUnderWay
from engine.pipeline.listeners import Listeners
from engine.receive.listener.admission import ALLOW_LIST
from engine.receive.reply import Peer

FHIR: Final = "application/fhir+json"
TYPES: Final = frozenset({FHIR, "application/json"})
NO_PAYLOAD: Final = "no-payload"
URL_DIFFERS: Final = "url-differs"
NOBODY: Final = "no channel takes events here: see listen.fhir.path of its file"
# Values of the label `code` of the messages that were recorded: an event has no acknowledgement.
ACCEPTED: Final = "accepted"
REFUSED: Final = "rejected"
# Events of one body that are recorded at a time; others come in between.
AT_ONCE: Final = 32

# What the sender has to do, by the reason for which its event was refused.
REMEDIES: Final[Mapping[str, str]] = {
    NO_PAYLOAD: "the body is empty: set channel.payload to application/fhir+json: an event without its resource says "
    "nothing",
    NOT_JSON: f"the body is no JSON: send one resource or Bundle as {FHIR}",
    NO_RESOURCE: "the body, or the URL, names no resource of FHIR: send one resource or Bundle with its resourceType",
    NO_ID: "a resource has no id of FHIR: send it as the server has it, with the id that it gave",
    NO_EVENT: "the Bundle holds no event: send the resource that changed",
    URL_DIFFERS: "the URL names another resource than the body: send the resource of that type and id, and it alone",
    FAULT: "the event could not be read: call the engine's operator, who finds it among the refused messages",
}
# The codes of issues in an OperationOutcome, by HTTP status.
ISSUES: Final[Mapping[int, str]] = {
    400: "invalid",
    401: "login",
    403: "forbidden",
    404: "not-found",
    405: "not-supported",
    408: "timeout",
    413: "too-long",
    415: "not-supported",
    429: "throttled",
    500: "exception",
    503: "transient",
}

Answer = tuple[int, str, bytes]
_Taken = tuple[NewEntry, Recorded]

_log = telemetry.logger()


class FhirIntake:
    """FHIR intake of one engine, by the `path` of each channel's `listen.fhir`.

    `arrived` is called with the destinations that have something new; `counters` count what came in, by channel.
    """

    def __init__(
        self,
        journal: Journal,
        shared: PipelineContext,
        listeners: Listeners,
        counters: dict[str, Counters],
        arrived: Callable[[tuple[str, ...]], None],
    ) -> None:
        self._journal = journal
        self._feeds = shared.feeds
        self._clock = shared.clock
        self._listeners = listeners
        self._counters = counters
        self._arrived = arrived
        self._under_way = RequestsUnderWay(listeners.refuse_post)

    def limit(self, path: str) -> int:
        """Return how many bytes of a body to read at most, before it is handed over; 0 where nobody listens."""
        feed = self._feed(path)
        return feed.channel.limits.block_bytes if feed else 0

    async def answer(
        self, path: str, body: bytes | None, peer: Peer, content_type: str = FHIR, *, resource: str = ""
    ) -> Answer:
        """Answer what a server sent: status, content type, bytes; a body of None is the deletion of `resource`.

        `resource`: what the URL names, as `Patient/1`. 200 once every event is committed. Else an OperationOutcome: 400
        what is no event (it is stored as refused; other events of its Bundle are taken), 403 an address that is not
        allowed, 404 no such path, 413 a body over `block_bytes`, 415 another content type, 503 overload, a stopped
        channel, shutdown or a journal that takes nothing: send it again.
        """
        feed = self._feed(path)
        if feed is None:
            return outcome(404, NOBODY)
        refusal = self._refusal(feed.channel, body, peer, content_type)
        if refusal is not None:
            return refusal
        if feed.channel.channel not in self._listeners.intakes:
            return outcome(503, "the channel takes no events now; send it again later")
        with self._under_way.counted(feed.channel, peer) as admitted:
            if not admitted:
                return outcome(503, "too many events at once; send it again later")
            begun = time.perf_counter()
            try:
                return await self._answer(feed, body, peer, resource)
            finally:
                telemetry.ACK_SECONDS.labels(feed.channel.channel).observe(time.perf_counter() - begun)

    async def take(self, channel: str, pieces: Sequence[bytes], peer: Peer) -> list[Recorded]:
        """Record pieces of `split`, each as one entry and in their order; JournalError where one cannot be stored."""
        feed = self._feeds.get(channel)
        if feed is None:
            raise JournalError(f"the channel {channel} is not configured any more: nothing is recorded for it")
        return [recorded for _, recorded in await self._take(feed, pieces, peer)]

    def _feed(self, path: str) -> Feed | None:
        events = ((feed, feed.channel.listen.fhir) for feed in self._feeds.values())
        return next((feed for feed, listen in events if listen is not None and listen.path == path), None)

    def _refusal(self, channel: Channel, body: bytes | None, peer: Peer, content_type: str) -> Answer | None:
        if channel.allow and not is_allowed(peer.address, channel.allow):
            self._listeners.refuse_post(channel.channel, peer.address, ALLOW_LIST, "refused-address")
            return outcome(403, "this address is not allowed on the channel: see allow in its file")
        sent = body or b""
        if len(sent) > channel.limits.block_bytes:
            return outcome(413, f"at most {channel.limits.block_bytes} bytes: see limits.block_bytes of the channel")
        # A Subscription without a payload names no type.
        if sent.strip() and content_type.partition(";")[0].strip().lower() not in TYPES:
            return outcome(415, f"send the event as {FHIR}")
        return None

    async def _answer(self, feed: Feed, body: bytes | None, peer: Peer, resource: str) -> Answer:
        try:
            if body is None:
                return _ended(await self._take(feed, (_deletion(resource),), peer))
            reason, pieces = _cut(body, resource)
            if reason:
                entry = refused_event(body, reason, feed, peer, self._clock())
            elif not pieces:
                entry = filtered_event(body, feed, peer, self._clock())
            else:
                return _ended(await self._take(feed, pieces, peer))
            return _ended([(entry, await self._record(entry, feed))])
        except JournalError as error:
            code = error.code if isinstance(error, JournalRefusedError) else ""
            _log.error("not stored", channel=feed.channel.channel, error=type(error).__name__, code=code)
            return outcome(503, "the event was not stored; send it again later")

    async def _take(self, feed: Feed, pieces: Sequence[bytes], peer: Peer) -> list[_Taken]:
        taken: list[_Taken] = []
        for at in range(0, len(pieces), AT_ONCE):
            entries = [event_entry(piece, feed, peer, self._clock()) for piece in pieces[at : at + AT_ONCE]]
            recorded = await asyncio.gather(*(self._record(entry, feed) for entry in entries))
            taken += zip(entries, recorded, strict=True)
        return taken

    async def _record(self, entry: NewEntry, feed: Feed) -> Recorded:
        channel = feed.channel.channel
        recorded = await self._journal.record(entry)
        self._counters.setdefault(channel, Counters()).count(entry, recorded, feed.channel.base_uri)
        refused = entry.state is State.REJECTED
        telemetry.series(telemetry.MESSAGES, channel, REFUSED if refused else ACCEPTED).inc()
        if refused:
            _log.warning("refused", channel=channel, entry=recorded.seq, reason=entry.reason)
        elif entry.state is State.RECEIVED and not recorded.duplicate:
            self._arrived(recorded.destinations)
        return recorded


def outcome(status: int, text: str) -> Answer:
    """Return a refusal as FHIR has it: an OperationOutcome that says what to do next."""
    issue = {"severity": "error", "code": ISSUES.get(status, "processing"), "details": {"text": text}}
    return status, FHIR, orjson.dumps({"resourceType": "OperationOutcome", "issue": [issue]})


def _cut(body: bytes, resource: str) -> tuple[str, tuple[bytes, ...]]:
    """Return why a body is no event, and the pieces that it is cut into."""
    if not body.strip():
        return NO_PAYLOAD, ()
    try:
        pieces = split(body)
        differs = bool(resource) and (pieces != (body,) or read_event(body).reference != resource)
    except EventError as error:
        return str(error), ()
    except Exception as error:  # noqa: BLE001 - the last resort: what a fault of ours cannot cut is kept and refused
        _log.error("judgement failed", error=type(error).__name__, point=place_of(error))
        return FAULT, ()
    return (URL_DIFFERS, ()) if differs else ("", pieces)


def _deletion(resource: str) -> bytes:
    type_, _, logical_id = resource.partition("/")
    return deletion(type_, logical_id)


def _ended(taken: Sequence[_Taken]) -> Answer:
    """Return the answer to what is stored: 400 as soon as one event was refused."""
    reasons = [entry.reason for entry, _ in taken if entry.state is State.REJECTED]
    if not reasons:
        return 200, FHIR, b""
    said = REMEDIES.get(reasons[0], reasons[0])
    return outcome(400, said if len(taken) == 1 else f"{len(reasons)} of {len(taken)} events were refused: {said}")
