"""One FHIR server that a channel keeps true: address, credentials, policies of delivery."""

import re
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from engine.config.frozen import Frozen
from engine.config.name import check_name
from engine.config.secret import Secret

_OPERATION = re.compile(r"[A-Za-z][A-Za-z0-9._-]{0,99}")
_NEEDED_BY_AUTH = {
    "none": (),
    "bearer": ("token",),
    "client_credentials": ("token_url", "client_id", "client_secret"),
    "private_key_jwt": ("token_url", "client_id", "private_key"),
    "refresh_token": ("token_url", "client_id", "refresh_token"),
}


def _url(text: str) -> str:
    parts = urlsplit(text)
    if parts.scheme not in {"http", "https"} or not parts.hostname or any(mark in text for mark in "?# \t"):
        raise ValueError("write a whole URL without a query, such as https://fhir.example/R4")
    if parts.username is not None or parts.password is not None:
        raise PydanticCustomError("literal_secret", "a URL holds no user name or password; use auth")
    return text


def _url_or_empty(text: str) -> str:
    return _url(text) if text else text


def _operation(text: str) -> str:
    """Return an operation's name without its `$`."""
    name = text.removeprefix("$")
    if text and not _OPERATION.fullmatch(name):
        raise ValueError("write an operation's name, such as merge or hapi.fhir.merge")
    return name


Name = Annotated[str, AfterValidator(check_name)]
Url = Annotated[str, AfterValidator(_url)]


class Retry(Frozen):
    """Backoff with full jitter between the first and the longest wait; what is held instead of tried for ever."""

    first_seconds: float = Field(1, gt=0, description="the first wait after a failure that may pass")
    max_seconds: float = Field(60, gt=0, description="the longest wait")
    hold_after_tries: int = Field(
        8, ge=0, description="failures of one entry, while others succeed, that hold it as server-error; 0 never"
    )
    hold_after_seconds: float = Field(300, ge=0, description="the least time from the first of these failures")

    @model_validator(mode="after")
    def _ordered(self) -> "Retry":
        if self.max_seconds < self.first_seconds:
            raise ValueError("max_seconds is less than first_seconds; make it at least as long")
        return self


class Auth(Frozen):
    """How a destination knows the engine."""

    type: Literal["none", "bearer", "client_credentials", "private_key_jwt", "refresh_token"] = Field(
        "none", description="which credentials are used"
    )
    token_url: Annotated[str, AfterValidator(_url_or_empty)] = Field("", description="the token endpoint")
    client_id: str = Field("", description="the engine's name at the token endpoint")
    client_secret: Secret | None = Field(None, description="for client_credentials")
    token: Secret | None = Field(None, description="for bearer")
    refresh_token: Secret | None = Field(None, description="for refresh_token")
    private_key: Secret | None = Field(None, description="PEM or JWK, for private_key_jwt")
    key_id: str = Field("", description="`kid` of the private key")
    scope: str = Field("", description="scopes asked for, separated by spaces")

    @model_validator(mode="after")
    def _complete(self) -> "Auth":
        missing = [name for name in _NEEDED_BY_AUTH[self.type] if not getattr(self, name)]
        if missing:
            raise ValueError(f"auth of type {self.type} needs {', '.join(missing)}")
        return self


class Destination(Frozen):
    """One FHIR server that a channel keeps true."""

    name: Name = Field(description="name in states, metrics and pages")
    fhir: Literal["R4", "STU3"] = Field("R4", description="FHIR version spoken there")
    base_url: Url = Field(description="FHIR base URL")
    auth: Auth = Field(Auth(), description="credentials")
    if_none_exist: str = Field(
        "identifier", description="criteria of a conditional create: identifier, demographics, or a template"
    )
    concurrency: int = Field(16, ge=1, le=1024, description="deliveries at once, each of another patient")
    retry: Retry = Field(Retry(), description="backoff")
    timeout_seconds: float = Field(30, gt=0, description="longest wait for one answer")
    ca_file: str | None = Field(None, description="PEM file of a private authority; TLS is always verified")
    on_demographic_match: Literal["create", "attach", "hold"] = Field(
        "create", description="when a record of another system has the same demographics"
    )
    on_held: Literal["hold-lane", "continue"] = Field(
        "hold-lane", description="whether a held entry holds what follows for its patient"
    )
    required: bool = Field(default=True, description="whether `acknowledge: delivered` waits for it")
    carry_over: tuple[str, ...] = Field((), description="elements taken over from a merged record")
    merge_strategy: Literal["auto", "merge", "link", "notify-only"] = Field(
        "auto", description="how records are merged; auto asks the CapabilityStatement"
    )
    merge_operation: Annotated[str, AfterValidator(_operation)] = Field(
        "", description="the merge's name, such as hapi.fhir.merge; empty: as the CapabilityStatement lists it"
    )
