"""`alerts.yaml` next to the channel files: which alerts open when, and where they are sent."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, ClassVar, Final

from pydantic import AfterValidator, Field

from engine.config import pem
from engine.config.model import Frozen, Placed, nearest
from engine.config.network import encrypted_url
from engine.config.secret import Secret
from engine.config.source import AuthoredFile, Looked, look, scan
from engine.config.text import FilePath
from engine.errors import ConfigurationError, Problem

FILE: Final = "alerts.yaml"
_YEAR: Final = 525_600


class Webhook(Frozen):
    """Where alerts are sent as JSON, without anything of a patient; redirects are not followed."""

    url: Annotated[str, AfterValidator(encrypted_url)] = Field(
        description="https URL that takes a POST", examples=["https://alerts.example"]
    )
    token: Secret | None = Field(None, description="sent as a bearer token")
    ca_file: FilePath | None = Field(None, description="PEM file of a private authority; TLS is always verified")
    timeout_seconds: float = Field(10, gt=0, le=60, description="longest wait for one answer")

    def unavailable(self) -> Iterator[Placed]:
        """Yield an authority that cannot be read."""
        if self.ca_file is not None:
            yield from pem.authority("ca_file", self.ca_file)


class ChannelAlerts(Frozen):
    """Overrides for one channel."""

    no_traffic_minutes: float | None = Field(None, ge=0, le=_YEAR, description="silence that alerts here; 0 never")
    no_sender_minutes: float | None = Field(
        None, ge=0, le=_YEAR, description="time without a connection that alerts; 0 never"
    )


class Alerting(Frozen):
    """When an alert opens; each opens once and clears once."""

    handbook: ClassVar[str] = "adt-engine help alerts"
    webhook: Webhook | None = Field(None, description="where alerts are sent; without it they are logged and shown")
    held_lanes: int = Field(1, ge=1, le=1_000_000, description="held patients of a destination")
    destination_down_seconds: float = Field(
        30, ge=1, le=86_400, description="time without one answer of a destination for which work waits"
    )
    queue_age_minutes: float = Field(
        15, gt=0, le=_YEAR, description="age of the oldest message waiting for a destination"
    )
    queue_depth: int = Field(10_000, ge=1, le=1_000_000_000, description="messages waiting for a destination")
    no_traffic_minutes: float | None = Field(
        None, ge=0, le=_YEAR, description="silence of a channel; empty: as learnt for this hour of the week; 0 never"
    )
    no_sender_minutes: float = Field(
        60, ge=0, le=_YEAR, description="time without any connection to a channel; 0 never"
    )
    error_ratio: float = Field(0.25, gt=0, le=1, description="share of deliveries that fail or are held, in 15 minutes")
    refusal_ratio: float = Field(0.25, gt=0, le=1, description="share of messages refused on arrival, in 15 minutes")
    certificate_days: float = Field(
        30, gt=0, le=3650, description="days before a certificate of ours ends, of a listener or for a destination"
    )
    disk_reserves: float = Field(2, ge=1, le=1_000_000, description="free disk as a multiple of the reserve")
    merge_burst: float = Field(0.5, gt=0, le=1, description="share of `merge_limit` used up by one source")
    log_in_failures: int = Field(20, ge=1, le=1_000_000, description="refused log-ins, of all accounts, in 15 minutes")
    token_failures: int = Field(
        20, ge=1, le=1_000_000, description="calls with a token that is unknown or has ended, in 15 minutes"
    )
    channels: dict[str, ChannelAlerts] = Field({}, description="overrides for single channels")

    def no_traffic_of(self, channel: str) -> float | None:
        """Return the silence of a channel that alerts, in minutes; None for what was learnt, 0 for never."""
        own = self.channels.get(channel, ChannelAlerts()).no_traffic_minutes
        return self.no_traffic_minutes if own is None else own

    def no_sender_of(self, channel: str) -> float:
        """Return how long a channel may be without a connection, in minutes; 0 for ever."""
        own = self.channels.get(channel, ChannelAlerts()).no_sender_minutes
        return self.no_sender_minutes if own is None else own


def look_at_alerting(folder: Path) -> Looked[Alerting]:
    """Read a folder's `alerts.yaml` with every problem in it; without one, the defaults."""
    path = folder / FILE
    if not path.exists():
        return Looked(AuthoredFile(str(path), None, {}), Alerting(), (), frozenset())
    try:
        return look(scan(path), Alerting)
    except ConfigurationError as error:
        return Looked(AuthoredFile(str(path), None, {}), None, error.problems, frozenset())


def unknown_channels(looked: Looked[Alerting], names: frozenset[str]) -> Iterator[Problem]:
    """Yield the channels of an `alerts.yaml` that no channel file describes."""
    for name in looked.value.channels if looked.value else ():
        if name not in names:
            yield looked.source.problem(
                ("channels", name), f"no channel {name!r}", nearest(name, names, "the files of channels")
            )
