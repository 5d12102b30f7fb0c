"""A feed (a channel with the mapping in force for it), and what all listeners and dispatches of an engine share."""

from collections.abc import Callable
from collections.abc import Mapping as Table
from dataclasses import dataclass
from datetime import datetime

from engine.config.channel import Channel
from engine.mapping.compile import Mapping
from engine.pipeline.inbound.handover import Handover
from engine.pipeline.inbound.merge_limit import MergeRateLimiter
from engine.pipeline.inbound.outcomes import Outcomes
from engine.pipeline.outbound.pauses import Pauses
from engine.pipeline.outbound.timekeeping import Timekeeper


@dataclass(frozen=True, slots=True)
class Feed:
    """What one channel's messages are judged and mapped with; swapped whole on reload."""

    channel: Channel
    mapping: Mapping
    destinations: tuple[str, ...]
    required: frozenset[str]


Feeds = dict[str, Feed]


def feeds_of(channels: Table[str, Channel], mappings: Table[str, Mapping]) -> Feeds:
    """Return the feeds of channels and their compiled mappings."""
    return {
        name: Feed(
            channel,
            mappings[name],
            tuple(settings.name for settings in channel.destinations),
            frozenset(settings.name for settings in channel.destinations if settings.required),
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
