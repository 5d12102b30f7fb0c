"""Jobs of the tests: asked for on the service's own loop, with works that wait for what a test says."""

import asyncio
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx

from engine.fhir.schema import FhirVersion
from engine.interchange.core.exchange import FhirRequest, HttpAnswer, Prefer
from engine.interchange.core.service import Service
from engine.interchange.jobs.asking import ask
from engine.interchange.jobs.job import JobResult, Report
from engine.interchange.kernel.exact import write_json
from engine.interchange.store.job import AsyncJob
from engine.interchange.tokens.vault import Principal
from tests.interchange.kit import CLIENTS, Inside, Running

# Who may carry out the operation may read the handle: this one is for clinicians, by GET and POST.
KIND = "everything"
DONE = {"resourceType": "Parameters", "parameter": [{"name": "status", "valueCode": "completed"}]}


def asked_by(client: str, version: FhirVersion = FhirVersion.R4) -> FhirRequest:
    """Return a request of one of the kit's clients."""
    tenant, scopes, role = CLIENTS[client]
    principal = Principal(client, "", tenant, role, scopes, "2025-06-01")
    return FhirRequest(version, "", "Patient", "", (), {}, Prefer(respond_async=True), principal, None)


def ask_for(
    inside: Inside,
    patient_id: str,
    asked: Mapping[str, Any] | None = None,
    *,
    kind: str = KIND,
    client: str = "physician",
    version: FhirVersion = FhirVersion.R4,
    wait_seconds: float = 0,
) -> HttpAnswer:
    """Ask for a job as an interaction does."""
    request = asked_by(client, version)
    answer: HttpAnswer = inside.run(ask(inside.app.service, request, kind, patient_id, asked or {}, wait_seconds))
    return answer


def handle_of(answer: HttpAnswer, service: Running) -> str:
    """Return the path of the handle that a 202 names."""
    headers = dict(answer.headers)
    assert answer.status == 202
    assert headers["location"] == headers["content-location"]
    assert headers["location"].startswith(f"{service.url}/fhir/")
    return headers["location"].removeprefix(service.url)


def ended(service: Running, handle: str, **who: str) -> httpx.Response:
    """Ask a handle until its job has ended, and return that answer; AssertionError after half a minute."""
    end = time.monotonic() + 30
    while (answer := service.ask("GET", handle, **who)).status_code == 202:
        assert time.monotonic() < end
        assert answer.headers["x-progress"]
        assert int(answer.headers["retry-after"]) > 0
        assert answer.content == b""
    return answer


def until(met: Callable[[], bool]) -> None:
    """Wait until something is so; AssertionError after half a minute."""
    end = time.monotonic() + 30
    while not met():
        assert time.monotonic() < end
        time.sleep(0.01)


@dataclass
class Bench:
    """A work that tells when it began and is over, and goes on once it is let; `done` counts how often it was done."""

    begun: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    over: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    jobs: list[AsyncJob] = field(default_factory=list)
    go: threading.Event = field(default_factory=threading.Event)
    say: threading.Event = field(default_factory=threading.Event)
    progress: tuple[Mapping[str, int | str], Mapping[str, int | str]] = (
        {"organizationsTotal": 4, "documentsFound": 1},
        {"organizationsTotal": 4, "documentsFound": 2},
    )
    result: JobResult = field(default_factory=lambda: JobResult(write_json(DONE)))
    done: int = 0

    async def work(self, _service: Service, job: AsyncJob, report: Report) -> JobResult:
        """Wait for the test, telling how far it is."""
        self.jobs.append(job)
        self.begun.release()
        try:
            await report(self.progress[0])
            while not self.go.is_set():
                # Of these all but one come within the second.
                if self.say.is_set():
                    await report(self.progress[1])
                await asyncio.sleep(0.001)
        finally:
            self.over.release()
        self.done += 1
        return self.result
