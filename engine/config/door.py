"""The doors of a channel: where it listens, with which certificates, and the bounds that hold there."""

from typing import Annotated

from pydantic import AfterValidator, Field, model_validator

from engine.config.frozen import Frozen
from engine.config.name import check_name


class Tls(Frozen):
    """Server certificate, key, and the authority whose client certificates are asked for."""

    certificate: str = Field(description="PEM file of the server's certificate chain")
    key: str = Field(description="PEM file of the server's private key")
    client_ca: str | None = Field(None, description="PEM file of the authority whose client certificates are required")
    client_names: dict[str, str] = Field({}, description="certificate subject name to source name")


class Mllp(Frozen):
    """Where a channel listens; port 0 takes a free one."""

    host: str = Field("127.0.0.1", description="address to listen on; beyond loopback needs tls and allow")
    port: int = Field(ge=0, le=65535, description="TCP port; 0 takes a free one")
    tls: Tls | None = Field(None, description="certificates; without them the line is plain")
    commit_bytes: bool = Field(default=False, description="answer each block with the commit byte of MLLP release 2")


class Http(Frozen):
    """The HTTP door of a channel: `POST /hl7/v2/<path>` on the address of the operators' pages, for API tokens."""

    path: Annotated[str, AfterValidator(check_name)] = Field(description="the last part of the URL")


class Listen(Frozen):
    """The doors of a channel, one or both."""

    mllp: Mllp | None = Field(None, description="the MLLP listener")
    http: Http | None = Field(None, description="the HTTP door, beside it or alone")

    @model_validator(mode="after")
    def _some(self) -> "Listen":
        if self.mllp is None and self.http is None:
            raise ValueError("a channel listens by mllp, by http, or by both")
        return self


class Limits(Frozen):
    """Bounds that hold whatever comes in."""

    block_bytes: int = Field(1_048_576, ge=1024, le=268_435_456, description="largest block taken")
    block_seconds: float = Field(30, gt=0, description="longest time from the first to the last byte of a block")
    idle_seconds: float = Field(0, ge=0, description="close a connection that is silent so long; 0 never")
    connections: int = Field(64, ge=1, description="connections at once")
    connections_per_address: int = Field(8, ge=1, description="connections at once from one address")
    segments: int = Field(10_000, ge=1, description="segments of one message")
    repetitions: int = Field(100_000, ge=1, description="repetitions in one message")
    unread_reply_bytes: int = Field(
        65_536, ge=1024, description="replies that the sender has not read before reading stops"
    )
    in_flight: int = Field(
        256, ge=1, description="messages of one connection that await their reply before reading stops"
    )
