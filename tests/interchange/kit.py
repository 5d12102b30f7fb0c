"""The service over real HTTP: its command on a free port, a real SQLite file, and a small client.

`running` starts the real process; `running_inside` a thread, for tests that must see or change what is inside.
"""

import asyncio
import contextlib
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import httpx
import orjson
import uvloop
from fhir.resources.R4B import get_fhir_model_class as r4_model
from fhir.resources.STU3 import get_fhir_model_class as stu3_model

from engine.clock import now
from engine.config.account import Client, Role
from engine.config.secret import Secret
from engine.config.service import Environment, ServiceConfiguration, Tenant
from engine.interchange.app.application import WORK, ServiceApp, create_app, new_token
from engine.interchange.app.process import at_port, bind, serve_with_jobs, uvicorn_server
from engine.interchange.jobs.job import Work
from engine.interchange.store.place import Place, place_of
from engine.interchange.tokens.vault import Issued, issue_locally
from tests.interchange.lines import shared_client
from tests.interchange.places import place, url_of
from tests.interchange.process import FORKED, Process, started

SECRET = "a secret of the tests"
SYSTEM = "https://cdis.example"
MRN = "https://mrn.riverbend.example"
LIFE_SECONDS = 3600  # of a token
BASES = {"R4": "/fhir/R4", "STU3": "/fhir"}
RECORD_NUMBER_TYPE = {
    "coding": [{"system": "http://terminology.hl7.org/CodeSystem/v2-0203", "code": "MR"}],
    "text": "MRN",
}

CLIENTS = {
    "physician": ("riverbend", ("user/.",), Role.PHYSICIAN),
    "read": ("riverbend", ("patient/*.read",), Role.PHYSICIAN),
    "pread": ("riverbend", ("patient.read",), Role.PHYSICIAN),
    "patient360": ("riverbend", ("patient360",), Role.PHYSICIAN),
    "pwrite": ("riverbend", ("patient.write",), Role.PHYSICIAN),
    "observation": ("riverbend", ("user/Observation.read",), Role.PHYSICIAN),
    "nurse": ("riverbend", ("user/.",), Role.NURSE),
    "administrative": ("riverbend", ("user/.",), Role.ADMINISTRATIVE),
    "system": ("riverbend", ("system/*.*",), Role.SYSTEM_INTEGRATION),
    "other": ("lakeside", ("user/.",), Role.PHYSICIAN),
    "lax": ("lax", ("user/Observation.read", "user/Patient.read"), Role.PHYSICIAN),
}


def configuration(secret_file: Path, **changes: Any) -> ServiceConfiguration:
    """Return a sandbox with two strict tenants, a lax one, and a client for each kind of account."""
    settings: dict[str, Any] = {
        "environment": Environment.SANDBOX,
        "base_url": "http://127.0.0.1:0",
        "service_identifier_system": SYSTEM,
        "tenants": {"riverbend": Tenant(), "lakeside": Tenant(), "lax": Tenant(scope_enforcement="off")},
        "clients": {
            name: Client(
                tenant=tenant,
                secret=Secret(file=str(secret_file)),
                name=f"The {name}",
                grants=("client_credentials", "refresh_token"),
                scopes=scopes,
                role=role,
            )
            for name, (tenant, scopes, role) in CLIENTS.items()
        },
        "test_hooks": True,
    }
    return ServiceConfiguration(**{**settings, **changes})


@dataclass
class Running:
    """A running service: its configuration, its address, its database, and tokens by client."""

    settings: ServiceConfiguration
    url: str
    port: int
    database: Place
    http: httpx.Client
    tokens: dict[str, str] = field(default_factory=dict)
    asked_at: float = field(default_factory=time.monotonic)

    def ask(self, method: str, path: str, *, client: str = "physician", scope: str = "", **more: Any) -> httpx.Response:
        """Send a request as a client, with all its scopes or the one given; `json` becomes the body."""
        headers = {"authorization": f"Bearer {self.token(client, scope)}", **more.pop("headers", {})}
        if "/Binary" in path:
            # Whoever does not ask for the resource gets what it contains.
            headers.setdefault("accept", "application/fhir+json")
        if "json" in more:
            more["content"] = orjson.dumps(more.pop("json"))
            headers.setdefault("content-type", "application/fhir+json")
        answer = self.http.request(method, self.url + path, headers=headers, **more)
        conforms(answer, path)
        return answer

    def token(self, client: str, scope: str = "") -> str:
        """Return an access token of a client, with all its scopes or those given, asking for one the first time."""
        known = f"{client} {scope}".strip()
        if time.monotonic() - self.asked_at > LIFE_SECONDS / 2:
            self.tokens.clear()
            self.asked_at = time.monotonic()
        if known not in self.tokens:
            fields = {"grant_type": "client_credentials", "client_id": client, "client_secret": SECRET}
            fields["scope"] = scope or " ".join(CLIENTS[client][1])
            answer = self.http.post(f"{self.url}/oauth/token", data=fields)
            assert answer.status_code == 200, answer.text
            self.tokens[known] = answer.json()["access_token"]
        return self.tokens[known]

    def pair(self, client: str = "physician", scope: str = "user/.") -> Issued:
        """Return an access and a refresh token, as a local administrator gets them (`interchange token`)."""
        scopes = f"{scope} offline_access"
        return issue_locally(self.settings, self.database, client, scopes, now, new_token)

    def create(self, base: str = "/fhir/R4", *, client: str = "physician", **elements: Any) -> dict[str, Any]:
        """Create a patient and return it as it is kept."""
        headers = {"prefer": "create-always"}
        answer = self.ask("POST", f"{base}/Patient", client=client, json=patient(**elements), headers=headers)
        assert answer.status_code == 201, answer.text
        return answer.json()

    def advance(self, seconds: float) -> None:
        """Put the service's clock forward."""
        assert self.http.post(f"{self.url}/_test/clock", json={"advance_seconds": seconds}).status_code == 200


@dataclass
class Outside(Running):
    """A service in its own process."""

    folder: Path = field(kw_only=True)
    process: Process = field(kw_only=True)

    def reload(self, **changes: Any) -> list[dict[str, Any]]:
        """Let it take up another configuration; return what its log says of that."""
        settings = configuration(self.folder / "secret", **changes)
        return self.process.reload(settings)


@dataclass
class Inside(Running):
    """A service in a thread of the tests."""

    app: ServiceApp = field(kw_only=True)
    loop: asyncio.AbstractEventLoop = field(kw_only=True)

    def run(self, coroutine: Any) -> Any:
        """Run a coroutine on the service's loop."""
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(60)


def conforms(answer: httpx.Response, path: str) -> None:
    """Hold every FHIR answer to HL7's definitions of its version, as fhir.resources knows them."""
    if answer.content and answer.headers["content-type"].startswith("application/fhir+json"):
        model = r4_model if path.startswith("/fhir/R4") else stu3_model
        model(answer.json()["resourceType"]).model_validate(answer.json())


def patient(**elements: Any) -> dict[str, Any]:
    """Return a complete Patient; an element given as None is left out."""
    made: dict[str, Any] = {
        "resourceType": "Patient",
        "name": [{"use": "official", "family": "Quintero", "given": ["Marisol", "Ines"]}],
        "gender": "female",
        "birthDate": "1984-02-29",
    }
    return {name: value for name, value in {**made, **elements}.items() if value is not None}


def record_number(value: str) -> dict[str, Any]:
    """Return an external medical record number."""
    return {"type": RECORD_NUMBER_TYPE, "system": MRN, "value": value}


def merge_body(source: Any, target: Any, **more: Any) -> dict[str, Any]:
    """Return the Parameters of a merge: an id is a literal reference, a pair an identifier, None leaves a side out."""
    parameters = []
    for side, named in (("source", source), ("target", target)):
        if isinstance(named, tuple):
            value = {"system": named[0], "value": named[1]}
            parameters.append({"name": f"{side}-patient-identifier", "valueIdentifier": value})
        elif named is not None:
            parameters.append({"name": f"{side}-patient", "valueReference": {"reference": f"Patient/{named}"}})
    parameters += [
        {"name": "preview", f"value{'Boolean' if isinstance(v, bool) else 'String'}": v} for v in more.values()
    ]
    return {"resourceType": "Parameters", "parameter": parameters}


def issue(answer: httpx.Response, status: int, code: str) -> dict[str, Any]:
    """Return the first issue of an answer that must be an OperationOutcome of this status and code."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"].startswith("application/fhir+json")
    outcome = answer.json()
    assert outcome["resourceType"] == "OperationOutcome"
    for one in outcome["issue"]:
        assert one["severity"] == "error"
        assert one["diagnostics"]
        assert isinstance(one["location"], list)
    assert outcome["issue"][0]["code"] == code, answer.text
    return outcome["issue"][0]


def secret_file(folder: Path) -> Path:
    """Return a file that holds the clients' secret."""
    file = folder / "secret"
    file.touch(0o600)
    file.write_text(SECRET)
    return file


@contextlib.contextmanager
def running(
    folder: Path, *, command: tuple[str, ...] = FORKED, database: str = "", **changes: Any
) -> Iterator[Outside]:
    """Run the service as a process until the block ends; it must then stop in order.

    `database` is where it keeps its data, '' for a place of its own.
    """
    settings = configuration(secret_file(folder), **changes)
    url = database or url_of(folder)
    with started(folder, settings, command, database=url) as process, shared_client() as http:
        yield Outside(settings, process.url, process.port, place_of(url), http, folder=folder, process=process)


@contextlib.contextmanager
def running_inside(folder: Path, works: Mapping[str, Work] = MappingProxyType({}), **changes: Any) -> Iterator[Inside]:
    """Run the service in a thread until the block ends; `works` are kinds of jobs of the tests."""
    listening = bind("127.0.0.1", 0)
    port = listening.getsockname()[1]
    settings = at_port(configuration(secret_file(folder), **changes), port)
    app = create_app(settings, place(folder), works={**WORK, **works})
    server = uvicorn_server(app)
    loop = uvloop.new_event_loop()
    thread = threading.Thread(target=lambda: loop.run_until_complete(serve_with_jobs(server, app, listening)))
    thread.start()
    try:
        with shared_client() as http:
            yield Inside(settings, settings.base_url, port, place(folder), http, app=app, loop=loop)
    finally:
        server.should_exit = True
        thread.join(60)
        app.close()
        listening.close()
        loop.close()
