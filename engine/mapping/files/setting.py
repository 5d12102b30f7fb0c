"""A channel's settings for its mapping, as one frozen value: zone, authorities, policies, filters and keys."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol
from zoneinfo import ZoneInfo

from engine.config.channel import Channel, Filter
from engine.config.secret import Secret


class ReadableKey(Protocol):
    """A key that a mapping names."""

    def read(self) -> str:
        """Return its text; LookupError names the reference, never the text."""


class TestSecret(Secret):
    """A key whose text is known to everyone: the same in each test."""

    __test__ = False
    name: str = ""

    def read(self) -> str:
        """Return the text."""
        return f"adt-engine test key {self.name}"


class TestKeys(dict[str, Secret]):
    """The keys of checks and cases, which need no secret: any name has one."""

    __test__ = False

    def __contains__(self, name: object) -> bool:
        """Any name is known."""
        return True

    def __missing__(self, name: str) -> Secret:
        """Return the key of a name."""
        return TestSecret.model_construct(name=name)


TEST_KEYS: Final = TestKeys()


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
    # Nor is this one: the hash of a channel without keys stays as it was before keys existed.
    keys: Mapping[str, ReadableKey] = field(default_factory=lambda: TEST_KEYS, repr=False)

    @property
    def text(self) -> str:
        """All settings as text, for hashes; of keys what they refer to, never a secret."""
        return f"{self!r}{self.filters or ''}{dict(self.keys) or ''}"


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
        keys=channel.keys,
    )
