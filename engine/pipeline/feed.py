"""A feed: a channel with the mapping that is in force for it now."""

from dataclasses import dataclass

from engine.config.channel import Channel
from engine.mapping.compile import Mapping
from engine.pipeline.merge_limit import MergeLimit


@dataclass(frozen=True, slots=True)
class Feed:
    """What one channel's messages are judged and mapped with; swapped whole on reload."""

    channel: Channel
    mapping: Mapping
    merge_limit: MergeLimit
    destinations: tuple[str, ...]
    required: frozenset[str]


Feeds = dict[str, Feed]
