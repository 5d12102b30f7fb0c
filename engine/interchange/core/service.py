"""The service as one value (configuration, store, tokens, clock, ids), handed to every interaction; its rate limit."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from engine.config.service import RateLimit, ServiceConfiguration, Tenant
from engine.fhir.schema import FhirVersion
from engine.interchange.core.audit.recorder import Recorder
from engine.interchange.kernel.outbound import Outbound
from engine.interchange.store.job import AsyncJob
from engine.interchange.store.store import Store
from engine.interchange.tokens.code import AuthorizationCodes
from engine.interchange.tokens.identity import Signer
from engine.interchange.tokens.vault import Vault

# The cost of a call; a rate of one call per minute earns one unit per microsecond, so that all numbers are integers.
CALL: Final = 60_000_000
MICROSECOND: Final = timedelta(microseconds=1)


class Bucket(NamedTuple):
    """The remaining units of a client at a time; a call costs `CALL` units."""

    units: int
    at: datetime


def take(bucket: Bucket | None, limit: RateLimit, at: datetime) -> tuple[Bucket, int]:
    """Return a bucket after one call, and 0; without enough units the whole seconds until the next call, 1 or more.

    None is a new client, with a full bucket. A clock that goes back adds no units.
    """
    rate = limit.per_client_per_minute
    full = (limit.burst or rate) * CALL
    if bucket is None:
        return Bucket(full - CALL, at), 0
    latest = max(at, bucket.at)
    units = min(bucket.units + (latest - bucket.at) // MICROSECOND * rate, full)
    if units >= CALL:
        return Bucket(units - CALL, latest), 0
    return Bucket(units, latest), -((units - CALL) // (rate * 1_000_000))


class RequestThrottle:
    """The buckets of all clients."""

    def __init__(self) -> None:
        self._buckets: dict[str, Bucket] = {}

    def wait(self, client: str, limit: RateLimit, at: datetime) -> int:
        """Count a call of a client; return 0, or the seconds until it may call again."""
        self._buckets[client], seconds = take(self._buckets.get(client), limit, at)
        return seconds


# Documents generated from charts at a time: each uses a thread, for a large chart a process.
DOCUMENTS_AT_ONCE: Final = 2
# Documents imported at a time: with four threads at work a request takes half a second.
IMPORTS_AT_ONCE: Final = 1


def _uncounted(_kind: str, _state: str, _seconds: float) -> None:
    """Count nothing."""


@dataclass(slots=True)
class JobSignals:
    """`wakeup` is set when there may be work; `ended` is called with kind, state and seconds of an ended job."""

    wakeup: asyncio.Event = field(default_factory=asyncio.Event)
    ended: Callable[[str, str, float], None] = _uncounted


@dataclass(slots=True)
class Service:
    """Context of all interactions; a reload replaces `configuration`, which is read at each request.

    `seal_secret` signs paging cursors. `laboratory_wakeup` is set when an order may be sent, `webhook_wakeup` when an
    event is queued for a webhook.
    """

    configuration: ServiceConfiguration
    store: Store
    vault: Vault
    codes: AuthorizationCodes
    clock: Callable[[], datetime]
    new_id: Callable[[], str]
    seal_secret: bytes = field(repr=False)
    signer: Signer = field(init=False)
    recorder: Recorder = field(init=False)
    throttle: RequestThrottle = field(default_factory=RequestThrottle)
    outbound: Outbound = field(default_factory=Outbound)
    job_signals: JobSignals = field(default_factory=JobSignals)
    laboratory_wakeup: asyncio.Event = field(default_factory=asyncio.Event)
    webhook_wakeup: asyncio.Event = field(default_factory=asyncio.Event)
    documents: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(DOCUMENTS_AT_ONCE))
    imports: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(IMPORTS_AT_ONCE))

    def __post_init__(self) -> None:
        self.signer = Signer(self.store)
        self.recorder = Recorder(self.store)

    def tenant(self, name: str) -> Tenant:
        """Return a tenant's settings."""
        return self.configuration.tenants[name]

    def base(self, version: FhirVersion) -> str:
        """Return the base address of a FHIR version."""
        return self.configuration.base_url + ("/fhir/R4" if version is FhirVersion.R4 else "/fhir")

    def handle(self, job: AsyncJob) -> str:
        """Return the status address of a job."""
        return f"{self.base(job.version)}/RequestResult/{job.id}"
