"""The service's configuration as a frozen value: addresses, tenants, clients, limits; and what a reload may change."""

import re
from collections.abc import Iterator
from enum import StrEnum
from ipaddress import ip_network
from typing import Annotated, ClassVar, Final, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field

from engine.config import pem
from engine.config.account import Auth, Client, User
from engine.config.connector import Connector
from engine.config.laboratory import SIMULATED, SIMULATED_LABORATORY, Laboratory
from engine.config.model import Frozen, Placed, nearest
from engine.config.network import is_loopback
from engine.config.source import AuthoredFile, look
from engine.config.text import FilePath, Name, ResourceId, Word, is_host, shaped
from engine.errors import ConfigurationError

_NPI: Final = r"^([0-9]{10})?$"
_OID: Final = r"^([0-2](\.(0|[1-9][0-9]*))+)?$"


class Organization(Frozen):
    """Who keeps a tenant's charts, as its documents name it."""

    name: str = Field("", max_length=200, description="name of the organization in documents; by default the tenant's")
    npi: Annotated[str, shaped(_NPI, "ten digits")] = Field(
        "",
        description="its National Provider Identifier",
        json_schema_extra={"pattern": _NPI, "patternErrorMessage": "Expected ten digits."},
    )
    oid: Annotated[str, shaped(_OID, "an OID such as 2.16.840.1.113883.3.1")] = Field(
        "",
        description="its OID",
        json_schema_extra={"pattern": _OID, "patternErrorMessage": "Expected an OID such as 2.16.840.1.113883.3.1."},
    )
    telephone: str = Field("", max_length=40, description="its telephone")
    street: str = Field("", max_length=200, description="its address, given where `city` is")
    city: str = Field("", max_length=100, description="of its address")
    state: str = Field("", max_length=100, description="of its address")
    postal_code: str = Field("", max_length=20, description="of its address")
    country: str = Field("US", max_length=40, description="of its address")

    @property
    def identifiers(self) -> tuple[tuple[str, str], ...]:
        """System and value of each identifier that is set."""
        npi = ("http://hl7.org/fhir/sid/us-npi", self.npi)
        oid = ("urn:ietf:rfc:3986", f"urn:oid:{self.oid}" if self.oid else "")
        return tuple(one for one in (npi, oid) if one[1])


ONLY_SANDBOX: Final = "take it out: it needs environment: sandbox"
_ADDRESS: Final = re.compile(r"https?://[^\s?#]*[^\s?#/]")
_URI: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:\S+")
_SEGMENT: Final = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII)
_MANY: Final = 1_000_000
_TEN_YEARS: Final = 315_576_000

OF_CHANNELS: Final = "a key of the engine's channels, not obeyed here"
# Of whom events are sent.
Enrollment = Literal["roster", "all"]


def _address(text: str) -> str:
    try:
        parts = urlsplit(text)
        right = (
            _ADDRESS.fullmatch(text) is not None
            and is_host(parts.hostname or "")
            and parts.username is None
            and (parts.port is None or parts.port >= 0)
        )
    except ValueError:
        right = False
    if not right:
        raise ValueError("write http:// or https://, a host, perhaps a port and a path, and no slash at the end")
    return text


def _unbroken(text: str) -> str:
    if not _URI.fullmatch(text):
        raise ValueError("an address or a urn, without blanks")
    return text


def _target(text: str) -> str:
    try:
        ip_network(text)
    except ValueError:
        if not is_host(text):
            raise ValueError("the name of a host, an address, or a network such as 10.1.0.0/16") from None
    return text


def _alias(text: str) -> str:
    if not _SEGMENT.fullmatch(text) or text == "R4":
        raise ValueError("one part of a path other than R4, such as STU3: letters, digits, - and _")
    return text


class Environment(StrEnum):
    """The stage of the service; test hooks exist in a sandbox only."""

    SANDBOX = "sandbox"
    PRODUCTION = "production"


class Feature(StrEnum):
    """What is on trial in sandboxes ([FF] in the specification); one leaves the list when it becomes a part of all."""

    VALIDATE = "validate"  # POST /{type}/$validate


ApiVersion = Literal["2023-01-01", "2025-06-01"]


class History(Frozen):
    """How long a tenant's former versions are kept."""

    keep: Literal["all"] | Annotated[int, Field(ge=1, le=36_500)] = Field(
        "all", description="former versions: all, or for this many days after the next one came (then 410)"
    )


class ClinicalAlerts(Frozen):
    """Of whom alerts are sent, once they are admitted, or somebody has a document of them."""

    enabled: bool = Field(default=True, description="whether alerts are sent at all")
    enrollment: Enrollment = Field(
        "roster", description="of whom: the members of the Group 'Clinical Alerts Roster', or all patients"
    )


class Adt(Frozen):
    """Of whom a hospital's ADT events are sent (`Bundle?message.event=admin-notify`)."""

    enrollment: Enrollment = Field(
        "all", description="of whom: all patients, or the members of the Group 'Clinical Alerts Roster'"
    )
    lookup_on: tuple[Word, ...] = Field((), description=OF_CHANNELS)
    assigning_authorities: dict[Word, Word] = Field(default_factory=dict, description=OF_CHANNELS)


class Tenant(Frozen):
    """One organization whose patients nobody else sees."""

    duplicate_patient_limit: int = Field(
        10, ge=1, le=_MANY, description="patients with the same demographics before 409"
    )
    scope_enforcement: Literal["strict", "off"] = Field("strict", description="off: roles alone decide")
    rest_api_version: ApiVersion = Field("2025-06-01", description="of tokens that ask for none")
    history: History = History()
    organization: Organization = Organization()
    network_mode: Literal["mocked", "real"] | None = Field(
        None, description="Patient360 asks the connectors (real), or invents (mocked: in a sandbox only, its default)"
    )
    connectors: dict[Name, Connector] = Field(
        default_factory=dict, description="what Patient360 asks for records, by name"
    )
    laboratories: dict[ResourceId, Laboratory] = Field(
        default_factory=dict, description="where orders go, by the id of the performer's Organization"
    )
    leading_indicator: bool = Field(
        default=False, description="tell of other organizations' queries for enrolled patients"
    )
    clinical_alerts: ClinicalAlerts = ClinicalAlerts()
    adt: Adt = Adt()
    active_subscription_limit: int = Field(30, ge=1, le=_MANY, description="active subscriptions, one more is 422")
    licensed_networks: tuple[Word, ...] = Field(
        (), description="exchange networks whose queries a leading indicator tells of"
    )
    webhook_allow: tuple[Annotated[str, AfterValidator(_target)], ...] = Field(
        (), description="hosts, addresses and networks besides public ones that webhooks may be sent to"
    )


class DocumentSearch(Frozen):
    """How a search among documents of other sources is answered ($cq-search)."""

    sync_wait_s: float = Field(2, ge=0, le=50, description="how long $cq-search waits for its sources before a 202")


class RateLimit(Frozen):
    """How many FHIR calls one client may make: a number a minute, and `burst` at once (null: a minute's worth)."""

    per_client_per_minute: int = Field(
        ge=1, le=_MANY, description="FHIR calls of one client, else 429; no limit by default", examples=[600]
    )
    burst: int | None = Field(None, ge=1, le=_MANY, description="calls at once; by default a minute's worth")


class Jobs(Frozen):
    """How many asynchronous jobs are worked on at a time, and how many may wait."""

    at_once: int = Field(6, ge=1, le=100, description="jobs worked on at a time; of one kind one fewer")
    at_once_per_tenant: int = Field(3, ge=1, le=100, description="of them, of one tenant; of one kind one fewer")
    waiting_per_tenant: int = Field(1000, ge=1, le=_MANY, description="jobs of one tenant that wait, else 429")


class Webhooks(Frozen):
    """How webhooks are sent, by HTTPS alone."""

    ca_bundle: FilePath | None = Field(
        None, description="PEM file of authorities that are trusted besides the system's"
    )

    def unavailable(self) -> Iterator[Placed]:
        """Yield a file that cannot be read."""
        if self.ca_bundle is not None:
            yield from pem.authority("ca_bundle", self.ca_bundle)


class Tls(Frozen):
    """The PEM files by which the service itself speaks TLS, 1.2 or newer."""

    certificate: FilePath = Field(description="PEM file of the certificate chain", examples=["server.pem"])
    key: FilePath = Field(description="PEM file of the private key", examples=["server.key"])

    def unavailable(self) -> Iterator[Placed]:
        """Yield files that cannot be read or do not fit each other."""
        yield from pem.pair(self.certificate, self.key)


class ServiceConfiguration(Frozen):
    """The whole configuration of one interchange service."""

    handbook: ClassVar[str] = "adt-engine help interchange"
    environment: Environment = Field(
        description="sandbox or production; a database stays with its first", examples=["sandbox"]
    )
    base_url: Annotated[str, AfterValidator(_address)] = Field(
        description="the address that clients call; used in links", examples=["https://cdis.example"]
    )
    auth_url: Annotated[str, AfterValidator(lambda text: text and _address(text))] = Field(
        "", description="the same for /oauth; base_url by default"
    )
    service_identifier_system: Annotated[str, AfterValidator(_unbroken)] = Field(
        description="system of the id that each patient gets; start of the service's own codes",
        examples=["https://cdis.example"],
    )
    tenants: dict[Word, Tenant] = Field(min_length=1, description="organizations, by name", examples=[{"unnamed": {}}])
    clients: dict[Word, Client] = Field(default_factory=dict, description="programs, by client_id")
    users: dict[Word, User] = Field(default_factory=dict, description="people, by login")
    stu3_path_aliases: tuple[Annotated[str, AfterValidator(_alias)], ...] = Field(
        (), description="further names of the STU3 base, such as STU3"
    )
    max_body_bytes: int = Field(10_485_760, ge=1024, le=1_073_741_824, description="largest body, else 413")
    request_timeout_s: float = Field(60, gt=0, le=3600, description="longest a request may take, else 504")
    access_token_lifetime_s: int = Field(3600, ge=1, le=_TEN_YEARS, description="life of an access token")
    refresh_token_lifetime_s: int = Field(
        2_592_000, ge=1, le=_TEN_YEARS, description="life of a refresh token, renewed at each rotation"
    )
    test_hooks: bool = Field(
        default=False, description="/_test/...: clock, slow, fail, lab, outbound; in a sandbox only"
    )
    cursor_validity_s: int = Field(300, ge=1, le=_TEN_YEARS, description="how long a next link holds")
    rate_limit: RateLimit | None = None
    jobs: Jobs = Jobs()
    cq: DocumentSearch = DocumentSearch()
    max_connections: int = Field(512, ge=1, le=_MANY, description="connections at once, beyond them 503")
    drain_s: float = Field(
        0, ge=0, le=86_400, description="after SIGTERM: how long /readyz says 503 before the listener closes"
    )
    tls: Tls | None = None
    behind_proxy: bool = Field(
        default=False, description="a proxy in front speaks TLS; production then listens beyond loopback"
    )
    webhooks: Webhooks = Webhooks()
    feature_flags: tuple[Feature, ...] = Field((), description="what is on trial, in a sandbox only: validate")
    auth: Auth = Auth()

    def conflicts(self) -> Iterator[Placed]:
        """Yield what breaks a rule over several keys."""
        yield from self._strays()
        yield from self._unsafe()
        if self.tls is not None and not self.base_url.startswith("https:"):
            yield ("base_url",), f"found {self.base_url!r}", "write https: with tls it begins with https:"
        login = self.auth.auto_login_user
        if login and login not in self.users:
            yield (
                ("auth", "auto_login_user"),
                f"found {login!r}",
                f"one of users; {nearest(login, self.users, 'users')}",
            )

    def warnings(self) -> Iterator[Placed]:
        """Yield addresses of a production service that clients call in the clear, and keys that nothing obeys."""
        for key in ("base_url", "auth_url") if self.environment is Environment.PRODUCTION else ():
            parts = urlsplit(getattr(self, key))
            if parts.scheme == "http" and not is_loopback(parts.hostname or ""):
                yield (key,), "clients call it in the clear", "use https://, with tls or behind a proxy that speaks it"
        for name, tenant in self.tenants.items():
            if tenant.network_mode == "real" and not tenant.connectors:
                yield (
                    ("tenants", name, "network_mode"),
                    "real without connectors",
                    "add connectors, or nothing is found",
                )
            elif tenant.connectors and self.mocked(name):
                yield (
                    ("tenants", name, "connectors"),
                    "not asked while network_mode is mocked",
                    "write network_mode: real, or leave them out",
                )
        for written in self.unheeded:
            yield tuple(written.split(".")), "nothing obeys it here", "leave it out until it is in force"

    def _strays(self) -> Iterator[Placed]:
        """Yield the accounts of tenants that are not named."""
        for kind, accounts in (("clients", self.clients), ("users", self.users)):
            for name, account in accounts.items():
                if account.tenant not in self.tenants:
                    advice = f"one of tenants; {nearest(account.tenant, self.tenants, 'tenants')}"
                    yield (kind, name, "tenant"), f"found {account.tenant!r}", advice

    def _unsafe(self) -> Iterator[Placed]:
        """Yield what is for a sandbox only, where this is none."""
        if self.environment is Environment.SANDBOX:
            return
        if self.test_hooks:
            yield ("test_hooks",), "found true", ONLY_SANDBOX
        for name, tenant in self.tenants.items():
            if tenant.network_mode == "mocked":
                yield ("tenants", name, "network_mode"), "found 'mocked'", ONLY_SANDBOX
            for laboratory, settings in tenant.laboratories.items():
                if settings.connector.type == SIMULATED:
                    path = ("tenants", name, "laboratories", laboratory, "connector", "type")
                    yield path, "found 'simulated'", ONLY_SANDBOX
        if self.auth.auto_login_user:
            yield ("auth", "auto_login_user"), f"found {self.auth.auto_login_user!r}", ONLY_SANDBOX
        for name, client in self.clients.items():
            for key, place in client.unprotected:
                advice = "write https: in production it is https, or http to this computer"
                yield ("clients", name, key, place), f"found {getattr(client, key)[place]!r}", advice

    def mocked(self, tenant: str) -> bool:
        """Say whether a tenant's sources are invented, so that nothing is asked outside; a sandbox's default."""
        mode = self.tenants[tenant].network_mode
        return mode == "mocked" or (mode is None and self.environment is Environment.SANDBOX)

    def laboratory(self, tenant: str, organization_id: str) -> Laboratory | None:
        """Return how orders get to a performer: simulated in a sandbox where nothing is said, None in production."""
        found = self.tenants[tenant].laboratories.get(organization_id)
        return found or (SIMULATED_LABORATORY if self.environment is Environment.SANDBOX else None)

    @property
    def token_url(self) -> str:
        """The base of the token endpoints."""
        return self.auth_url or self.base_url

    @property
    def path_prefix(self) -> str:
        """The path under which the service is reached, '' for the root."""
        return urlsplit(self.base_url).path

    @property
    def features(self) -> tuple[Feature, ...]:
        """The features on trial that are in force: those flagged, in a sandbox."""
        return self.feature_flags if self.environment is Environment.SANDBOX else ()

    @property
    def unheeded(self) -> tuple[str, ...]:
        """The keys that are set although nothing obeys them in this environment."""
        own = ["feature_flags"] if self.feature_flags != self.features else []
        for name, tenant in self.tenants.items():
            strays = tenant.adt.model_fields_set - {"enrollment"}
            own += [f"tenants.{name}.adt.{key}" for key in sorted(strays)]
        return tuple(own)


# Read anew at each request. All else is bound at the start: addresses, identifiers that were given, sockets, lifetimes.
LIVE: Final = frozenset(
    {
        "tenants",
        "clients",
        "users",
        "auth",
        "rate_limit",
        "max_body_bytes",
        "cursor_validity_s",
        "request_timeout_s",
        "stu3_path_aliases",
    }
)
RESTART: Final = "restart the service to put it in force"


def reread(source: AuthoredFile, running: ServiceConfiguration) -> ServiceConfiguration:
    """Return a configuration that may take the place of a running one.

    ConfigurationError: it is not valid, changes what is bound at the start, or lacks a tenant that is being served.
    """
    looked = look(source, ServiceConfiguration)
    new = looked.value
    problems = [*looked.problems, *(looked.located(_bound(new, running)) if new is not None else ())]
    if problems or new is None:
        raise ConfigurationError(tuple(problems))
    return new


def _bound(new: ServiceConfiguration, running: ServiceConfiguration) -> Iterator[Placed]:
    """Yield what a running service cannot change."""
    for name in ServiceConfiguration.model_fields:
        if name not in LIVE and getattr(new, name) != getattr(running, name):
            yield (name,), "changed while running", RESTART
    for name in running.tenants:
        if name not in new.tenants:
            yield ("tenants",), f"the tenant {name!r} is served and cannot go while running", RESTART
