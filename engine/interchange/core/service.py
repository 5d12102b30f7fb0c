"""The service as one value: configuration, store, tokens, clock and ids, handed to every interaction."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from engine.config.service import ServiceConfiguration, Tenant
from engine.fhir.schema import FhirVersion
from engine.interchange.core.audit.recorder import Recorder
from engine.interchange.kernel.outbound import Outbound
from engine.interchange.kernel.throttle import RequestThrottle
from engine.interchange.store.job import AsyncJob
from engine.interchange.store.store import Store
from engine.interchange.tokens.code import AuthorizationCodes
from engine.interchange.tokens.identity import Signer
from engine.interchange.tokens.vault import Vault

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
