"""One laboratory to which a tenant's orders go: invented (a sandbox), asked by HL7 over MLLP, or given files."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field

from engine.config import pem
from engine.config.model import Frozen, Placed
from engine.config.network import is_loopback
from engine.config.text import BESIDE, FilePath, Host, Uri

SIMULATED: Final = "simulated"
# What each kind needs; all other keys are optional for one kind, and of no use to the others.
NEEDED: Final[Mapping[str, tuple[str, ...]]] = {"simulated": (), "hl7": ("host", "port"), "directory": ("folder",)}
WRITTEN: Final = frozenset(
    {
        *("message", "version", "charset", "processing_id", "authorities", "placer_namespace"),
        *("sending_application", "sending_facility", "receiving_application", "receiving_facility"),
    }
)
LINE: Final = frozenset({"host", "port", "tls", "ca_file", "certificate", "key", "acknowledgement"})
USED: Final[Mapping[str, frozenset[str]]] = {
    "simulated": frozenset({"transmit_delay_s", "results", "result_delay_s"}),
    "hl7": WRITTEN | LINE | {"timeout_s"},
    "directory": WRITTEN | {"folder"},
}
_DELIMITERS: Final = frozenset("|^~\\&#\r\n")


def _part(text: str) -> str:
    if not text.isascii() or not text.isprintable() or _DELIMITERS.intersection(text):
        raise ValueError("ASCII without the delimiters of HL7 (| ^ ~ \\ &)")
    return text


# A component of HL7, escaped as in the message.
Part = Annotated[str, AfterValidator(_part)]


class LaboratoryConnector(Frozen):
    """How orders get to a laboratory: `simulated`, `hl7` (MLLP) or `directory`."""

    type: Literal["simulated", "hl7", "directory"] = Field(
        description="simulated: invented, in a sandbox only; hl7: over MLLP; directory: files in a folder"
    )
    transmit_delay_s: float | None = Field(
        None,
        ge=0,
        le=31_536_000,
        description="when a simulated laboratory takes an order: after 2 s, with test_hooks when /_test/lab says so",
        examples=[2],
    )
    results: bool = Field(default=False, description="a simulated laboratory returns results of its own invention")
    result_delay_s: float = Field(5, ge=0, le=31_536_000, description="how long it takes for them")
    host: Host | None = Field(None, description="where the laboratory listens", examples=["lab.example"])
    port: int | None = Field(None, ge=1, le=65_535, description="its port")
    tls: bool = Field(default=False, description="MLLP over TLS, 1.2 or newer")
    ca_file: FilePath | None = Field(None, description="PEM file of authorities instead of the system's")
    certificate: FilePath | None = Field(
        None, description="PEM file of the certificate by which the service proves itself"
    )
    key: FilePath | None = Field(None, description="PEM file of its private key")
    timeout_s: float = Field(30, gt=0, le=3600, description="longest wait for a connection, and for an answer")
    acknowledgement: Literal["any", "application"] = Field(
        "any", description="any: AA or CA is enough; application: MSH-15 and 16 ask for both, and AA decides"
    )
    message: Literal["OML^O21", "ORM^O01"] = Field("OML^O21", description="what an order is written as")
    version: Literal["2.3", "2.3.1", "2.4", "2.5", "2.5.1"] = Field("2.5.1", description="HL7 version, MSH-12")
    charset: Literal["UNICODE UTF-8", "8859/1", "ASCII"] = Field(
        "UNICODE UTF-8", description="character set, MSH-18; an order with other characters fails"
    )
    processing_id: Literal["P", "T", "D"] | None = Field(
        None, description="MSH-11: by default P in production, T in a sandbox"
    )
    sending_application: Part = Field("CDIS", min_length=1, max_length=180, description="MSH-3")
    sending_facility: Part = Field("", max_length=180, description="MSH-4; by default the tenant's name")
    receiving_application: Part = Field("", max_length=180, description="MSH-5")
    receiving_facility: Part = Field("", max_length=180, description="MSH-6")
    placer_namespace: Part = Field("CDIS", min_length=1, max_length=20, description="who numbers the orders: ORC-2.2")
    authorities: dict[Uri, Part] = Field(
        default_factory=dict,
        description="assigning authority (PID-3.4) by the system of an identifier; by default the system itself",
        examples=[{"https://mrn.example": "RVB"}],
    )
    folder: FilePath | None = Field(None, description="where files of orders are laid")

    def conflicts(self) -> Iterator[Placed]:
        """Yield what the type needs and is not there, and what it does not use."""
        for name in NEEDED[self.type]:
            if not getattr(self, name):
                yield (name,), "missing", f"add it: a connector of type {self.type} needs {name}"
        for name in sorted(self.model_fields_set - USED[self.type] - {"type"}):
            yield (name,), f"given for type {self.type}, which does not use it", f"leave {name} out"
        for name in ("ca_file", "certificate", "key"):
            if getattr(self, name) and not self.tls:
                yield (name,), "given without tls", f"write tls: true, or leave {name} out"
        if (self.certificate is None) != (self.key is None):
            given, lacking = ("certificate", "key") if self.certificate else ("key", "certificate")
            yield (given,), f"given without {lacking}", f"give {lacking} too"
        if self.message == "OML^O21" and self.version in {"2.3", "2.3.1"}:
            yield ("version",), f"found {self.version!r}", "write message: ORM^O01; OML^O21 came with 2.4"

    def warnings(self) -> Iterator[Placed]:
        """Yield a laboratory to which orders go in the clear."""
        if self.type == "hl7" and not self.tls and not is_loopback(self.host or ""):
            yield ("host",), "orders go in the clear", "write tls: true, unless a tunnel protects the line"

    def unavailable(self) -> Iterator[Placed]:
        """Yield files and folders that cannot be used."""
        if self.ca_file is not None:
            yield from pem.authority("ca_file", self.ca_file)
        if self.certificate is not None and self.key is not None:
            yield from pem.pair(self.certificate, self.key)
        if self.folder is not None and not (Path(self.folder).is_dir() and os.access(self.folder, os.W_OK | os.X_OK)):
            yield (
                ("folder",),
                f"{self.folder} is no folder to write to",
                f"name one that the service's user can write to, {BESIDE}",
            )


class Laboratory(Frozen):
    """What the service knows of a laboratory apart from its Organization."""

    connector: LaboratoryConnector
    give_up_s: float = Field(
        86_400,
        gt=0,
        le=31_536_000,
        description="how long a laboratory is tried that cannot be reached, before it is held",
    )


SIMULATED_LABORATORY: Final = Laboratory(connector=LaboratoryConnector(type=SIMULATED))
