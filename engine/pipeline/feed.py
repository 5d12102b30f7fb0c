"""A feed: a channel with the mapping that is in force for it now."""

from collections.abc import Mapping as Table
from dataclasses import dataclass

from engine.config.channel import Channel
from engine.mapping.compile import Mapping


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
