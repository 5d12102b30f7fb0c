"""Jobs of the tests: asked for on the service's own loop, with works that wait for what a test says."""

import asyncio
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx

from engine.fhir.schema import FhirVersion
from engine.interchange.exact import write_json
from engine.interchange.exchange import Answer, Prefer, Request
from engine.interchange.jobs.asking import ask
from engine.interchange.jobs.job import Job, Report, Result
from engine.interchange.oauth.vault import Principal
from engine.interchange.service import Service
from tests.interchange.kit import CLIENTS, Inside, Running

# Who may carry out the operation may read the handle: this one is for clinicians, by GET and POST.
KIND = "everything"
DONE = {"resourceType": "Parameters", "parameter": [{"name": "status", "valueCode": "completed"}]}


def asked_by(client: str, version: FhirVersion = FhirVersion.R4) -> Request:
    """Return a request of one of the kit's clients."""
    tenant, scopes, role = CLIENTS[client]
    principal = Principal(client, "", tenant, role, scopes, "2025-06-01")
    return Request(version, "", "Patient", "", (), {}, Prefer(respond_async=True), principal, None)


def ask_for(
    inside: Inside,
    patient_id: str,
    asked: Mapping[str, Any] | None = None,
    *,
    kind: str = KIND,
    client: str = "physician",
    version: FhirVersion = FhirVersion.R4,
) -> Answer:
    """Ask for a job as an interaction does."""
    answer: Answer = inside.run(ask(inside.app.service, asked_by(client, version), kind, patient_id, asked or {}))
    return answer


def handle_of(answer: Answer, service: Running) -> str:
    """Return the path of the handle that a 202 names."""
    headers = dict(answer.headers)
    assert answer.status == 202
    assert headers["location"] == headers["content-location"]
    assert headers["location"].startswith(f"{service.url}/fhir/")
    return headers["location"].removeprefix(service.url)


def ended(service: Running, handle: str, **who: str) -> httpx.Response:
    """Ask a handle until its job has ended, and return that answer."""
    while (answer := service.ask("GET", handle, **who)).status_code == 202:
        assert answer.headers["x-progress"]
        assert int(answer.headers["retry-after"]) > 0
        assert answer.content == b""
    return answer


@dataclass
class Bench:
    """A work that tells when it began, and goes on once it is let; `done` counts how often it came to its end."""

    begun: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    jobs: list[Job] = field(default_factory=list)
    go: threading.Event = field(default_factory=threading.Event)
    done: int = 0
    result: Result = field(default_factory=lambda: Result(write_json(DONE)))

    async def work(self, _service: Service, job: Job, report: Report) -> Result:
        """Wait for the test, telling how far it is."""
        self.jobs.append(job)
        self.begun.release()
        await report({"organizationsTotal": 4, "documentsFound": 1})
        while not self.go.is_set():  # noqa: ASYNC110 - set by another thread
            await asyncio.sleep(0.001)
        self.done += 1
        return self.result
