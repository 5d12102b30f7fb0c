"""The interchange service's configuration as a frozen value: environment, addresses, tenants, clients and limits."""

from enum import StrEnum
from typing import Any, Final, Literal
from urllib.parse import urlsplit

from pydantic import Field, model_validator

from engine.config.account import Auth, Client, User
from engine.config.frozen import Frozen
from engine.config.secret import Secret

ADDRESS: Final = r"^https?://[^\s?#]+[^\s?#/]$"

# Keys that a file may hold although the rooms which obey them are not built; `unheeded` names those in use.
NOT_YET: Final = ("webhooks",)
NOT_YET_PER_TENANT: Final = (
    "network_mode",
    "leading_indicator",
    "clinical_alerts",
    "adt",
    "active_subscription_limit",
    "licensed_networks",
    "webhook_allow",
)
LATER: Final = "accepted, not in force yet"


class Environment(StrEnum):
    """Where the service stands; test hooks exist in a sandbox only."""

    SANDBOX = "sandbox"
    PRODUCTION = "production"


class Feature(StrEnum):
    """What is on trial in sandboxes ([FF] in the specification); one leaves the list when it becomes a part of all."""

    VALIDATE = "validate"  # POST /{type}/$validate


ApiVersion = Literal["2023-01-01", "2025-06-01"]


class Tenant(Frozen):
    """One organization whose patients nobody else sees."""

    duplicate_patient_limit: int = Field(10, ge=1, description="patients with the same demographics before 409")
    scope_enforcement: Literal["strict", "off"] = Field("strict", description="off: roles alone decide")
    rest_api_version: ApiVersion = Field("2025-06-01", description="of tokens that ask for none")
    network_mode: Literal["mocked", "real"] = Field("mocked", description=LATER)
    leading_indicator: bool = Field(default=False, description=LATER)
    clinical_alerts: dict[str, Any] = Field(default_factory=dict, description=LATER)
    adt: dict[str, Any] = Field(default_factory=dict, description=LATER)
    active_subscription_limit: int = Field(30, ge=1, description=LATER)
    licensed_networks: tuple[str, ...] = Field((), description=LATER)
    webhook_allow: tuple[str, ...] = Field((), description=LATER)


class RateLimit(Frozen):
    """How many FHIR calls one client may make: so many a minute, and `burst` at once (null: a minute's worth)."""

    per_client_per_minute: int = Field(ge=1, description="FHIR calls of one client, else 429; no limit by default")
    burst: int | None = Field(None, ge=1, description="calls at once; by default a minute's worth")


class Tls(Frozen):
    """The PEM files by which the service itself speaks TLS, 1.2 or newer."""

    certificate: str = Field(description="PEM file of the certificate chain")
    key: str = Field(description="PEM file of the private key")


class ServiceConfiguration(Frozen):
    """The whole configuration of one interchange service."""

    environment: Environment = Field(description="sandbox or production; a database stays with its first")
    base_url: str = Field(pattern=ADDRESS, description="the address that clients call; stands in links")
    auth_url: str = Field("", pattern=r"^$|" + ADDRESS, description="the same for /oauth; base_url by default")
    service_identifier_system: str = Field(
        pattern=r"^\S+$", description="system of the id that each patient gets; start of the service's own codes"
    )
    tenants: dict[str, Tenant] = Field(min_length=1, description="organizations, by name")
    clients: dict[str, Client] = Field(default_factory=dict, description="programs, by client_id")
    users: dict[str, User] = Field(default_factory=dict, description="people, by login")
    stu3_path_aliases: tuple[str, ...] = Field((), description="further names of the STU3 base, such as STU3")
    max_body_bytes: int = Field(10_485_760, ge=1024, description="largest body, else 413")
    request_timeout_s: float = Field(60, gt=0, description="longest a request may take, else 504")
    access_token_lifetime_s: int = Field(3600, ge=1, description="life of an access token")
    refresh_token_lifetime_s: int = Field(2_592_000, ge=1, description="life of a refresh token, anew at each rotation")
    test_hooks: bool = Field(default=False, description="POST /_test/...: clock, slow, fail; in a sandbox only")
    cursor_validity_s: int = Field(300, ge=1, description="how long a next link holds")
    rate_limit: RateLimit | None = None
    max_connections: int = Field(512, ge=1, description="connections at once, beyond them 503")
    drain_s: float = Field(0, ge=0, description="after SIGTERM: how long /readyz says 503 before the door closes")
    tls: Tls | None = None
    behind_proxy: bool = Field(
        default=False, description="a proxy in front speaks TLS; production then listens beyond loopback"
    )
    webhooks: dict[str, str] = Field(default_factory=dict, description=LATER)
    feature_flags: tuple[Feature, ...] = Field((), description="what is on trial, in a sandbox only: validate")
    auth: Auth = Auth()

    @model_validator(mode="after")
    def _whole(self) -> "ServiceConfiguration":
        accounts = [("client", name, client.tenant) for name, client in self.clients.items()]
        accounts += [("user", name, user.tenant) for name, user in self.users.items()]
        for kind, name, tenant in accounts:
            if tenant not in self.tenants:
                raise ValueError(f"{kind} {name} names the tenant {tenant!r}, which is not under tenants")
        if self.tls is not None and not self.base_url.startswith("https:"):
            raise ValueError("tls needs a base_url that begins with https:")
        if self.test_hooks and self.environment is not Environment.SANDBOX:
            raise ValueError("test_hooks need environment: sandbox")
        self._sign_in()
        return self

    def _sign_in(self) -> None:
        login = self.auth.auto_login_user
        if login and (self.environment is not Environment.SANDBOX or login not in self.users):
            raise ValueError("auth.auto_login_user needs environment: sandbox, and one of users")
        if self.environment is Environment.SANDBOX:
            return
        for name, client in self.clients.items():
            if client.unprotected:
                raise ValueError(f"client {name}: in production a redirect address is https, or http to this computer")

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
        """The keys that are set although nothing obeys them: not yet, or not in this environment."""
        own: list[str] = [key for key in NOT_YET if key in self.model_fields_set]
        own += ["feature_flags"] if self.feature_flags != self.features else []
        for name, tenant in self.tenants.items():
            own += [f"tenants.{name}.{key}" for key in NOT_YET_PER_TENANT if key in tenant.model_fields_set]
        return tuple(own)


def demo_configuration(base_url: str, secret: Secret, *, test_hooks: bool = False) -> ServiceConfiguration:
    """Return the demo's configuration: a sandbox, the tenant `riverbend`, and the client `engine` with all scopes."""
    return ServiceConfiguration(
        environment=Environment.SANDBOX,
        base_url=base_url,
        service_identifier_system="https://cdis.example",
        tenants={"riverbend": Tenant()},
        clients={"engine": Client(tenant="riverbend", secret=secret, name="adt-engine", scopes=("system/*.*",))},
        test_hooks=test_hooks,
    )
