"""One source of patients' records outside of the interchange service: another FHIR server, or a folder."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, Literal

from pydantic import Field

from engine.config import pem
from engine.config.model import Frozen, Placed
from engine.config.network import in_the_clear
from engine.config.secret import Secret
from engine.config.text import BESIDE, FilePath, Line, UriOrEmpty, UrlOrEmpty

# What each kind needs; all other keys are optional for one kind, and of no use to the other.
NEEDED: Final[Mapping[str, tuple[str, ...]]] = {"fhir": ("url",), "directory": ("folder",)}
USED: Final[Mapping[str, frozenset[str]]] = {
    "fhir": frozenset({"url", "version", "auth", "ca_file"}),
    "directory": frozenset({"folder", "identifier_system"}),
}
BOTH: Final = frozenset({"type", "organization", "timeout_s"})


class ConnectorAuth(Frozen):
    """How the service proves itself to another FHIR server: OAuth2 client credentials, by secret or by signed key."""

    token_url: UrlOrEmpty = Field("", description="its token endpoint", examples=["https://other.example/token"])
    client_id: Line = Field("", description="the service's name there")
    client_secret: Secret | None = Field(None, description="what proves it: {env: NAME} or {file: PATH}")
    private_key: Secret | None = Field(None, description="or a PEM key that signs (SMART backend services)")
    method: Literal["post", "basic"] = Field(
        "post", description="how client_secret is sent: in the form, or in the Authorization header"
    )
    key_id: Line = Field("", description="`kid` of the private key")
    scope: Line = Field("", description="scopes asked for, separated by spaces")

    @property
    def given(self) -> bool:
        """Whether there is anything to prove."""
        return bool(self.token_url)

    def conflicts(self) -> Iterator[Placed]:
        """Yield what does not make one way of proving it."""
        given = [name for name in ("client_id", "client_secret", "private_key") if getattr(self, name)]
        if self.given and not self.client_id:
            yield ("client_id",), "missing", "add it: a token endpoint wants to know who asks"
        if self.given and (self.client_secret is None) == (self.private_key is None):
            yield ("token_url",), "none or both of client_secret and private_key", "give one of them"
        if self.method == "basic" and self.client_secret is None:
            yield ("method",), "basic without client_secret", "give client_secret too, or leave method out"
        if given and not self.given:
            yield (given[0],), "given without token_url", "give token_url too"

    def warnings(self) -> Iterator[Placed]:
        """Yield a token endpoint that is asked in the clear."""
        yield from in_the_clear("token_url", self.token_url)


class Connector(Frozen):
    """One source: another FHIR server (`fhir`), or a folder in which documents are laid (`directory`)."""

    type: Literal["fhir", "directory"] = Field(description="fhir: another FHIR server; directory: a folder")
    organization: Line = Field("", description="whose documents these are; the connector's name by default")
    timeout_s: float = Field(60, gt=0, le=3600, description="longest it may take for one patient")
    url: UrlOrEmpty = Field("", description="base of the FHIR server", examples=["https://other.example/fhir/R4"])
    version: Literal["R4", "STU3"] = Field("R4", description="FHIR version at that base")
    auth: ConnectorAuth = ConnectorAuth()
    ca_file: FilePath | None = Field(None, description="PEM file of authorities instead of the system's")
    folder: FilePath | None = Field(None, description="documents, or a folder of them for each patient's identifier")
    identifier_system: UriOrEmpty = Field("", description="system of the identifiers that name folders; '' any")

    def conflicts(self) -> Iterator[Placed]:
        """Yield what the type needs and is not there, and what it does not use."""
        for name in NEEDED[self.type]:
            if not getattr(self, name):
                yield (name,), "missing", f"add it: a connector of type {self.type} needs {name}"
        for name in sorted(self.model_fields_set - USED[self.type] - BOTH):
            yield (name,), f"given for type {self.type}, which does not use it", f"leave {name} out"

    def warnings(self) -> Iterator[Placed]:
        """Yield a server that is asked in the clear."""
        yield from in_the_clear("url", self.url)

    def unavailable(self) -> Iterator[Placed]:
        """Yield files and folders that cannot be read."""
        if self.ca_file is not None:
            yield from pem.authority("ca_file", self.ca_file)
        if self.folder is not None and not (Path(self.folder).is_dir() and os.access(self.folder, os.R_OK | os.X_OK)):
            yield (
                ("folder",),
                f"{self.folder} is no folder that can be read",
                f"name one that the service's user can read, {BESIDE}",
            )
