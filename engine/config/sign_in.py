"""How a destination knows the engine: the kinds of sign-in, what each needs, and what it may be given besides."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Final, Literal

from pydantic import Field

from engine.config import pem
from engine.config.model import Frozen, Placed
from engine.config.network import in_the_clear
from engine.config.secret import Secret
from engine.config.text import FilePath, Line, UrlOrEmpty, shaped

_NEEDED: Final[Mapping[str, tuple[str, ...]]] = {
    "none": (),
    "bearer": ("token",),
    "basic": ("username", "password"),
    "client_credentials": ("token_url", "client_id", "client_secret"),
    "private_key_jwt": ("token_url", "client_id", "private_key"),
    "refresh_token": ("token_url", "client_id", "refresh_token"),
    "entra_certificate": ("token_url", "client_id", "certificate", "private_key", "scope"),
    "managed_identity": ("audience",),
    "google_service_account": ("key_file",),
    "google_metadata": (),
    "aws_sigv4": ("region",),
}
# What may be given besides that.
_ALSO: Final[Mapping[str, tuple[str, ...]]] = {
    "client_credentials": ("scope", "method", "audience"),
    "private_key_jwt": ("key_id", "scope", "client_secret", "method", "audience", "algorithm"),
    "refresh_token": ("client_secret", "scope", "method", "audience"),
    "entra_certificate": ("key_id", "audience", "algorithm"),
    "managed_identity": ("client_id",),
    "google_service_account": ("scope", "audience"),
    "google_metadata": ("scope",),
    "aws_sigv4": ("service", "access_key_id", "secret_access_key", "session_token", "aws_profile"),
}
# Those whose assertion is signed by a private key of the file, and by which algorithms.
ALGORITHMS: Final[Mapping[str, tuple[str, ...]]] = {
    "private_key_jwt": (
        *("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
        *("ES256", "ES384", "ES512"),
    ),
    "entra_certificate": ("PS256", "RS256"),
}
# Of a region or a service: it is part of a header.
AwsName = Annotated[str, shaped(r"[a-z0-9-]{0,64}", "a name as AWS writes it, such as us-east-1 or healthlake")]


def keys_of(type_: str) -> frozenset[str]:
    """Return the keys of `auth` that a kind of sign-in uses."""
    return frozenset({"type", *_NEEDED[type_], *_ALSO.get(type_, ())})


class Auth(Frozen):
    """How a destination knows the engine."""

    type: Literal[
        "none",
        "bearer",
        "basic",
        "client_credentials",
        "private_key_jwt",
        "refresh_token",
        "entra_certificate",
        "managed_identity",
        "google_service_account",
        "google_metadata",
        "aws_sigv4",
    ] = Field("none", description="which credentials are used")
    token_url: UrlOrEmpty = Field("", description="the token endpoint", examples=["https://auth.example/token"])
    client_id: Line = Field(
        "",
        description="the engine's name at the token endpoint; of a user-assigned identity for managed_identity",
        examples=["engine"],
    )
    client_secret: Secret | None = Field(None, description="for client_credentials")
    method: Literal["post", "basic"] = Field(
        "post", description="how client_secret is sent: in the form, or in the Authorization header"
    )
    username: Line = Field("", description="for basic")
    password: Secret | None = Field(None, description="for basic")
    token: Secret | None = Field(None, description="for bearer")
    refresh_token: Secret | None = Field(None, description="for refresh_token")
    private_key: Secret | None = Field(None, description="PEM or JWK, for private_key_jwt and entra_certificate")
    key_id: Line = Field("", description="`kid` of the private key")
    certificate: FilePath | None = Field(None, description="PEM file of the private key's certificate")
    algorithm: Literal["", "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512"] = Field(
        "", description="what an assertion is signed by; empty: RS384 or that of the curve, PS256 for entra_certificate"
    )
    scope: Line = Field("", description="scopes asked for, separated by spaces")
    audience: Line = Field(
        "",
        description="`aud` of an assertion in place of the token endpoint; without an assertion the `audience` asked "
        "for, for managed_identity the `resource`",
    )
    key_file: Secret | None = Field(None, description="the JSON key of a service account, for google_service_account")
    region: AwsName = Field("", description="region of the service, for aws_sigv4", examples=["us-east-1"])
    service: AwsName = Field("healthlake", description="name of the service in signatures of aws_sigv4")
    # References, as the id of an access key changes with its secret.
    access_key_id: Secret | None = Field(None, description="for aws_sigv4")
    secret_access_key: Secret | None = Field(None, description="for aws_sigv4")
    session_token: Secret | None = Field(None, description="with an access key that ends")
    aws_profile: Line = Field("", description="profile of the file of AWS credentials to take the access key from")

    def conflicts(self) -> Iterator[Placed]:
        """Yield what the type needs and is not there, and what is there and would not be used."""
        needed = _NEEDED[self.type]
        for name in needed:
            if not getattr(self, name):
                yield (name,), "missing", f"add it: auth of type {self.type} needs {name}"
        used = keys_of(self.type)
        given = [name for name in type(self).model_fields if name not in used and self._gives(name)]
        if given:
            types = [type_ for type_ in _NEEDED if given[0] in (*_NEEDED[type_], *_ALSO.get(type_, ()))]
            yield (
                ("type",),
                f"{self.type} with {given[0]}, which it does not use",
                f"give type: {types[0]}, or leave {given[0]} out",
            )
        else:
            yield from self._mismatches()

    def warnings(self) -> Iterator[Placed]:
        """Yield a token endpoint that is asked in the clear."""
        yield from in_the_clear("token_url", self.token_url)

    def unavailable(self) -> Iterator[Placed]:
        """Yield a certificate that cannot be read."""
        if self.certificate is not None:
            yield from pem.authority("certificate", self.certificate)

    def _gives(self, name: str) -> bool:
        value = getattr(self, name)
        return bool(value) and value != type(self).model_fields[name].default

    def _mismatches(self) -> Iterator[Placed]:
        """Yield keys of one type that do not fit each other."""
        if self.method == "basic" and self.client_secret is None:
            yield ("method",), "basic without client_secret", "give client_secret too, or leave method out"
        if ":" in self.username:
            yield ("username",), "a colon, which HTTP Basic has no place for", "a name without one"
        algorithms = ALGORITHMS.get(self.type, ())
        if self.algorithm and self.algorithm not in algorithms:
            yield ("algorithm",), f"{self.algorithm} for {self.type}", f"one of {', '.join(algorithms)}"
        if (self.access_key_id is None) != (self.secret_access_key is None):
            lacking = "access_key_id" if self.access_key_id is None else "secret_access_key"
            yield (lacking,), "missing", "give both halves of the access key, or neither"
        elif self.session_token is not None and self.access_key_id is None:
            yield ("session_token",), "given without an access key", "give access_key_id and secret_access_key too"
        if self.aws_profile and self.access_key_id is not None:
            yield ("aws_profile",), "given with an access key", "give one of them"
