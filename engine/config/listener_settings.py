"""The settings of a channel's listeners: address, certificates and limits."""

import re
from collections.abc import Iterator
from typing import Final

from pydantic import Field

from engine.config import pem
from engine.config.fhir_events import FhirEvents
from engine.config.model import Frozen, Placed
from engine.config.text import FilePath, Host, Name, Word

_FINGERPRINT: Final = re.compile(r"sha256:[0-9a-f]{64}")
_DAY: Final = 86_400
# More than any machine takes; what is larger is a slip of the pen.
_MANY: Final = 1_000_000


class Tls(Frozen):
    """Server certificate, key, and the authority whose client certificates are asked for."""

    certificate: FilePath = Field(description="PEM file of the server's certificate chain", examples=["server.pem"])
    key: FilePath = Field(description="PEM file of the server's private key", examples=["server.key"])
    client_ca: FilePath | None = Field(
        None, description="PEM file of the authority whose client certificates are required", examples=["clients.pem"]
    )
    client_names: dict[Word, Word] = Field({}, description="certificate subject name to source name")

    def conflicts(self) -> Iterator[Placed]:
        """Yield names of certificates that nobody asks for, and fingerprints that are none."""
        if self.client_names and not self.client_ca:
            yield (
                ("client_names",),
                "found without client_ca",
                "give client_ca too: without it no certificate is asked for",
            )
        for name in self.client_names:
            if name.startswith("sha256:") and not _FINGERPRINT.fullmatch(name):
                yield ("client_names", name), f"found {name!r}", "write sha256: and 64 hexadecimal digits in lower case"

    def unavailable(self) -> Iterator[Placed]:
        """Yield files that cannot be read or do not fit each other."""
        yield from pem.pair(self.certificate, self.key)
        if self.client_ca is not None:
            yield from pem.authority("client_ca", self.client_ca)


class Mllp(Frozen):
    """Where a channel listens; port 0 takes a free one."""

    host: Host = Field("127.0.0.1", description="address to listen on; beyond loopback needs tls and allow")
    port: int = Field(ge=0, le=65535, description="TCP port; 0 picks a free one", examples=[0])
    tls: Tls | None = Field(
        None,
        description="certificates; without them the line is plain",
        examples=[{"certificate": "server.pem", "key": "server.key"}],
    )
    commit_bytes: bool = Field(default=False, description="answer each block with the commit byte of MLLP release 2")
    reuse_port: bool = Field(
        default=False, description="share the port with other nodes on this machine, which then take turns at it"
    )


class Http(Frozen):
    """The HTTP door of a channel: `POST /hl7/v2/<path>` on the address of the operators' pages, for API tokens."""

    path: Name = Field(description="the last part of the URL", examples=["unnamed"])


class Listen(Frozen):
    """The doors of a channel: MLLP, HTTP or both; or the events of a FHIR server."""

    mllp: Mllp | None = Field(None, description="the MLLP listener")
    http: Http | None = Field(None, description="the HTTP listener, with MLLP or alone")
    fhir: FhirEvents | None = Field(
        None,
        description="the events of a FHIR server, which become HL7 v2 messages; alone",
        examples=[{"path": "unnamed", "server": {"name": "unnamed", "base_url": "https://fhir.example/R4"}}],
    )

    def conflicts(self) -> Iterator[Placed]:
        """Yield a channel without any door, and one that takes messages and events."""
        messages = self.mllp is not None or self.http is not None
        if not messages and self.fhir is None:
            yield (), "found neither mllp, http nor fhir", "add one: mllp, http or both for HL7 v2, or fhir for events"
        if messages and self.fhir is not None:
            yield ("fhir",), "found with mllp or http", "give the events a channel of their own"


class Limits(Frozen):
    """Bounds that hold whatever comes in."""

    block_bytes: int = Field(1_048_576, ge=1024, le=268_435_456, description="largest block accepted")
    block_seconds: float = Field(
        30, gt=0, le=_DAY, description="longest time from the first to the last byte of a block"
    )
    idle_seconds: float = Field(
        0, ge=0, le=_DAY, description="close a connection that has been silent this long; 0 never"
    )
    connections: int = Field(64, ge=1, le=_MANY, description="connections at once")
    connections_per_address: int = Field(8, ge=1, le=_MANY, description="connections at once from one address")
    segments: int = Field(10_000, ge=1, le=_MANY, description="segments of one message")
    repetitions: int = Field(100_000, ge=1, le=_MANY, description="repetitions in one message")
    identities: int = Field(500, ge=1, le=_MANY, description="numbers of patients in one message")
    unread_reply_bytes: int = Field(
        65_536, ge=1024, le=268_435_456, description="replies the sender has not read, past which reading stops"
    )
    in_flight: int = Field(
        256, ge=1, le=_MANY, description="messages of one connection awaiting a reply, past which reading stops"
    )
