"""A feed (a channel with its mapping), messages handed from intake to dispatch, and what both share in one engine."""

from collections import OrderedDict
from collections.abc import Callable
from collections.abc import Mapping as Table
from dataclasses import dataclass, field
from datetime import datetime
from urllib.parse import urlsplit

from engine.config.channel import Channel
from engine.config.destination import Destination
from engine.errors import UsageError
from engine.fhir.plan import Identity
from engine.hl7.message import Message
from engine.mapping.compile import Mapping
from engine.mapping.files.reference import nearest
from engine.mapping.outgoing.compile import OutgoingMapping
from engine.mapping.relay.message_edit import MessageEdit
from engine.pipeline.inbound.merge_limit import MergeRateLimiter
from engine.pipeline.inbound.outcomes import Outcomes
from engine.pipeline.outbound.change_messages import ChangeMessages
from engine.pipeline.outbound.pauses import Pauses
from engine.pipeline.outbound.timekeeping import Timekeeper


class Handover:
    """A shelf of parsed messages by entry; what has fallen off is parsed anew from the journal's bytes.

    Bounded by the messages' own bytes: parsed, they take six times as much.
    """

    def __init__(self, most_bytes: int = 1_048_576) -> None:
        self._room = most_bytes
        self._messages: OrderedDict[int, Message] = OrderedDict()

    def put(self, seq: int, message: Message) -> None:
        """Leave a message for dispatch, in place of what an entry had; the oldest make room."""
        self.take(seq)
        self._messages[seq] = message
        self._room -= len(message.raw)
        while self._room < 0:
            _, oldest = self._messages.popitem(last=False)
            self._room += len(oldest.raw)

    def take(self, seq: int) -> Message | None:
        """Return the message of an entry and forget it; None where it is not on the shelf."""
        message = self._messages.pop(seq, None)
        if message is not None:
            self._room += len(message.raw)
        return message


@dataclass(frozen=True, slots=True)
class Feed:
    """What one channel's messages are judged and mapped with; swapped whole on reload.

    `mapping` judges and identifies a message; `own` are those of destinations that have another for what is written,
    `edits` those of relays that send the messages edited, `outgoing` the mappings of those that get a FHIR server's
    events.
    """

    channel: Channel
    mapping: Mapping
    destinations: tuple[str, ...]
    required: frozenset[str]
    own: Table[str, Mapping]
    edits: Table[str, MessageEdit] = field(default_factory=dict)
    outgoing: Table[str, OutgoingMapping] = field(default_factory=dict)

    def mapping_at(self, destination: str) -> Mapping:
        """Return the mapping that plans what is written to a destination."""
        return self.own.get(destination, self.mapping)

    def edit_at(self, destination: str) -> MessageEdit | None:
        """Return the edit of what is passed on to a destination; None where the original is sent."""
        return self.edits.get(destination)

    def channel_at(self, destination: str) -> Channel:
        """Return the channel with the mapping of a destination, '' for its own; UsageError where it has no such one."""
        if destination in {relay.name for relay in self.channel.relays}:
            raise UsageError(f"{destination} is a relay: it gets messages as they are, and has no mapping")
        if destination and destination not in self.destinations:
            hint = nearest(destination, self.destinations)
            raise UsageError(f"the channel {self.channel.channel} has no destination {destination!r}; {hint}")
        return self.channel.at(destination)

    def marks(self) -> dict[tuple[str, str], str]:
        """Return the hash of each mapping by the destination that has it, empty for the channel's, and its name."""
        named = {(name, self.channel.mapping_at(name)): mapping.hash for name, mapping in self.own.items()}
        return {("", self.channel.mapping): self.mapping.hash, **named}


Feeds = dict[str, Feed]


def writers_of(feeds: Feeds, server: Destination) -> tuple[str, ...]:
    """Return the destinations that are a server: those of its name, and those at its base URL."""
    base = _place_of(server.base_url)
    found = (one for feed in feeds.values() for one in feed.channel.servers)
    return tuple(dict.fromkeys(one.name for one in found if server.name == one.name or _place_of(one.base_url) == base))


def _place_of(base_url: str) -> tuple[str, str, int | None, str]:
    """Return where a base URL leads, however it is spelt."""
    url = urlsplit(base_url)
    port = url.port or {"http": 80, "https": 443}.get(url.scheme)
    return url.scheme, (url.hostname or "").lower(), port, url.path.rstrip("/")


def is_watched(feeds: Feeds, destination: str) -> bool:
    """Say whether some channel takes the events of the server that a destination is."""
    servers = (feed.channel.listen.fhir.server for feed in feeds.values() if feed.channel.listen.fhir is not None)
    return any(destination in writers_of(feeds, server) for server in servers)


def feeds_of(
    channels: Table[str, Channel],
    mappings: Table[str, Mapping],
    own: Table[tuple[str, str], Mapping],
    edits: Table[tuple[str, str], MessageEdit] | None = None,
    outgoing: Table[tuple[str, str], OutgoingMapping] | None = None,
) -> Feeds:
    """Return the feeds of channels and their compiled mappings; the others: those of channel and destination."""
    return {
        name: Feed(
            channel,
            mappings[name],
            tuple(settings.name for settings in channel.destinations),
            frozenset(settings.name for settings in channel.destinations if settings.required),
            {place: mapping for (channel_name, place), mapping in own.items() if channel_name == name},
            {place: edit for (channel_name, place), edit in (edits or {}).items() if channel_name == name},
            {place: mapping for (channel_name, place), mapping in (outgoing or {}).items() if channel_name == name},
        )
        for name, channel in channels.items()
    }


def charsets_of(feeds: Feeds) -> dict[str, str]:
    """Return the character set that holds on each channel where MSH-18 is empty."""
    return {name: feed.channel.charset for name, feed in feeds.items()}


@dataclass(frozen=True, slots=True)
class PipelineContext:
    """What the listeners and the dispatches of one engine have in common."""

    feeds: Feeds
    handover: Handover
    outcomes: Outcomes
    pauses: Pauses
    merges: MergeRateLimiter
    clock: Callable[[], datetime]
    time: Timekeeper
    changes: ChangeMessages
    other_forms: Callable[[str, Identity], tuple[Identity, ...]] = lambda _name, _identity: ()
