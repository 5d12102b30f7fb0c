"""The way back: a channel of the events of a FHIR server, and the HL7 v2 messages that its relays get of them."""

from collections.abc import Iterator
from typing import Annotated, Final, Literal, get_args
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo

from pydantic import AfterValidator, Field

from engine.config.destination import Destination
from engine.config.model import Frozen, Placed
from engine.config.network import is_loopback
from engine.config.secret import Secret
from engine.config.text import Line, Name, UrlOrEmpty, Word, zone_name

# Values of `source`.
WEBHOOK: Final = "webhook"
SUBSCRIPTION: Final = "subscription"
HISTORY: Final = "history"

FhirType = Literal["Patient", "Encounter"]
# What a mapping may send: those whose structures the outgoing mapping is checked against.
OutgoingVersion = Literal["2.3", "2.3.1", "2.4", "2.5", "2.5.1", "2.6", "2.7", "2.7.1", "2.8"]
# Names of HL7 table 0211 that need no switches within a message.
CharacterSet = Literal[
    "ASCII", "8859/1", "8859/2", "8859/3", "8859/4", "8859/5", "8859/6", "8859/7", "8859/8", "8859/9", "8859/15",
    "GB 18030-2000", "KS X 1001", "BIG-5", "UNICODE UTF-8",
]  # fmt: skip


def _zone_or_empty(name: str) -> str:
    return zone_name(name) if name else ""


class FhirEvents(Frozen):
    """The events of a FHIR server: who brings them, and the server that is asked for what they refer to."""

    path: Name = Field(
        description="the last part of the URL that takes them, /fhir/events/PATH on the address of the pages",
        examples=["unnamed"],
    )
    server: Destination = Field(
        description="the FHIR server: its keys are those of a destination; of one that is a destination, too, write "
        "the same name",
        examples=[{"name": "unnamed", "base_url": "https://fhir.example/R4"}],
    )
    source: Literal["webhook", "subscription", "history"] = Field(
        WEBHOOK,
        description="webhook: somebody has made a Subscription there; subscription: the engine makes and keeps one of "
        "each type, and asks for the history each minute, for what was not sent and for deletions; "
        "history: the engine asks for the history of each type, in order and with deletions",
    )
    types: tuple[FhirType, ...] = Field(
        get_args(FhirType), min_length=1, description="resource types whose events are asked for"
    )
    every_seconds: float = Field(2, ge=0.1, le=3600, description="with history: how often it is asked for")
    endpoint: UrlOrEmpty = Field(
        "",
        description="with subscription: this engine's own address as the server reaches it, without the path",
        examples=["https://hub.example:8443"],
    )
    token: Secret | None = Field(
        None, description="with subscription: the API token that the server is to send; {env: NAME} or {file: PATH}"
    )

    def conflicts(self) -> Iterator[Placed]:
        """Yield keys that `source` does not use, and those that it needs."""
        needed = self.source == SUBSCRIPTION
        for key in ("endpoint", "token"):
            if needed and not getattr(self, key):
                yield (key,), "missing", f"add it: source: {SUBSCRIPTION} needs {key}"
            elif not needed and getattr(self, key):
                yield (key,), f"found with source: {self.source}", f"write source: {SUBSCRIPTION}, or leave it out"
        if self.source != HISTORY and "every_seconds" in self.model_fields_set:
            yield ("every_seconds",), f"found with source: {self.source}", f"write source: {HISTORY}, or leave it out"
        for number, name in enumerate(self.types):
            if name in self.types[:number]:
                yield ("types", number), f"{name} again", "name each type once"

    def warnings(self) -> Iterator[Placed]:
        """Yield an endpoint to which patients' data comes in the clear."""
        to = urlsplit(self.endpoint)
        if to.scheme == "http" and not is_loopback(to.hostname or ""):
            yield ("endpoint",), f"{self.endpoint}: events come in the clear", "use https://"


class Outgoing(Frozen):
    """How the messages are made that a relay gets of the events of a FHIR server."""

    mapping: Word = Field("adt", description="name of the outgoing mapping, out/NAME.yaml")
    version: OutgoingVersion = Field("2.5.1", description="HL7 version of the messages")
    charset: CharacterSet = Field("UNICODE UTF-8", description="their character set, as in HL7 table 0211 (MSH-18)")
    sending_application: Line = Field("", description="MSH-3")
    sending_facility: Line = Field("", description="MSH-4")
    receiving_application: Line = Field("", description="MSH-5")
    receiving_facility: Line = Field("", description="MSH-6")
    processing_id: Literal["P", "T", "D"] = Field("P", description="MSH-11")
    timezone: Annotated[str, AfterValidator(_zone_or_empty)] = Field(
        "", description="time zone of their timestamps; empty: the channel's"
    )
    except_from: tuple[Name, ...] | None = Field(
        None,
        description="channels whose own changes are not sent here: those that the engine wrote for a feed; without it "
        "those of every channel, [] sends them all",
        examples=[["unnamed"]],
    )

    def leaves_out(self, channel: str) -> bool:
        """Say whether a change that the engine made for a channel is not sent here."""
        return self.except_from is None or channel in self.except_from

    def zone(self, of_channel: ZoneInfo) -> ZoneInfo:
        """Return the time zone of timestamps."""
        return ZoneInfo(self.timezone) if self.timezone else of_channel
