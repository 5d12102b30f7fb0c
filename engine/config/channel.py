"""A channel file as a frozen value: one feed, its door, filters, retention and destinations."""

import re
from collections.abc import Iterable, Iterator
from datetime import timedelta
from difflib import get_close_matches
from enum import StrEnum
from typing import Annotated, Any, ClassVar, Final, Literal, Self
from zoneinfo import ZoneInfo

from pydantic import AfterValidator, BeforeValidator, Discriminator, Field, Tag

from engine.config.destination import Destination
from engine.config.fhir_events import Outgoing
from engine.config.listener_settings import Limits, Listen
from engine.config.model import TAG, Frozen, Placed, nearest
from engine.config.network import Network, is_loopback
from engine.config.relay import ALL, MLLP, Relay
from engine.config.secret import MappingKey
from engine.config.text import Line, Name, Uri, Word, zone_name

# What each message is held against stays bounded, in a channel file as in an event file.
MOST_FILTERS: Final = 50


class Filter(Frozen):
    """One line: it filters or refuses, or sends to some of the channel's destinations only."""

    rule: Name = Field(
        description="the name under which its messages are journaled, counted and searched", examples=["unnamed"]
    )
    when: Line = Field(description="its condition, as in mappings", examples=["event"])
    do: Literal["filter", "refuse"] | None = Field(
        None, description="filter: accepted (AA) and sent nowhere; refuse: AR 207 with the rule's name"
    )
    send_to: tuple[Name, ...] = Field(
        (), description="in place of do: the destinations that get it, and no others", examples=[["unnamed"]]
    )

    def conflicts(self) -> Iterator[Placed]:
        """Yield a line that does nothing, or two things, and a destination that it names twice."""
        if bool(self.send_to) == (self.do is not None):
            found = f"{self.do} with send_to" if self.do else "missing, and no send_to"
            yield ("do",), found, "give one of do: filter, do: refuse, send_to: [DESTINATION]"
        for number, name in enumerate(self.send_to):
            if name in self.send_to[:number]:
                yield ("send_to", number), f"{name} again", "name each destination once"


_CENTURY: Final = 36_525


class KeptDays(Frozen):
    """Days after the end of a message: its body, and all that is known of it."""

    bodies_days: float = Field(30, ge=0, le=_CENTURY, description="days the message, requests and answers are kept")
    entries_days: float = Field(
        365, ge=0, le=_CENTURY, description="days the entry itself is kept: states, codes, times"
    )

    def conflicts(self) -> Iterator[Placed]:
        """Yield an entry that would go before its body."""
        if self.entries_days < self.bodies_days:
            found = f"{self.entries_days:g}, which is less than bodies_days"
            yield ("entries_days",), found, f"at least {self.bodies_days:g}: an entry stays as long as its body"


class KeptLonger(KeptDays):
    """The same of what a person may still ask about."""

    bodies_days: float = Field(90, ge=0, le=_CENTURY, description="days the message, requests and answers are kept")


class Retention(Frozen):
    """What is kept of messages that ended; unfinished ones are never taken away."""

    delivered: KeptDays = Field(KeptDays(), description="of messages that were delivered")
    filtered: KeptDays = Field(KeptDays(), description="of messages that a rule filtered")
    rejected: KeptLonger = Field(KeptLonger(), description="of messages that were refused")
    discarded: KeptLonger = Field(KeptLonger(), description="of messages that an operator discarded")


# How placeholders of a draft begin.
UNDECIDED: Final = "urn:decide:"
HANDBOOK: Final = "adt-engine help channels"


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


_When = Literal["stored", "delivered"]


class Acknowledge(Frozen):
    """When the application acknowledgement goes out; `within_seconds` bounds `delivered`."""

    when: _When = Field("stored", description="after the commit, or after the destinations")
    within_seconds: float = Field(
        20,
        gt=0,
        le=86_400,
        description="with delivered: after this the answer is AE; the message is stored all the same",
    )


class MergeLimit(Frozen):
    """How many merges one source may send in how many minutes of event time."""

    merges: int = Field(
        20, ge=1, le=1_000_000_000, description="merges of one source; past it the channel's merges are held"
    )
    minutes: float = Field(10, gt=0, le=525_600, description="of event time")


def _did_you_mean(word: str, names: Iterable[str]) -> str:
    near = get_close_matches(word, list(names), n=1)
    return f"; did you mean {near[0]}?" if near else ""


def _source(text: str) -> str:
    if text.count("|") > 1 or not text.isprintable() or text != text.strip() or text.startswith("|") or not text:
        raise ValueError(
            "write a source as MSH-3|MSH-4, such as 'REGISTRATION|RIVERBEND', or MSH-3 for all its facilities"
        )
    if parts := re.search(r"[\^~&]", text):
        # Held against whole names, it would fit no message.
        raise ValueError(f"{parts[0]!r} does not part MSH-3 from MSH-4; write them as 'REGISTRATION|RIVERBEND'")
    return text


# Trigger events of ADT, A01 to A62.
_TRIGGER: Final = re.compile(r"A(0[1-9]|[1-5]\d|6[0-2])")

# Names of HL7 table 0211 that are no names of Python codecs.
_TABLE_0211: Final = frozenset(
    {"UNICODE", "UNICODE UTF-8", "ISO IR14", "ISO IR87", "ISO IR159", "GB 18030-2000", "KS X 1001", "BIG-5"}
) | frozenset(f"8859/{part}" for part in (*range(1, 10), 15))

# Names of Python codecs that feeds use, for hints.
_PYTHON: Final = ("UTF-8", "ASCII", "ISO-8859-1", "ISO-8859-15", "cp1252", "UTF-16")


def _charset(name: str) -> str:
    try:
        known = name in _TABLE_0211 or bool("MSH".encode(name))
    except (LookupError, UnicodeError):
        known = False
    if not known:
        hint = _did_you_mean(name, (*_TABLE_0211, *_PYTHON)) or "; use a name of table 0211 such as '8859/1', or UTF-8"
        raise ValueError(f"{name!r} is no character set{hint}")
    return name


def _authority(name: str) -> str:
    if not name.isprintable() or name != name.strip() or any(mark in name for mark in "&~|") or name.count("^") > 1:
        raise ValueError("write CX.4.1 or CX.4.2 alone, such as RVB or 2.16.840.1; RVB^VN for numbers of one type")
    return name


def _event(name: str) -> str:
    if not _TRIGGER.fullmatch(name):
        raise ValueError("a trigger event of ADT such as A01, at most A62")
    return name


def _acknowledge(value: Any) -> Any:
    return {"when": value} if isinstance(value, str) else value


# What means something in a channel that takes the events of a FHIR server: all else is about messages that come in.
_OF_EVENTS: Final = frozenset(
    {"channel", "listen", "allow", "timezone", "authorities", "base_uri", "limits", "destinations", "mode", "retention",
     "contact"}
)  # fmt: skip
# Keys of a relay about messages that come in.
_OF_MESSAGES: Final = ("send", "edit", "control_id", "relay")

_FHIR_TAG: Final = f"{TAG}fhir"
_MLLP_TAG: Final = f"{TAG}{MLLP}"


def _kind(value: Any) -> str:
    """Return the tag of a destination as it is written: mllp, or nearly, or with a host and no base URL."""
    if not isinstance(value, dict):
        return _MLLP_TAG if isinstance(value, Relay) else _FHIR_TAG
    near = get_close_matches(str(value.get("type", "")).lower(), ("fhir", MLLP), n=1)
    mllp = near == [MLLP] or (not near and "host" in value and "base_url" not in value)
    return _MLLP_TAG if mllp else _FHIR_TAG


# A FHIR server, or with `type: mllp` a system that gets the messages themselves.
AnyDestination = Annotated[
    Annotated[Destination, Tag(_FHIR_TAG)] | Annotated[Relay, Tag(_MLLP_TAG)], Discriminator(_kind)
]
ProcessingId = Literal["P", "T", "D"]
Version = Literal[
    "2.1", "2.2", "2.3", "2.3.1", "2.4", "2.5", "2.5.1", "2.6", "2.7", "2.7.1", "2.8", "2.8.1", "2.8.2", "2.9", "2.9.1"
]


class Channel(Frozen):
    """One configured feed, as its file says."""

    handbook: ClassVar[str] = HANDBOOK
    channel: Name = Field(description="the feed's name", examples=["unnamed"])
    listen: Listen = Field(description="where it listens", examples=[{"mllp": {"port": 0}}])
    allow: tuple[Network, ...] = Field((), description="networks that may connect, as CIDR", examples=[["127.0.0.0/8"]])
    insecure: Literal["accepted"] | None = Field(
        None,
        description="confirms that a listener beyond loopback without tls or allow is intended",
        examples=["accepted"],
    )
    acknowledge: Annotated[Acknowledge, BeforeValidator(_acknowledge, json_schema_input_type=_When | Acknowledge)] = (
        Field(Acknowledge(), description="when the application acknowledgement goes out")
    )
    acknowledgement_mode: AcknowledgementMode = Field(
        AcknowledgementMode.AUTO, description="auto does as MSH-15 and MSH-16 ask"
    )
    allow_merge: bool = Field(
        default=False, description="whether merge events may merge; else they are refused (AR 201)"
    )
    merge_limit: MergeLimit = Field(MergeLimit(), description="how many merges in how long")
    processing_ids: tuple[ProcessingId, ...] = Field(
        ("P",), min_length=1, description="values of MSH-11 accepted here; empty counts as P"
    )
    mapping: Word = Field("adt", description="name of the mapping")
    timezone: Annotated[str, AfterValidator(zone_name)] = Field(
        "UTC", description="time zone of timestamps without an offset"
    )
    authorities: dict[Annotated[str, AfterValidator(_authority)], Uri] = Field(
        {}, description='assigning authority (CX.4) to identifier system; "" where CX.4 is empty'
    )
    unknown_authority: Literal["base-uri", "refuse"] = Field(
        "base-uri", description="an authority that is not listed gets a system made of base_uri, or AE 204"
    )
    base_uri: Uri = Field("urn:adt-engine:authority:", description="start of the system of unlisted authorities")
    keys: dict[Name, MappingKey] = Field(
        {}, description="keys that the mapping names in hash and shift-days: {env: NAME} or {file: PATH} of each"
    )
    limits: Limits = Field(Limits(), description="bounds of the listener")
    destinations: tuple[AnyDestination, ...] = Field(
        min_length=1,
        description="FHIR servers, and systems that get the messages themselves (type: mllp)",
        examples=[[{"name": "unnamed", "base_url": "https://fhir.example"}]],
    )
    filters: tuple[Filter, ...] = Field(
        (), max_length=MOST_FILTERS, description="what becomes of messages by what they say; the first that holds"
    )
    mode: Mode = Field(
        Mode.LIVE,
        description="shadow: everything but the writes; load: an initial load, without merge_limit and look-ups",
    )
    sources: tuple[Annotated[str, AfterValidator(_source)], ...] = Field(
        (), description="who may send, as MSH-3|MSH-4 or MSH-3 alone; empty: everyone"
    )
    version: Version = Field("2.5.1", description="HL7 version where MSH-12 is empty")
    event_from_evn: bool = Field(
        default=False,
        description="whether EVN-1 says the event where MSH-9.2 is empty, in any version; before 2.3 it always does",
    )
    charset: Annotated[str, AfterValidator(_charset)] = Field(
        "UTF-8", description="character set where MSH-18 is empty"
    )
    undecodable: Literal["refuse", "hold", "replace"] = Field(
        "refuse", description="what to do with bytes that are not in the character set"
    )
    conformance: Literal["off", "warn", "refuse"] = Field(
        "off", description="check against the version's tables: counted on the entry, or refused (AE 100 to 103)"
    )
    not_a_segment: Literal["note", "refuse"] = Field(
        "note", description="what to do with a line that is no segment: noted on the entry, or refused (AE 100)"
    )
    check_output: Literal["off", "warn", "refuse"] = Field(
        "off", alias="validate", description="what is sent against the FHIR schema: noted on the entry, or held"
    )
    stale: Literal["apply", "hold", "skip"] = Field(
        "apply", description="what to do with an update older than what was applied"
    )
    merge_conflict: Literal["hold", "flag"] = Field(
        "hold", description="what to do with a merge of two records that look like two people"
    )
    another_person: Literal["flag", "hold"] = Field(
        "flag", description="what to do with an update that looks like another person than the record"
    )
    unknown_source: Literal["record", "hold", "reject"] = Field(
        "record", description="what to do with a merge whose old number is unknown"
    )
    unknown_survivor: Literal["create", "rename", "hold"] = Field(
        "create", description="what to do with a merge whose surviving number is unknown"
    )
    merged_identifier: Literal["follow", "hold"] = Field(
        "follow",
        description="what to do with an event that names a number out of use: merged away, or an old one of its record",
    )
    visit_reuse: Literal["reopen", "hold"] = Field(
        "reopen", description="what to do with an admission under the number of a visit that is over"
    )
    retire: Literal["status", "delete"] = Field(
        "status",
        description="how to take back what is no longer listed (AL1, DG1 ...); delete where the server allows it",
    )
    deleted_person: Literal["inactive", "delete"] = Field(
        "inactive",
        description="what becomes of a person's record that is deleted (A29); delete where the server allows it, "
        "with the whole chart where the server says it can",
    )
    demographics: Literal["replace", "fill"] = Field(
        "replace", description="fill writes only what is empty, of patient and visit"
    )
    placeholder_identifiers: tuple[Word, ...] = Field(
        (), description="more numbers that identify nobody (whole values)"
    )
    unhandled_events: Literal["filter", "refuse"] = Field(
        "filter", description="what to do with events that have no rule: accept and not route, or AR 201"
    )
    unhandled_messages: Literal["refuse", "filter", "relay"] = Field(
        "refuse",
        description="what to do with messages that the mapping is not for (of `adt` all but ADT): AR 200, accept and "
        "not route, or accept and pass on to destinations with `relay: all`",
    )
    lookup_on: tuple[Annotated[str, AfterValidator(_event)], ...] = Field(
        (),
        description="events after whose delivery the destination is asked to look the patient up on the networks "
        "($p360-retrieve)",
        examples=[["A01", "A02", "A03"]],
    )
    lookup_max_age_hours: float = Field(
        24, gt=0, le=876_000, description="no look-up for an event that is older, and none is tried for longer"
    )
    retention: Retention = Field(Retention(), description="how long messages that ended are kept")
    contact: Line = Field("", description="whom to call about this feed")

    def undecided(self) -> Iterator[Placed]:
        """Yield the systems of numbers that a draft left open."""
        for name, system in self.authorities.items():
            if system.startswith(UNDECIDED):
                yield ("authorities", name), f"the placeholder {system}", "write the URI of these numbers"

    def conflicts(self) -> Iterator[Placed]:
        """Yield two destinations or filters of one name, filters that send nowhere, and a listener open to others."""
        names = [destination.name for destination in self.destinations]
        for number, name in enumerate(names):
            if name in names[:number]:
                yield (
                    ("destinations", number, "name"),
                    f"the name {name} again",
                    "there are two destinations; rename one",
                )
        rules = [one.rule for one in self.filters]
        for number, one in enumerate(self.filters):
            if one.rule in rules[:number]:
                yield ("filters", number, "rule"), f"the name {one.rule} again", "there are two filters; rename one"
            for place, name in enumerate(one.send_to):
                if name not in names:
                    yield (
                        ("filters", number, "send_to", place),
                        f"no destination {name!r}",
                        nearest(name, names, "destinations"),
                    )
        if self.unhandled_messages == "relay" and not any(relay.relay == ALL for relay in self.relays):
            found = "relay, and no destination with relay: all"
            yield ("unhandled_messages",), found, "write relay: all at a destination of type mllp, or filter here"
        if self.open_to_all and self.insecure is None:
            host = self.listen.mllp.host if self.listen.mllp else ""
            needed = f"listening on {host} needs tls and an allow list"
            expected = f"{needed}: add them, or write 'insecure: accepted' where that is meant"
            yield ("listen", "mllp", "host"), f"found {host!r}", expected
        yield from self._conflicts_of_events()

    def _conflicts_of_events(self) -> Iterator[Placed]:
        """Yield what does not go with the events of a FHIR server, or is of use with them alone."""
        if self.listen.fhir is None:
            for number, one in enumerate(self.destinations):
                if isinstance(one, Relay) and one.outgoing is not None:
                    expected = "write listen: {fhir: ...}, or leave outgoing out"
                    yield ("destinations", number, "outgoing"), "found on a channel that takes HL7 v2", expected
            return
        server = self.listen.fhir.server.name
        if server in {one.name for one in self.relays}:
            found = f"{server}, which is a destination of type: mllp"
            yield ("listen", "fhir", "server", "name"), found, "give the FHIR server a name of its own"
        for key in sorted(self.model_fields_set - _OF_EVENTS):
            yield (key,), "found with listen: fhir, whose events have no such thing", f"leave {key} out"
        if self.mode is Mode.LOAD:
            yield ("mode",), "load, of a FHIR server's events", "write live or shadow"
        for number, one in enumerate(self.destinations):
            if isinstance(one, Destination):
                expected = "give a destination of type: mllp; what a FHIR server gets comes in by MLLP or HTTP"
                yield ("destinations", number, "name"), "a FHIR server, with listen: fhir", expected
                continue
            for key in _OF_MESSAGES:
                if key in one.model_fields_set:
                    found = "found with listen: fhir, whose messages are the engine's own"
                    yield ("destinations", number, key), found, f"leave {key} out; see outgoing"

    @property
    def servers(self) -> tuple[Destination, ...]:
        """The destinations that are FHIR servers."""
        return tuple(one for one in self.destinations if isinstance(one, Destination))

    @property
    def relays(self) -> tuple[Relay, ...]:
        """The destinations that get the messages themselves."""
        return tuple(one for one in self.destinations if isinstance(one, Relay))

    def relay_of(self, destination: str) -> Relay | None:
        """Return the relay of a name, None where there is none."""
        return next((one for one in self.relays if one.name == destination), None)

    def mapping_at(self, destination: str) -> str:
        """Return the name of the mapping that plans what is written to a destination."""
        return next((one.mapping for one in self.destinations if one.name == destination), "") or self.mapping

    def at(self, destination: str) -> Self:
        """Return the channel as its mapping for a destination is compiled: without filters where that has its own.

        Filters hold when a message comes in, by the channel's mapping; not for what is written.
        """
        name = self.mapping_at(destination)
        return self if name == self.mapping else self.model_copy(update={"mapping": name, "filters": ()})

    @property
    def own_mappings(self) -> dict[str, str]:
        """The mappings of destinations that have another than the channel's, by the destination's name."""
        return {one.name: one.mapping for one in self.destinations if one.mapping not in {"", self.mapping}}

    @property
    def outgoing_mappings(self) -> dict[str, str]:
        """The mappings by which relays are told of a FHIR server's events, by the relay's name."""
        if self.listen.fhir is None:
            return {}
        return {one.name: (one.outgoing or Outgoing()).mapping for one in self.relays}

    @property
    def open_to_all(self) -> bool:
        """Whether other machines can reach its listener without TLS, or without being on a list."""
        mllp = self.listen.mllp
        return mllp is not None and not is_loopback(mllp.host) and (mllp.tls is None or not self.allow)

    @property
    def zone(self) -> ZoneInfo:
        """The time zone of timestamps that carry no offset."""
        return ZoneInfo(self.timezone)

    def reads_evn(self, journaled: str = "") -> bool:
        """Say whether EVN-1 gives the event of a message without MSH-9.2, in any version.

        `journaled`: the event that the journal has of the message, empty where it does not stand there. What was taken
        in keeps its event, whatever the channel says of EVN-1 by now.
        """
        return self.event_from_evn or bool(journaled)

    @property
    def lookup_max_age(self) -> timedelta:
        """The age of an event from which nobody is looked up because of it."""
        return timedelta(hours=self.lookup_max_age_hours)

    @property
    def merge_window(self) -> timedelta:
        """The time over which `merge_limit` counts."""
        return timedelta(minutes=self.merge_limit.minutes)
