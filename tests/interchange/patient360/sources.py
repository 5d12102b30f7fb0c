"""What the tests of sources share: a subject, what a source hands over, and a server that answers by a script."""

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import orjson

from engine.clock import now
from engine.config.connector import Connector as Settings
from engine.config.source import parse, validate
from engine.interchange.kernel.outbound import Outbound
from engine.interchange.network.patient360.connectors.connector import (
    DocumentSource,
    RequestedPatient,
    RetrievedDocument,
    subject_of,
)
from engine.interchange.network.patient360.connectors.fhir import FhirServer
from tests.interchange.kit import MRN, patient

ADDRESS = [{"line": ["12 Alder Way"], "city": "Keswick", "state": "OR", "postalCode": "97301"}]


def subject(number: str = "", **elements: Any) -> RequestedPatient:
    """Return a patient of the tests, with a number if one is given, as a source is asked about."""
    identifier = [{"system": MRN, "value": number}] if number else []
    return subject_of("riverbend", {"id": "p1", **patient(identifier=identifier, address=ADDRESS, **elements)})


def retrieved(connector: DocumentSource, who: RequestedPatient) -> list[RetrievedDocument]:
    """Return all that a source hands over."""

    async def ask() -> list[RetrievedDocument]:
        return [one async for one in connector.retrieve(who)]

    return asyncio.run(ask())


def settings(**keys: Any) -> Settings:
    """Return a connector's settings, as a file has them."""
    return validate(parse(orjson.dumps(keys).decode(), "connector.yaml"), Settings)


def server(url: str, outbound: Outbound | None = None, **keys: Any) -> FhirServer:
    """Return the connector to a FHIR server."""
    numbers = iter(range(1000))
    made = settings(type="fhir", url=url, **keys)
    return FhirServer("other", made, outbound or Outbound(), now, lambda: f"id-{next(numbers)}")


Said = tuple[int, dict[str, str], bytes]


@dataclass
class Scripted:
    """A server on a free port whose answers a test says; `asked` are method, path, body and headers of all requests."""

    script: Callable[[str, str], Said]
    url: str = ""
    asked: list[tuple[str, str, bytes, dict[str, str]]] = field(default_factory=list)


def fhir(resource: Any, status: int = 200) -> Said:
    """Return an answer that is a resource."""
    return status, {"content-type": "application/fhir+json"}, orjson.dumps(resource)


def bundle(*resources: Any, **links: str) -> dict[str, Any]:
    """Return a searchset with links."""
    made = {"resourceType": "Bundle", "type": "searchset", "entry": [{"resource": resource} for resource in resources]}
    return {**made, "link": [{"relation": name, "url": url} for name, url in links.items()]}


@contextlib.contextmanager
def scripted(script: Callable[[str, str], Said]) -> Iterator[Scripted]:
    """Run a server until the block ends."""
    found = Scripted(script)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1

        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            told = {name.lower(): value for name, value in self.headers.items()}
            found.asked.append((self.command, self.path, body, told))
            status, headers, text = found.script(self.command, self.path)
            with contextlib.suppress(ConnectionError):
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("content-length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

        do_GET = do_POST = _answer  # noqa: N815 - as the base class asks for them

        def log_message(self, *_: Any) -> None:
            """Keep quiet."""

    listening = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    listening.daemon_threads = True
    found.url = f"http://127.0.0.1:{listening.server_port}/fhir"
    thread = threading.Thread(target=listening.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield found
    finally:
        listening.shutdown()
        listening.server_close()
        thread.join()
