"""A channel's settings for its mapping, as one frozen value: zone, authorities, policies and filters."""

from dataclasses import dataclass, field
from zoneinfo import ZoneInfo

from engine.config.channel import Channel, Filter


@dataclass(frozen=True, slots=True)
class Setting:
    """The channel's settings for a mapping; the defaults are for checks, which need no channel."""

    zone: ZoneInfo = field(default_factory=lambda: ZoneInfo("UTC"))
    authorities: dict[str, str] = field(default_factory=dict)
    refuse_unknown_authority: bool = False
    base_uri: str = "urn:adt-engine:authority:"
    placeholder_identifiers: tuple[str, ...] = ()
    allow_merge: bool = True
    refuse_unhandled: bool = False
    filter_messages: bool = False
    # Not in the repr: the hash of a channel without filters stays as it was before filters existed.
    filters: tuple[Filter, ...] = field(default=(), repr=False)


def setting_of(channel: Channel) -> Setting:
    """Return a channel's settings for its mapping."""
    return Setting(
        zone=channel.zone,
        authorities=dict(channel.authorities),
        refuse_unknown_authority=channel.unknown_authority == "refuse",
        base_uri=channel.base_uri,
        placeholder_identifiers=channel.placeholder_identifiers,
        allow_merge=channel.allow_merge,
        refuse_unhandled=channel.unhandled_events == "refuse",
        filter_messages=channel.unhandled_messages != "refuse",
        filters=channel.filters,
    )
