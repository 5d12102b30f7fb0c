"""A channel file as a frozen value: one feed, its door, its policies and its destinations."""

from datetime import timedelta
from enum import StrEnum
from ipaddress import IPv4Network, IPv6Network, ip_address
from typing import Annotated, Any, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from engine.config.secret import Secret


class Frozen(BaseModel):
    """A frozen model that refuses unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)


class Mode(StrEnum):
    """What a channel does with what it plans."""

    LIVE = "live"
    SHADOW = "shadow"
    LOAD = "load"


class AcknowledgementMode(StrEnum):
    """Original or enhanced acknowledgement, or as MSH-15 and MSH-16 say."""

    AUTO = "auto"
    ORIGINAL = "original"
    ENHANCED = "enhanced"


class Tls(Frozen):
    """Server certificate, key, and the authority whose client certificates are asked for."""

    certificate: str
    key: str
    client_ca: str | None = None
    client_names: dict[str, str] = {}


class Mllp(Frozen):
    """Where a channel listens; port 0 takes a free one."""

    host: str = "127.0.0.1"
    port: int = Field(ge=0, le=65535)
    tls: Tls | None = None
    commit_bytes: bool = False


class Listen(Frozen):
    """The doors of a channel."""

    mllp: Mllp


class Limits(Frozen):
    """Bounds that hold whatever comes in."""

    block_bytes: int = Field(1_048_576, ge=1024, le=268_435_456)
    block_seconds: float = Field(30, gt=0)
    idle_seconds: float = Field(0, ge=0)
    connections: int = Field(64, ge=1)
    connections_per_address: int = Field(8, ge=1)
    segments: int = Field(10_000, ge=1)
    repetitions: int = Field(100_000, ge=1)
    unread_reply_bytes: int = Field(65_536, ge=1024)
    in_flight: int = Field(256, ge=1)


class Acknowledge(Frozen):
    """When the application acknowledgement goes out; `within_seconds` bounds `delivered`."""

    when: Literal["stored", "delivered"] = "stored"
    within_seconds: float = Field(20, gt=0)


class MergeLimit(Frozen):
    """How many merges one source may send in how many minutes of event time."""

    merges: int = Field(20, ge=1)
    minutes: float = Field(10, gt=0)


class Retry(Frozen):
    """Backoff with full jitter between the first and the longest wait."""

    first_seconds: float = Field(1, gt=0)
    max_seconds: float = Field(60, gt=0)


class Auth(Frozen):
    """How a destination knows the engine."""

    type: Literal["none", "bearer", "client_credentials", "private_key_jwt", "refresh_token"] = "none"
    token_url: str = ""
    client_id: str = ""
    client_secret: Secret | None = None
    token: Secret | None = None
    refresh_token: Secret | None = None
    private_key: Secret | None = None
    key_id: str = ""
    scope: str = ""

    @model_validator(mode="after")
    def _complete(self) -> "Auth":
        needed = {
            "none": (),
            "bearer": ("token",),
            "client_credentials": ("token_url", "client_id", "client_secret"),
            "private_key_jwt": ("token_url", "client_id", "private_key"),
            "refresh_token": ("token_url", "client_id", "refresh_token"),
        }[self.type]
        missing = [name for name in needed if not getattr(self, name)]
        if missing:
            raise ValueError(f"auth of type {self.type} needs {', '.join(missing)}")
        return self


class Destination(Frozen):
    """One FHIR server that a channel keeps true."""

    name: str = Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")
    fhir: Literal["R4", "STU3"] = "R4"
    base_url: str = Field(pattern=r"^https?://[^\s?#]+$")
    auth: Auth = Auth()
    if_none_exist: str = "identifier"
    concurrency: int = Field(16, ge=1, le=1024)
    retry: Retry = Retry()
    timeout_seconds: float = Field(30, gt=0)
    ca_file: str | None = None
    on_demographic_match: Literal["create", "attach", "hold"] = "create"
    on_held: Literal["hold-lane", "continue"] = "hold-lane"
    required: bool = True
    carry_over: tuple[str, ...] = ()
    merge_strategy: Literal["auto", "merge", "link", "notify-only"] = "auto"


def _zone(name: str) -> str:
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise ValueError(f"{name!r} is no time zone; use a name such as America/New_York") from error
    return name


def _acknowledge(value: Any) -> Any:
    return {"when": value} if isinstance(value, str) else value


Network = IPv4Network | IPv6Network


class Channel(Frozen):
    """One configured feed, as its file says."""

    channel: str = Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")
    listen: Listen
    allow: tuple[Network, ...] = ()
    insecure: Literal["accepted"] | None = None
    acknowledge: Annotated[Acknowledge, BeforeValidator(_acknowledge)] = Acknowledge()
    acknowledgement_mode: AcknowledgementMode = AcknowledgementMode.AUTO
    allow_merge: bool = False
    merge_limit: MergeLimit = MergeLimit()
    processing_ids: tuple[str, ...] = ("P",)
    mapping: str = "adt"
    timezone: Annotated[str, AfterValidator(_zone)] = "UTC"
    authorities: dict[str, str] = {}
    unknown_authority: Literal["base-uri", "refuse"] = "base-uri"
    base_uri: str = "urn:adt-engine:authority:"
    limits: Limits = Limits()
    destinations: tuple[Destination, ...] = Field(min_length=1)
    mode: Mode = Mode.LIVE
    sources: tuple[str, ...] = ()
    version: str = "2.5.1"
    charset: str = "UTF-8"
    undecodable: Literal["refuse", "hold", "replace"] = "refuse"
    conformance: Literal["off", "warn", "refuse"] = "off"
    check_output: Literal["off", "warn", "refuse"] = Field("off", alias="validate")
    stale: Literal["apply", "hold", "skip"] = "apply"
    merge_conflict: Literal["hold", "flag"] = "hold"
    another_person: Literal["flag", "hold"] = "flag"
    unknown_source: Literal["record", "hold", "reject"] = "record"
    unknown_survivor: Literal["create", "rename", "hold"] = "create"
    merged_identifier: Literal["follow", "hold"] = "follow"
    demographics: Literal["replace", "fill"] = "replace"
    placeholder_identifiers: tuple[str, ...] = ()
    unhandled_events: Literal["filter", "refuse"] = "filter"
    contact: str = ""

    @model_validator(mode="after")
    def _safe(self) -> "Channel":
        names = [destination.name for destination in self.destinations]
        if len(set(names)) != len(names):
            raise ValueError("two destinations have the same name")
        mllp = self.listen.mllp
        if not _loopback(mllp.host) and self.insecure is None and (mllp.tls is None or not self.allow):
            raise ValueError(
                f"listening on {mllp.host} needs tls and an allow list, or 'insecure: accepted' where that is meant"
            )
        return self

    @property
    def zone(self) -> ZoneInfo:
        """The time zone of timestamps that carry no offset."""
        return ZoneInfo(self.timezone)

    @property
    def merge_window(self) -> timedelta:
        """The time over which `merge_limit` counts."""
        return timedelta(minutes=self.merge_limit.minutes)


def _loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
