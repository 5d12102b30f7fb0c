"""The history of a FHIR server: what has changed since the last round, the oldest first, each version once.

A round that cannot be read takes nothing, and the next one begins where it began. What a round reads anew, because of
the overlap, is not handed over again; after a restart the journal recognises it.
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from functools import partial
from hashlib import sha256
from itertools import islice
from typing import Any, Final, NamedTuple
from urllib.parse import quote, urljoin, urlsplit, urlunsplit

from engine import telemetry
from engine.config.fhir_events import FhirEvents
from engine.deliver.fhir_reader import FhirReader
from engine.deliver.wire.client import ServerResponse
from engine.errors import DeliveryError, EventError
from engine.fhir.event import DELETE, read_event, split
from engine.journal.entry import Recorded
from engine.journal.journal import Journal
from engine.journal.state import event_cursors
from engine.receive.reply import Peer

UNSUPPORTED: Final = "history-unsupported"
UNREADABLE: Final = "history-unreadable"
ELSEWHERE: Final = "history-elsewhere"
TOO_LARGE: Final = "answer-too-large"

# What a visit refers to is asked for after the visit, so that it is there with it.
ORDER: Final = ("Encounter", "Patient")
# A server may commit a version after one with a later moment.
OVERLAP: Final = timedelta(seconds=5)
# How far a server is asked for again whose clock was set back; what was taken is recognised.
BEFORE: Final = timedelta(days=1)
COUNT: Final = 200
MOST_PIECES: Final = 20_000
TAKEN_AT_ONCE: Final = 500
# Answers of a server that keeps no history of a type, or does not give it.
NOT_OFFERED: Final = frozenset({400, 404, 405, 501})

Take = Callable[[str, Sequence[bytes], Peer], Awaitable[Sequence[Recorded]]]
_log = telemetry.logger()


class _Version(NamedTuple):
    """One version of a resource: when it was made, what tells it from every other, and its piece.

    `dated`: it says itself when it was made.
    """

    at: datetime
    dated: bool
    type_: str
    name: str
    piece: bytes


class EventHistory:
    """The history of the types of one channel.

    `until_age`: what is younger is left for a later round, and what came in by another way is left out, by its name.
    """

    def __init__(
        self,
        channel: str,
        events: FhirEvents,
        reader: FhirReader,
        journal: Journal,
        take: Take,
        clock: Callable[[], datetime],
        *,
        most: int = MOST_PIECES,
        until_age: timedelta | None = None,
    ) -> None:
        self._channel = channel
        self._types: tuple[str, ...] = tuple(type_ for type_ in ORDER if type_ in events.types)
        self._source = events.server.name
        self._base = events.server.base_url.rstrip("/")
        self._reader = reader
        self._journal = journal
        self._take = take
        self._clock = clock
        self._most = most
        self._until_age = until_age
        self._count = COUNT
        self._server_time = clock()
        # Whether the server's time is its own.
        self._answered = False
        place = urlsplit(self._base)
        self._peer = Peer(place.hostname or "", place.port or (443 if place.scheme == "https" else 80))
        # What was taken within the overlap, by type.
        self._taken: dict[str, dict[str, datetime]] = {type_: {} for type_ in self._types}

    async def round(self) -> bool:
        """Take what is new; return whether there was more than one round may hold.

        EventError or DeliveryError where the history cannot be read, JournalError where it cannot be stored.
        """
        cursors = self._believed(await self._cursors())
        try:
            versions, more = await self._versions(cursors)
        except DeliveryError as error:
            if str(error) == TOO_LARGE and self._count > 1:
                self._count //= 2
            raise
        await self._hand_over(versions, cursors)
        return more

    async def _versions(self, cursors: Mapping[str, datetime]) -> tuple[list[_Version], bool]:
        """Return what is new of all types in the order in which it took place, and whether there is more.

        A type is asked after the one before it: where the last one has something new, the others may have had so
        meanwhile. They are read again, up to what that one has.
        """
        held = _Oldest(self._most)
        for type_ in self._types:
            await self._read(type_, _since(cursors[type_]), held)
        *others, last = self._types
        newest = max((one.at for one in held.versions() if one.type_ == last), default=None)
        if newest is None or not others:
            return held.versions(), held.more
        for type_ in others:
            await self._read(type_, _since(cursors[type_]), held)
        versions = [one for one in held.versions() if one.at <= newest]
        return versions, held.more or len(versions) < len(held.versions())

    def _believed(self, cursors: dict[str, datetime]) -> dict[str, datetime]:
        """Return the cursors; one that lies in the server's future goes back a day: its clock was set back.

        What it wrote since has moments before the cursor, and would never be asked for.
        """
        latest = self._server_time + OVERLAP
        for type_, at in cursors.items():
            if self._answered and at > latest:
                cursors[type_] = self._server_time - BEFORE
                _log.warning(
                    "events asked for again: the server's clock went back", channel=self._channel, codes=[type_]
                )
        return cursors

    async def _cursors(self) -> dict[str, datetime]:
        """Return how far each type was taken; one that never was begins now, by the server's clock."""
        kept = await self._journal.read(partial(event_cursors.read, channel=self._channel))
        found: dict[str, datetime] = {
            type_: datetime.fromisoformat(kept[type_]) for type_ in self._types if type_ in kept
        }
        if missing := [type_ for type_ in self._types if type_ not in found]:
            begin = self._time_of(await self._reader.get("metadata"))
            # What was made within the overlap before it is not asked for.
            found |= dict.fromkeys(missing, begin + OVERLAP)
            await self._move({type_: found[type_] for type_ in missing})
            _log.info("events begin", channel=self._channel, codes=missing, point=begin.isoformat())
        return found

    def _time_of(self, answer: ServerResponse) -> datetime:
        """Return when the server answered by its own clock, or by ours where it does not say."""
        try:
            sent = parsedate_to_datetime(answer.headers.get("date", ""))
        except ValueError:
            return self._clock()
        return sent if sent.tzinfo is not None else sent.replace(tzinfo=UTC)

    async def _read(self, type_: str, since: datetime, held: "_Oldest") -> None:
        """Read all pages of a type's history, the newest of which is the first."""
        moment = since.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        url = f"{type_}/_history?_since={quote(moment, safe='')}&_count={self._count}"
        answer = await self._page(url, NOT_OFFERED)
        until = None if self._until_age is None else self._server_time - self._until_age
        asked = {url}
        while True:
            held.add(one for one in _versions(answer, type_, since) if self._is_new(one, until))
            url = self._next(answer.json)
            if not url:
                return
            if url in asked:
                raise EventError(UNREADABLE)
            asked.add(url)
            answer = await self._page(url)

    async def _page(self, url: str, not_offered: frozenset[int] = frozenset()) -> ServerResponse:
        try:
            answer = await self._reader.get(url)
        except DeliveryError as error:
            if error.status in not_offered:
                raise EventError(UNSUPPORTED) from error
            raise
        if answer.status in not_offered:
            raise EventError(UNSUPPORTED)
        if answer.status != 200:
            raise EventError(f"http-{answer.status}")
        self._server_time, self._answered = self._time_of(answer), True
        return answer

    def _is_new(self, version: _Version, until: datetime | None) -> bool:
        return version.name not in self._taken[version.type_] and (until is None or version.at <= until)

    def _next(self, bundle: Any) -> str:
        """Return where the next page is, empty for the last; credentials are sent to the server itself only.

        A server behind a proxy may name itself by another host: the path is what counts.
        """
        links = [one for one in bundle.get("link") or () if isinstance(one, dict) and one.get("relation") == "next"]
        if not links:
            return ""
        found, base = urlsplit(urljoin(f"{self._base}/", str(links[0].get("url") or ""))), urlsplit(self._base)
        if not f"{found.path}/".startswith(f"{base.path}/"):
            raise EventError(ELSEWHERE)
        return urlunsplit((base.scheme, base.netloc, found.path, found.query, ""))

    async def _hand_over(self, versions: Sequence[_Version], cursors: dict[str, datetime]) -> None:
        """Have versions recorded in their order; the cursors move with what is recorded.

        Never beyond the server's own time: a version whose moment lies far ahead would hide all that come after it.
        """
        latest = self._server_time + OVERLAP
        left = iter(versions)
        while batch := list(islice(left, TAKEN_AT_ONCE)):
            pieces = [one.piece for one in await self._unknown(batch)]
            if pieces:
                await self._take(self._channel, pieces, self._peer)
            moved = {}
            for one in batch:
                self._taken[one.type_][one.name] = one.at if one.dated else latest
                if min(one.at, latest) > cursors[one.type_]:
                    moved[one.type_] = cursors[one.type_] = min(one.at, latest)
            await self._move(moved)
        for type_, names in self._taken.items():
            since = _since(cursors[type_])
            self._taken[type_] = {name: at for name, at in names.items() if at >= since}

    async def _unknown(self, batch: list[_Version]) -> list[_Version]:
        """Return what did not come in by another way."""
        if self._until_age is None:
            return batch
        names = [one.name for one in batch]
        work = partial(event_cursors.known, channel=self._channel, source=self._source, names=names)
        known = await self._journal.read(work)
        return [one for one in batch if one.name not in known]

    async def _move(self, cursors: dict[str, datetime]) -> None:
        if cursors:
            places = {type_: at.isoformat() for type_, at in cursors.items()}
            await self._journal.write(partial(event_cursors.move, channel=self._channel, places=places))


class _Oldest:
    """The oldest versions of a round, at most so many; `more` says whether others were let go."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._versions: list[_Version] = []
        self.more = False

    def add(self, page: Iterator[_Version]) -> None:
        """Add a page, the oldest first, which is older than those before it or of what they refer to."""
        self._versions = [*page, *self._versions]
        if len(self._versions) > self._most:
            self._versions = self.versions()[: self._most]
            self.more = True

    def versions(self) -> list[_Version]:
        """Return them by their moments, each once; of one moment patients first, then as the server has them."""
        self._versions = list({one.name: one for one in self._versions}.values())
        return sorted(self._versions, key=lambda one: (one.at, -ORDER.index(one.type_)))


def _since(cursor: datetime) -> datetime:
    """Return from when on to ask, to the millisecond."""
    since = cursor - OVERLAP
    return since.replace(microsecond=since.microsecond // 1000 * 1000)


def _versions(answer: ServerResponse, type_: str, since: datetime) -> Iterator[_Version]:
    """Yield the versions on a page, the oldest first; EventError where it does not say what they are.

    A version that has no moment has that of the one before it. What is no event is handed over to be refused.
    """
    if not _is_page(answer.json):
        raise EventError(UNREADABLE)
    last = since
    for piece in split(answer.body):
        try:
            event = read_event(piece)
        except EventError:
            yield _Version(at=last, dated=False, type_=type_, name=_digest(piece), piece=piece)
            continue
        if event.type_ != type_ or (event.at is not None and event.at < since):
            continue
        last = event.at or last
        name = event.name if event.version else f"{event.name}/{_digest(piece)}"
        yield _Version(last, event.at is not None, type_, name, piece)


def _digest(piece: bytes) -> str:
    return sha256(piece).hexdigest()[:16]


def _is_page(bundle: Any) -> bool:
    """Say whether a body is a Bundle whose every entry has a resource or is a deletion."""
    if not isinstance(bundle, dict) or bundle.get("resourceType") != "Bundle":
        return False
    entries, links = bundle.get("entry", []), bundle.get("link", [])
    return isinstance(entries, list) and isinstance(links, list) and all(map(_is_version, entries))


def _is_version(entry: Any) -> bool:
    if not isinstance(entry, dict):
        return False
    request = entry.get("request")
    return isinstance(entry.get("resource"), dict) or (isinstance(request, dict) and request.get("method") == DELETE)
