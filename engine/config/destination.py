"""One FHIR server that a channel keeps up to date: address, credentials, delivery, criteria of a conditional create."""

import re
from collections.abc import Iterator
from difflib import get_close_matches
from typing import Annotated, Any, ClassVar, Final, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, model_validator

from engine.config import pem
from engine.config.behaviour import Behaviour
from engine.config.http_client import ENVIRONMENT, Headers, Proxy, ProxyUser, Rate, header_warnings, unusable_proxies
from engine.config.model import Frozen, Placed, nearest
from engine.config.network import in_the_clear
from engine.config.profile import GENERIC, NAMES, ProfileName, profile_of
from engine.config.secret import Secret
from engine.config.sign_in import Auth
from engine.config.text import FilePath, Line, Name, Url, UrlOrEmpty

WORDS: Final = ("identifier", "demographics")
PLACEHOLDERS: Final = ("system", "value", "family", "given", "gender", "birthdate")
# Search parameters of Patient in R4 and STU3.
_PARAMETERS: Final = """
_id _lastUpdated _profile _security _source _tag active address address-city address-country address-postalcode
address-state address-use animal-breed animal-species birthdate death-date deceased email family gender
general-practitioner given identifier language link name organization phone phonetic telecom
"""
PARAMETERS: Final = frozenset(_PARAMETERS.split())
_PLACEHOLDER: Final = re.compile(r"\{([^{}]*)\}")
_PAIR: Final = re.compile(r"([A-Za-z_][\w-]*)(?::[\w-]+)?=[^=\s#\"<>\\^`{}]+", re.ASCII)
EXAMPLE: Final = "identifier={system}|{value}"
# Values of `create` and of `writes`.
CONDITIONAL: Final = "conditional"
CLIENT_ID: Final = "client-id"
IDEMPOTENCY_KEY: Final = "idempotency-key"
CREATE_ONLY: Final = "create-only"


def check_criteria(text: str) -> str:
    """Return a template; ValueError where it is no word and no query that names one person."""
    if text in WORDS:
        return text
    near = get_close_matches(text, WORDS, n=1)
    if "=" not in text or text.startswith(("?", "Patient?")):
        hint = f"; did you mean {near[0]}?" if near else ""
        raise ValueError(f"identifier, demographics, or a query alone such as {EXAMPLE}{hint}")
    named = _PLACEHOLDER.findall(text)
    for name in named:
        if name not in PLACEHOLDERS:
            raise ValueError(f"{{{name}}} is no placeholder; {nearest(name, PLACEHOLDERS, 'adt-engine help channels')}")
    for name, pair in _pairs(text):
        if not name:
            raise ValueError(f"{pair!r} is no part of a query; write name=value, joined by &, such as {EXAMPLE}")
        close = get_close_matches(name, PARAMETERS, n=1, cutoff=0.75)
        if name not in PARAMETERS and close:
            raise ValueError(f"Patient has no search parameter {name!r}; did you mean {close[0]}?")
    if "value" not in named and not {"family", "birthdate"} <= set(named):
        raise ValueError(f"it must name one person: use {{value}}, or {{family}} and {{birthdate}}, such as {EXAMPLE}")
    return text


def unknown_parameters(template: str) -> tuple[str, ...]:
    """Return the search parameters of a template that FHIR does not define for Patient."""
    return () if template in WORDS else tuple(name for name, _ in _pairs(template) if name not in PARAMETERS)


def _pairs(template: str) -> list[tuple[str, str]]:
    """Return the parts of a query with their names, empty where one has none."""
    pairs = [(pair, _PAIR.fullmatch(_PLACEHOLDER.sub("x", pair))) for pair in template.split("&")]
    return [(match[1] if match else "", pair) for pair, match in pairs]


# The host of the address that a draft has.
NOWHERE: Final = "destination.invalid"
_OPERATION: Final = re.compile(r"[A-Za-z][A-Za-z0-9._-]{0,99}")
# Where the shipped service has its FHIR bases (STU3, R4), and its token endpoint.
_OUR_BASES: Final = frozenset({"/fhir", "/fhir/R4"})
_OUR_TOKEN_ENDPOINT: Final = "/oauth/token"  # noqa: S105 - a path
# A key, and another one without which it means nothing.
_TOGETHER: Final = (
    ("client_certificate", "client_key"),
    ("client_key", "client_certificate"),
    ("proxy_user", "proxy"),
    ("proxy_user", "proxy_password"),
    ("proxy_password", "proxy_user"),
)
# Elements of Patient in R4 and STU3, but those that every merge sees to by itself.
_CARRIED: Final = """
address animal birthDate communication contact deceasedBoolean deceasedDateTime extension gender generalPractitioner
implicitRules language managingOrganization maritalStatus modifierExtension multipleBirthBoolean multipleBirthInteger
name photo telecom
"""
CARRIED: Final = frozenset(_CARRIED.split())


def _carried(name: str) -> str:
    if name.removeprefix("_") not in CARRIED:
        raise ValueError(f"an element of Patient; {nearest(name, CARRIED, 'hl7.org/fhir/R4/patient.html')}")
    return name


def _operation(text: str) -> str:
    """Return an operation's name without its `$`."""
    name = text.removeprefix("$")
    if text and not _OPERATION.fullmatch(name):
        raise ValueError("write an operation's name, such as merge or hapi.fhir.merge")
    return name


class Retry(Frozen):
    """Backoff with full jitter between the first and the longest wait; what is held instead of tried for ever."""

    first_seconds: float = Field(1, gt=0, le=86_400, description="the first wait after a transient failure")
    max_seconds: float = Field(60, gt=0, le=86_400, description="the longest wait")
    hold_after_tries: int = Field(
        8,
        ge=0,
        le=1_000_000,
        description="failures of one entry, while others succeed, that hold it as server-error; 0 never",
    )
    hold_after_seconds: float = Field(
        300, ge=0, le=86_400, description="the shortest time since the first of these failures"
    )

    def conflicts(self) -> Iterator[Placed]:
        """Yield a longest wait that is shorter than the first."""
        if self.max_seconds < self.first_seconds:
            found = f"{self.max_seconds:g}, which is less than first_seconds"
            yield ("max_seconds",), found, f"at least {self.first_seconds:g}"


class Collapse(Frozen):
    """Which updates of one patient are delivered by the newest of those that wait, and how long one waits for more."""

    events: tuple[Literal["A08", "A31"], ...] = Field(
        ("A08", "A31"), min_length=1, description="updates: A08, A31; each is collapsed with its like only"
    )
    seconds: float = Field(
        0, ge=0, le=600, description="how long an update waits, from its receipt, for newer ones; 0: only what waits"
    )


class Destination(Frozen):
    """One FHIR server that a channel keeps up to date."""

    # A relay alone may get messages in the order of the feed.
    in_feed_order: ClassVar[bool] = False

    name: Name = Field(description="name in states, metrics and pages", examples=["unnamed"])
    type: Literal["fhir", "mllp"] = Field(
        "fhir", description="fhir, or mllp for a system that gets the messages themselves: it has keys of its own"
    )
    profile: ProfileName = Field("generic", description="which server it is: sets defaults of these keys; see servers")
    fhir: Literal["R4", "STU3"] = Field("R4", description="FHIR version spoken there")
    base_url: Url = Field(description="FHIR base URL", examples=["https://fhir.example/R4"])
    mapping: Line = Field(
        "", description="mapping by which what is written there is planned; empty: the channel's", examples=["adt"]
    )
    auth: Auth = Field(Auth(), description="credentials")
    if_none_exist: Annotated[str, AfterValidator(check_criteria)] = Field(
        "identifier", description="criteria of a conditional create: identifier, demographics, or a template"
    )
    concurrency: int = Field(16, ge=1, le=1024, description="deliveries at once, each of another patient")
    rate: Rate | None = Field(None, description="requests a second; without it as many as are answered")
    retry: Retry = Field(Retry(), description="backoff")
    timeout_seconds: float = Field(30, gt=0, le=3600, description="longest wait for one answer")
    ca_file: FilePath | None = Field(None, description="PEM file of a private authority; TLS is always verified")
    client_certificate: FilePath | None = Field(
        None, description="PEM file of the engine's own certificate, and its chain, for mutual TLS"
    )
    client_key: FilePath | None = Field(None, description="PEM file of its private key, without a passphrase")
    headers: Headers = Field(
        {}, description="fixed headers of each request, by name: a text, {env: NAME} or {file: PATH}"
    )
    proxy: Proxy = Field(
        "", description="http://host:port of a proxy, or environment: as HTTPS_PROXY, HTTP_PROXY and NO_PROXY say"
    )
    proxy_user: ProxyUser = Field("", description="the engine's name at the proxy")
    proxy_password: Secret | None = Field(None, description="what proves it: {env: NAME} or {file: PATH}")
    on_demographic_match: Literal["create", "attach", "hold"] = Field(
        "create", description="when a record of another system has the same demographics"
    )
    on_held: Literal["hold-lane", "continue"] = Field(
        "hold-lane", description="whether a held entry holds what follows for its patient"
    )
    required: bool = Field(default=True, description="whether `acknowledge: delivered` waits for it")
    carry_over: tuple[Annotated[str, AfterValidator(_carried)], ...] = Field(
        (), description="elements to take over from a merged record"
    )
    merge_strategy: Literal["auto", "merge", "link", "notify-only"] = Field(
        "auto",
        description="how records are merged; auto asks the CapabilityStatement; the shipped service takes no link",
    )
    merge_operation: Annotated[str, AfterValidator(_operation)] = Field(
        "", description="the merge's name, such as hapi.fhir.merge; empty: as the CapabilityStatement lists it"
    )

    lookup_base_url: UrlOrEmpty = Field(
        "",
        description="FHIR base that is asked for look-ups; empty: base_url, or the base above it where that ends in "
        "/R4 and does not list $p360-retrieve",
        examples=["https://fhir.example"],
    )
    notify: Literal["off", "admin-notify"] = Field(
        "off",
        description="whether each ADT event is announced to the destination after its delivery, by a message Bundle "
        "($process-message)",
    )
    bundle: Literal["auto", "off"] = Field(
        "auto",
        description="whether all resources but the patient are sent as one transaction where the server takes any",
    )
    create: Literal["conditional", "client-id", "idempotency-key"] = Field(
        "conditional",
        description="how a record is created: on condition (`if_none_exist`), under an id derived from its number, or "
        "by a POST with an idempotency key",
    )
    writes: Literal["all", "create-only"] = Field(
        "all", description="create-only: creates what is not there, and changes nothing that is there"
    )
    collapse: Collapse | None = Field(
        None,
        description="deliver the newest of waiting updates of one patient, where it says all that the others say",
        examples=[{"events": ["A08", "A31"], "seconds": 5}],
    )
    behaviour: Behaviour = Field(
        Behaviour(), description="what the server does its own way, as its profile sets it; see servers"
    )

    @model_validator(mode="before")
    @classmethod
    def _complete(cls, given: Any) -> Any:
        """Take the defaults of the profile for the keys that are not written."""
        name = given.get("profile") if isinstance(given, dict) else None
        return profile_of(name).with_defaults(given) if name in NAMES else given

    def conflicts(self) -> Iterator[Placed]:
        """Yield what the server, `create` or `writes` leave no use for, keys without others, and a base elsewhere."""
        yield from profile_of(self.profile).faults(self)
        for key, other in _TOGETHER:
            if getattr(self, key) and not getattr(self, other):
                yield (other,), "missing", f"add it: {key} needs {other}"
        if self.lookup_base_url and urlsplit(self.lookup_base_url)[:2] != urlsplit(self.base_url)[:2]:
            yield ("lookup_base_url",), f"{self.lookup_base_url}, on another server", "give a base beside base_url"
        yield from self._conflicts_of_create()
        yield from self._conflicts_of_create_only()

    def _conflicts_of_create(self) -> Iterator[Placed]:
        """Yield criteria and policies of demographics, by which only a conditional create finds a record."""
        if self.create == CONDITIONAL:
            return
        if self.if_none_exist != "identifier":
            found = f"{self.if_none_exist}, which create: {self.create} never asks"
            yield ("if_none_exist",), found, "leave if_none_exist out, or write create: conditional"
        if self.create == IDEMPOTENCY_KEY and not self.behaviour.idempotency_header:
            expected = "write profile: healthlake, or name the header by which your server takes such keys"
            yield ("behaviour", "idempotency_header"), f"missing, though create: {self.create} needs it", expected
        if self.on_demographic_match != "create":
            found = f"{self.on_demographic_match}, though create: {self.create} compares no demographics"
            yield ("on_demographic_match",), found, "leave on_demographic_match out, or write create: conditional"

    def _conflicts_of_create_only(self) -> Iterator[Placed]:
        """Yield what says how records are merged, where none is."""
        if self.writes != CREATE_ONLY:
            return
        if self.collapse is not None:
            found = "found, but writes: create-only keeps what the first message says"
            yield ("collapse",), found, "leave collapse out, or write writes: all"
        merging = [("carry_over", next(iter(self.carry_over), "")), ("merge_operation", self.merge_operation)]
        if self.merge_strategy not in {"auto", "notify-only"}:
            merging.append(("merge_strategy", self.merge_strategy))
        for key, value in merging:
            if value:
                found = f"{value}, but writes: create-only merges nothing"
                yield (key,), found, f"leave {key} out, or write writes: all"

    def warnings(self) -> Iterator[Placed]:
        """Yield an address without TLS, and criteria that a server may ignore or, as the shipped service, refuse."""
        yield from in_the_clear("base_url", self.base_url)
        yield from header_warnings(self.headers)
        if self.client_certificate and not self.base_url.startswith("https:"):
            yield ("client_certificate",), f"{self.base_url}, where no certificate is asked for", "use https://"
        by_identifier = self.create == CONDITIONAL and self.if_none_exist == "identifier"
        if self.profile == GENERIC and by_identifier and self._is_laid_out_as_ours():
            found = "identifier, by which the shipped service creates nobody: a new patient's entry would be held"
            yield ("if_none_exist",), found, "write profile: shipped"
        for name in unknown_parameters(self.if_none_exist):
            found = f"{name!r}, which is no search parameter of Patient"
            yield ("if_none_exist",), found, "a server that ignores it takes anybody for this patient; use another"

    def undecided(self) -> Iterator[Placed]:
        """Yield the address of nobody that a draft has."""
        if urlsplit(self.base_url).hostname == NOWHERE:
            yield ("base_url",), f"the placeholder {self.base_url}", "write the base URL of the FHIR server"

    def unavailable(self) -> Iterator[Placed]:
        """Yield files of TLS that cannot be used, and proxies of the environment that cannot."""
        if self.ca_file is not None:
            yield from pem.authority("ca_file", self.ca_file)
        if self.client_certificate is not None and self.client_key is not None:
            for (key,), found, expected in pem.pair(self.client_certificate, self.client_key):
                yield (f"client_{key}",), found, expected
        if self.proxy == ENVIRONMENT:
            yield from unusable_proxies()

    @property
    def server(self) -> Self:
        """The destination as every channel that names it describes it: without the mapping, which is a channel's."""
        return self.model_copy(update={"mapping": ""}) if self.mapping else self

    @property
    def waits(self) -> bool:
        """Whether an update waits for newer ones before it is delivered."""
        return self.collapse is not None and self.collapse.seconds > 0

    @property
    def own_certificate(self) -> str | None:
        """The PEM file of the engine's own certificate, None where it has none."""
        return self.client_certificate

    @property
    def address(self) -> str:
        """Where it is, as a URL."""
        return self.base_url

    def _is_laid_out_as_ours(self) -> bool:
        """Say whether FHIR base and token endpoint lie as the shipped service has them."""
        base, token = urlsplit(self.base_url), urlsplit(self.auth.token_url)
        ours = base.path.rstrip("/") in _OUR_BASES and token.path == _OUR_TOKEN_ENDPOINT
        return ours and base.netloc == token.netloc
