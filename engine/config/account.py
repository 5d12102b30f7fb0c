"""Who may use the interchange service: clients with what proves them, users, and the roles of both."""

import re
from base64 import urlsafe_b64decode
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import orjson
from pydantic import AfterValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from engine.config.model import Frozen, Placed
from engine.config.secret import Secret
from engine.config.text import BESIDE, FilePathOrEmpty, Line, UriOrEmpty, Word

CLIENT_CREDENTIALS: Final = "client_credentials"
REFRESH_TOKEN: Final = "refresh_token"  # noqa: S105 - the name of a grant
AUTHORIZATION_CODE: Final = "authorization_code"
JWT_BEARER: Final = "urn:ietf:params:oauth:grant-type:jwt-bearer"
SHORTEST_RSA_BITS: Final = 2048
_UNFIT: Final = "does not fit together"
_PROVABLE: Final = "give a public key of RSA (2048 bits or more, with n and e) or of EC (crv P-384, with x and y)"
# What a client may do that holds nothing to prove itself with (RFC 6749 section 2.1, "public").
PUBLIC_GRANTS: Final = frozenset({AUTHORIZATION_CODE, REFRESH_TOKEN})

# RFC 3986 without user information and fragment; the value goes into headers as it is.
_REST: Final = r"[\w.~%!$&'()*+,;=:@/-]*(?:\?[\w.~%!$&'()*+,;=:@/?-]*)?"
_WEB: Final = re.compile(rf"https?://(?:[A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\])(?::\d{{1,5}})?(?:[/?]{_REST})?", re.ASCII)
# RFC 8252 section 7.1: a private-use scheme is a domain name reversed.
_PRIVATE: Final = re.compile(rf"[a-z][a-z0-9+-]*(?:\.[a-z0-9+-]+)+:/{_REST}", re.ASCII)
_PERSON: Final = re.compile(r"(?:Practitioner|PractitionerRole|RelatedPerson|Patient)/[A-Za-z0-9.-]{1,64}", re.ASCII)
_ORIGIN: Final = re.compile(r"https?://(?:[a-z0-9.-]+|\[[0-9a-f:.]+\])(?::\d{1,5})?", re.ASCII)
_LOOPBACK: Final = re.compile(r"http://(?:localhost|127\.0\.0\.1|\[::1\])(?:[:/?].*)?")
_ARGON2ID: Final = re.compile(r"\$argon2id\$v=19\$m=\d+,t=\d+,p=\d+\$[A-Za-z0-9+/]{11,}\$[A-Za-z0-9+/]{11,}")
# As in shadow(5): nobody signs in with a password; assertions may still speak for the user.
_NO_PASSWORD: Final = frozenset({"", "!", "*", "…"})
_PRIVATE_PARTS: Final = frozenset({"d", "k", "p", "q", "dp", "dq", "qi", "oth"})

Grant = Literal[
    "client_credentials", "refresh_token", "authorization_code", "urn:ietf:params:oauth:grant-type:jwt-bearer"
]


class Role(StrEnum):
    """What an account may do besides its scopes."""

    PHYSICIAN = "physician"
    NURSE = "nurse"
    ADMINISTRATIVE = "administrative"
    SYSTEM_INTEGRATION = "system-integration"


def _redirect(address: str) -> str:
    if not (_WEB.fullmatch(address) or _PRIVATE.fullmatch(address)):
        raise ValueError("an absolute https address without fragment, or a private scheme such as org.example.app:/")
    return address


def _resource(reference: str) -> str:
    if reference and not _PERSON.fullmatch(reference):
        raise ValueError("a person's resource, such as Practitioner/osei")
    return reference


def _origin(address: str) -> str:
    if not _ORIGIN.fullmatch(address) or re.search(r"^https:.*:443$|^http:.*:80$", address):
        raise ValueError("scheme, host and perhaps a port, in small letters as browsers send it: https://app.example")
    return address


def _hash(text: str) -> str:
    if text not in _NO_PASSWORD and not _ARGON2ID.fullmatch(text):
        # Never shown: the value may be the password itself.
        raise PydanticCustomError("no_hash", "make it with: adt-engine interchange password, and put it in quotes")
    return text


def provable(key: dict[str, Any]) -> bool:
    """Say whether a JWK can prove a client: RSA of 2048 bits or more, or EC on P-384."""
    try:
        if key.get("kty") == "RSA":
            modulus, _exponent = (urlsafe_b64decode(key[part] + "==") for part in ("n", "e"))
            return int.from_bytes(modulus).bit_length() >= SHORTEST_RSA_BITS
        return (key.get("kty"), key.get("crv")) == ("EC", "P-384") and bool(key["x"] and key["y"])
    except (KeyError, TypeError, ValueError):
        return False


class PublicKeys(Frozen):
    """The public keys of a client (JWKS, RFC 7517): `keys` in place, or in a `file` that is read on each use."""

    keys: tuple[dict[str, Any], ...] = Field((), description="public keys that prove it, as JWK")
    file: FilePathOrEmpty = Field("", description="a JWKS file instead, read at each use")

    @model_validator(mode="after")
    def _one(self) -> "PublicKeys":
        if bool(self.keys) == bool(self.file):
            raise ValueError("give either keys or file")
        if any(_PRIVATE_PARTS & key.keys() for key in self.keys):
            raise PydanticCustomError("literal_secret", "give the public key only; the client keeps the private one")
        return self

    def conflicts(self) -> Iterator[Placed]:
        """Yield keys of which none can prove anything."""
        if self.keys and not any(map(provable, self.keys)):
            yield ("keys", 0), "a key that proves nothing", _PROVABLE

    def warnings(self) -> Iterator[Placed]:
        """Yield the keys that prove nothing next to one that does."""
        if any(map(provable, self.keys)):
            for number, key in enumerate(self.keys):
                if not provable(key):
                    yield ("keys", number), "a key that proves nothing", _PROVABLE

    def unavailable(self) -> Iterator[Placed]:
        """Yield why a file gives no key that proves anything."""
        try:
            if self.file and not any(map(provable, self.read())):
                yield ("file",), f"{self.file} holds no key that proves anything", _PROVABLE
        except LookupError as error:
            yield ("file",), str(error), f"name a JWKS file that the user who runs the service can read, {BESIDE}"

    def read(self) -> tuple[dict[str, Any], ...]:
        """Return the keys as JWK; LookupError where the file holds none that can be read."""
        if not self.file:
            return self.keys
        try:
            value = orjson.loads(Path(self.file).read_bytes())
        except OSError as error:
            raise LookupError(f"{self.file} cannot be read ({error.strerror})") from error
        except ValueError as error:
            raise LookupError(f"{self.file} is no JWKS: it is no JSON") from error
        keys = value.get("keys") if isinstance(value, dict) else None
        if not isinstance(keys, list) or not all(isinstance(key, dict) for key in keys):
            raise LookupError(f"{self.file} is no JWKS: it has no list of keys")
        return tuple(keys)


class Client(Frozen):
    """One registered program: its tenant, what proves it, and what it may ask for.

    With neither `secret` nor `jwks` it is public: it sends people to sign in, and proves itself by PKCE.
    """

    tenant: Word = Field(description="whose patients it sees", examples=["unnamed"])
    secret: Secret | None = Field(None, description="what proves it: {env: NAME} or {file: PATH}")
    jwks: PublicKeys | None = None
    name: Line = Field("", description="shown to people who sign in")
    uri: UriOrEmpty = Field("", description="issuer of its assertions (jwt-bearer)", examples=["https://app.example"])
    redirect_uris: tuple[Annotated[str, AfterValidator(_redirect)], ...] = Field(
        (),
        description="where people return to after signing in, compared character by character",
        examples=[["https://app.example/back"]],
    )
    origins: tuple[Annotated[str, AfterValidator(_origin)], ...] = Field(
        (),
        description="web origins whose scripts may call the service as this client (CORS)",
        examples=[["https://app.example"]],
    )
    grants: tuple[Grant, ...] = Field(
        ("client_credentials",),
        description="client_credentials, refresh_token, authorization_code, jwt-bearer (its urn)",
    )
    scopes: tuple[Word, ...] = Field((), description="what its tokens may be granted at most")
    role: Role = Field(Role.SYSTEM_INTEGRATION, description="physician, nurse, administrative, system-integration")
    disabled: bool = Field(default=False, description="true: it gets no token, and those that it has open nothing")
    patient_context: Literal["optional", "required"] = Field(
        "optional", description="required: patient/ scopes only for the patient who is chosen at the sign-in"
    )

    @property
    def public(self) -> bool:
        """Whether it holds nothing to prove itself with."""
        return self.secret is None and self.jwks is None

    @property
    def trouble(self) -> str:
        """What keeps its secret or its keys from being read now, '' for nothing; never the secret."""
        held = self.secret or self.jwks
        try:
            if held is not None:
                held.read()
        except LookupError as error:
            return str(error)
        return ""

    @property
    def unprotected(self) -> tuple[tuple[str, int], ...]:
        """The places of redirect addresses and origins over which codes or records go in the clear on a network."""
        named = (("redirect_uris", self.redirect_uris), ("origins", self.origins))
        return tuple(
            (key, place)
            for key, addresses in named
            for place, one in enumerate(addresses)
            if one.startswith("http:") and not _LOOPBACK.fullmatch(one)
        )

    def conflicts(self) -> Iterator[Placed]:
        """Yield what its grants need and is not there."""
        if self.secret is not None and self.jwks is not None:
            yield (), _UNFIT, "give secret or jwks, not both"
        if self.public and not PUBLIC_GRANTS.issuperset(self.grants):
            allowed = " and ".join(sorted(PUBLIC_GRANTS))
            yield (), _UNFIT, f"give a secret or jwks; without them a client may only have the grants {allowed}"
        if AUTHORIZATION_CODE in self.grants and not self.redirect_uris:
            yield (), _UNFIT, "add redirect_uris: the grant authorization_code needs redirect_uris"
        if JWT_BEARER in self.grants and (self.secret is None or not self.uri):
            yield (
                (),
                _UNFIT,
                "add them: the grant jwt-bearer needs a secret, which signs, and a uri, which is the issuer",
            )


class User(Frozen):
    """One person who may sign in; the password is an argon2id hash, `!` for none that would do."""

    tenant: Word = Field(description="the tenant of the clients that they sign in through", examples=["unnamed"])
    role: Role = Field(
        description="as of clients; decides over the client's when a person signed in", examples=["nurse"]
    )
    password_hash: Annotated[str, AfterValidator(_hash)] = Field(
        "!", repr=False, description="argon2id; ! lets nobody sign in with a password"
    )
    name: Line = Field("", description="shown by /oauth/userinfo")
    fhir_user: Annotated[str, AfterValidator(_resource)] = Field(
        "", description="the resource that is this person, for the scope fhirUser", examples=["Practitioner/osei"]
    )
    disabled: bool = Field(default=False, description="true: signs in no more, and tokens for this person open nothing")

    @property
    def may_sign_in(self) -> bool:
        """Whether any password would do."""
        return self.password_hash not in _NO_PASSWORD and not self.disabled


class Auth(Frozen):
    """How people sign in. `auto_login_user`: a sandbox signs this user in without asking, for tests."""

    auto_login_user: Line = Field("", description="signed in without being asked, in a sandbox only")
