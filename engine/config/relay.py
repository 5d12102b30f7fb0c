"""A relay (`type: mllp`): another system to which a channel passes its HL7 v2 messages on, by MLLP."""

from collections.abc import Iterator
from typing import ClassVar, Final, Literal, Self

from pydantic import Field

from engine.config import pem
from engine.config.destination import Retry
from engine.config.fhir_events import Outgoing
from engine.config.model import Frozen, Placed
from engine.config.network import is_loopback
from engine.config.text import FilePath, Host, Line, Name, Word

# Values of `type`, `send`, `order`, `relay` and `control_id`.
MLLP: Final = "mllp"
EDITED: Final = "edited"
FEED: Final = "feed"
ALL: Final = "all"
OWN: Final = "own"


class RelayTls(Frozen):
    """TLS to the receiver, whose certificate is always verified; with a certificate of the engine's own, mutual TLS."""

    ca_file: FilePath | None = Field(None, description="PEM file of a private authority, instead of the system's")
    certificate: FilePath | None = Field(None, description="PEM file of the engine's own certificate, and its chain")
    key: FilePath | None = Field(None, description="PEM file of its private key, without a passphrase")
    server_name: Line = Field("", description="name in the receiver's certificate, where it is not the host")

    def conflicts(self) -> Iterator[Placed]:
        """Yield a certificate without its key, and a key without its certificate."""
        for key, other in (("certificate", "key"), ("key", "certificate")):
            if getattr(self, key) and not getattr(self, other):
                yield (other,), "missing", f"add it: {key} needs {other}"

    def unavailable(self) -> Iterator[Placed]:
        """Yield files that cannot be read or do not fit each other."""
        if self.ca_file is not None:
            yield from pem.authority("ca_file", self.ca_file)
        if self.certificate is not None and self.key is not None:
            yield from pem.pair(self.certificate, self.key)


class EditStep(Frozen):
    """One step of an edit: fields that are set, then segments and fields that are taken out."""

    set: dict[Word, Line] = Field({}, description="field or component to what is written there", examples=[{}])
    remove: tuple[Word, ...] = Field((), description="segments (ZPI), fields (PID-19) and components to take out")
    when: Line = Field("", description="its condition, as in mappings; empty: of every message")

    def conflicts(self) -> Iterator[Placed]:
        """Yield a step that does nothing."""
        if not self.set and not self.remove:
            yield ("set",), "neither set nor remove", "give one of them, or take the step out"


class RelayAcknowledgement(Frozen):
    """How the receiver's answer is waited for, and what follows from it."""

    wait_seconds: float = Field(30, gt=0, le=3600, description="longest wait for the answer")
    on_error: Literal["hold", "retry", "continue"] = Field(
        "hold", description="what follows from AE or CE: held, tried again, or delivered with a note; AR and CR hold"
    )
    on_unknown: Literal["resend", "hold"] = Field(
        "resend",
        description="what follows where the message was sent and no answer came: sent again with the same MSH-10, or "
        "held for a person, for receivers that do not recognise repeats",
    )


class Relay(Frozen):
    """A system that gets a channel's HL7 v2 messages by MLLP."""

    # A FHIR server alone has a mapping of its own.
    mapping: ClassVar[str] = ""
    # Messages are passed on as they are: none says what another one says.
    waits: ClassVar[bool] = False

    name: Name = Field(description="name in states, metrics and pages", examples=["unnamed"])
    type: Literal["fhir", "mllp"] = Field(description="mllp: messages are passed on by MLLP", examples=["mllp"])
    host: Host = Field(description="where the receiver listens", examples=["127.0.0.1"])
    port: int = Field(ge=1, le=65535, description="its TCP port", examples=[2575])
    tls: RelayTls | None = Field(None, description="TLS; without it the line is plain", examples=[{}])
    send: Literal["original", "edited"] = Field(
        "original", description="the bytes that came in, or these with the steps of `edit`"
    )
    edit: tuple[EditStep, ...] = Field((), max_length=100, description="steps, in order")
    control_id: Literal["keep", "own"] = Field(
        "keep", description="MSH-10 as it came in, or a number of the engine's own; search finds both"
    )
    order: Literal["feed", "patient"] = Field(
        "feed",
        description="feed: one after the other as they came in, over one connection; patient: in order for each "
        "patient, over `connections`",
    )
    connections: int = Field(4, ge=1, le=256, description="connections at once, with `order: patient`")
    acknowledgement: RelayAcknowledgement = Field(RelayAcknowledgement(), description="the receiver's answers")
    relay: Literal["accepted", "all"] = Field(
        "accepted",
        description="what is passed on: what the channel delivers, or also what it filters and, with "
        "`unhandled_messages: relay`, messages that the mapping is not for; never what was refused",
    )
    outgoing: Outgoing | None = Field(
        None, description="with listen: fhir, how its messages are made", examples=[{"version": "2.5.1"}]
    )
    connect_seconds: float = Field(10, gt=0, le=600, description="longest wait for a connection")
    retry: Retry = Field(Retry(), description="backoff")
    on_held: Literal["hold-lane", "continue"] = Field(
        "hold-lane", description="whether a held entry holds what follows it: all with `order: feed`, else its patient"
    )
    required: bool = Field(default=True, description="whether `acknowledge: delivered` waits for it")

    def conflicts(self) -> Iterator[Placed]:
        """Yield steps that are not sent, an edit without steps, and connections that are not used."""
        if self.edit and self.send != EDITED:
            yield ("edit",), "steps, though the original is sent", "write send: edited, or take edit out"
        if self.send == EDITED and not self.edit:
            yield ("edit",), "missing", "add a step such as {set: {MSH-5: RIS}}, or write send: original"
        if self.control_id == OWN and self.send != EDITED:
            yield ("control_id",), "own, though the original is sent", "write send: edited, or leave it out"
        if self.order == FEED and "connections" in self.model_fields_set:
            yield ("connections",), "found with order: feed, which has one", "write order: patient, or leave it out"

    def warnings(self) -> Iterator[Placed]:
        """Yield a line in the clear to another machine."""
        if self.tls is None and not is_loopback(self.host):
            yield ("tls",), "missing: messages leave in the clear", "add tls, or use a network that is encrypted"

    @property
    def server(self) -> Self:
        """The relay as every channel that names it describes it: without what a channel's messages are made by."""
        return self.model_copy(update={"outgoing": None}) if self.outgoing is not None else self

    @property
    def concurrency(self) -> int:
        """How many messages are under way at once."""
        return 1 if self.order == FEED else self.connections

    @property
    def in_feed_order(self) -> bool:
        """Whether messages are sent one after the other as they came in, whomever they are about."""
        return self.order == FEED

    @property
    def own_certificate(self) -> str | None:
        """The PEM file of the engine's own certificate, None where it has none."""
        return None if self.tls is None else self.tls.certificate

    @property
    def address(self) -> str:
        """Where the receiver listens, as a URL."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'mllps' if self.tls else 'mllp'}://{host}:{self.port}"
