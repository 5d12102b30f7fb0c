"""A fast FHIR sink in a process of its own, so that benchmarks measure the engine and not the server.

    python tests/benchmarks/sink.py [--port N] [--latency-ms N] [--receivers N]

Prints `sink listens on <ports of receivers> 127.0.0.1:<port>` once it listens; a receiver answers each block with AA.
It keeps resources in memory: POST answers 201, PUT 200 with ETag and the body, a read or a search by identifier what
was written; any other search finds nothing. `Patient/$merge` lets the source be replaced by the target, or with
`preview` changes nothing. Of writes only those with a version that never was (`If-Match: W/"0"`, as a trial of it
sends) are refused. `GET /count` answers how many writes, requests and blocks came in, and when the last one did, by the
system's monotonic clock.
"""

import argparse
import asyncio
import time
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httptools
import orjson
import uvloop

HEAD = b"HTTP/1.1 %s\r\nContent-Type: application/fhir+json\r\nContent-Length: %d\r\n%s\r\n"
NEVER = b'W/"0"'
REFUSED = HEAD % (b"412 Precondition Failed", 2, b"") + b"{}"
TYPES = ("Patient", "Encounter", "Practitioner", "Location", "Organization")
STATEMENT = {
    "resourceType": "CapabilityStatement",
    "fhirVersion": "4.0.1",
    "rest": [
        {
            "mode": "server",
            "resource": [
                {
                    "type": type_,
                    "versioning": "versioned-update",
                    "conditionalCreate": True,
                    "operation": [{"name": "merge", "definition": "Patient-merge"}] if type_ == "Patient" else [],
                }
                for type_ in TYPES
            ],
        }
    ],
}


class Store:
    """Resources by type and id, and these by type and identifier."""

    def __init__(self) -> None:
        self.resources: dict[str, dict[str, Any]] = {}
        self.by_identifier: dict[str, str] = {}
        self.writes = 0
        self.requests = 0
        self.blocks = 0
        self.last = 0.0

    def write(self, name: str, resource: dict[str, Any]) -> tuple[bytes, str]:
        """Keep a resource as the next version of its name (`Patient/s1`); return its JSON and version."""
        held = self.resources.get(name)
        version = str(int(held["meta"]["versionId"]) + 1) if held else "1"
        type_, _, resource["id"] = name.partition("/")
        resource["meta"] = {"versionId": version}
        self.resources[name] = resource
        for item in resource.get("identifier", ()):
            self.by_identifier[f"{type_} {item.get('system')}|{item.get('value')}"] = name
        return orjson.dumps(resource), version

    def merge(self, parameters: dict[str, Any]) -> bytes:
        """Let the source be replaced by the target, unless this is a preview; return Parameters with the survivor."""
        given = {one["name"]: one for one in parameters["parameter"]}
        source, target = (given[f"{side}-patient"]["valueReference"]["reference"] for side in ("source", "target"))
        if "preview" not in given:
            self.writes += 1
            merged, survivor = self.resources[source], self.resources[target]
            old = [item | {"use": "old"} for item in merged.get("identifier", ())]
            self.write(source, merged | {"active": False, "link": [_link(target, "replaced-by")]})
            more = {"identifier": old, "link": [_link(source, "replaces")]}
            self.write(target, survivor | {name: [*survivor.get(name, ()), *items] for name, items in more.items()})
        result = {"name": "result", "resource": self.resources[target]}
        return orjson.dumps({"resourceType": "Parameters", "parameter": [result]})

    def search(self, type_: str, query: str) -> bytes:
        """Return a Bundle of the resources of a type with one of the identifiers."""
        tokens = [f"{type_} {token}" for token in parse_qs(query).get("identifier", [""])[0].split(",")]
        found = {self.by_identifier[token] for token in tokens if token in self.by_identifier}
        entry = [{"resource": self.resources[name]} for name in found]
        return orjson.dumps({"resourceType": "Bundle", "type": "searchset", "total": len(entry), "entry": entry})


def _link(reference: str, type_: str) -> dict[str, Any]:
    return {"other": {"reference": reference}, "type": type_}


class Connection(asyncio.Protocol):
    """One connection: httptools parses, the store answers."""

    def __init__(self, store: Store, latency: float) -> None:
        self._store = store
        self._latency = latency
        self._parser = httptools.HttpRequestParser(self)
        self._url = b""
        self._body = b""
        self._trial = False

    def connection_made(self, transport: Any) -> None:
        """Keep the transport."""
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Feed the parser."""
        self._parser.feed_data(data)

    def on_url(self, url: bytes) -> None:
        """Take a part of the URL."""
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """Notice a trial of If-Match."""
        if value == NEVER and name.lower() == b"if-match":
            self._trial = True

    def on_body(self, body: bytes) -> None:
        """Take a part of the body."""
        self._body += body

    def on_message_complete(self) -> None:
        """Answer, at once or after the latency."""
        answer = REFUSED if self._trial else self._answer(self._parser.get_method(), self._url.decode(), self._body)
        self._url, self._body, self._trial = b"", b"", False
        if self._latency:
            asyncio.get_running_loop().call_later(self._latency, self._transport.write, answer)
        else:
            self._transport.write(answer)

    def _answer(self, method: bytes, url: str, body: bytes) -> bytes:
        store, parts = self._store, urlsplit(url)
        if not parts.path.endswith("/count"):
            store.requests += 1
            store.last = time.monotonic()
        above, _, last = parts.path.rpartition("/")
        type_ = above.rpartition("/")[2]
        name = f"{type_}/{last}" if type_ in TYPES else ""
        if method == b"POST" and last == "$merge":
            return _response(b"200 OK", store.merge(orjson.loads(body)))
        if method == b"PUT" and name:
            store.writes += 1
            content, version = store.write(name, orjson.loads(body))
            return _response(b"200 OK", content, b'ETag: W/"%s"\r\n' % version.encode())
        if method == b"POST" and last in TYPES:
            store.writes += 1
            logical_id = f"s{len(store.resources) + 1}"
            content, version = store.write(f"{last}/{logical_id}", orjson.loads(body))
            more = b'ETag: W/"%s"\r\nLocation: %s/%s\r\n' % (version.encode(), parts.path.encode(), logical_id.encode())
            return _response(b"201 Created", content, more)
        fixed = {
            "metadata": STATEMENT,
            "token": {"access_token": "sink", "expires_in": 3600},
            "count": {"writes": store.writes, "requests": store.requests, "blocks": store.blocks, "last": store.last},
        }.get(last)
        if fixed is not None:
            return _response(b"200 OK", orjson.dumps(fixed))
        if name:
            held = store.resources.get(name)
            return _response(b"200 OK", orjson.dumps(held)) if held else _response(b"404 Not Found", b"{}")
        return _response(b"200 OK", store.search(last, parts.query))


def _response(status: bytes, content: bytes, more: bytes = b"") -> bytes:
    return HEAD % (status, len(content), more) + content


class Receiver(asyncio.Protocol):
    """One connection by MLLP: each block is acknowledged."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._rest = b""

    def connection_made(self, transport: Any) -> None:
        """Keep the transport."""
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Acknowledge what is whole."""
        *blocks, self._rest = (self._rest + data).split(b"\x1c\r")
        for block in blocks:
            self._store.blocks += 1
            self._store.last = time.monotonic()
            control_id = block.split(b"|", 10)[9]
            self._transport.write(b"\x0bMSH|^~\\&|S||||||ACK|1|P|2.5\rMSA|AA|%s\r\x1c\r" % control_id)


async def serve(port: int, latency: float, receivers: int) -> None:
    """Listen until the process ends."""
    store = Store()
    loop = asyncio.get_running_loop()
    lines = [await loop.create_server(lambda: Receiver(store), "127.0.0.1", 0) for _ in range(receivers)]
    ports = ",".join(str(line.sockets[0].getsockname()[1]) for line in lines)
    server = await loop.create_server(lambda: Connection(store, latency), "127.0.0.1", port)
    print(f"sink listens on {ports} 127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)  # noqa: T201
    await server.serve_forever()


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--port", type=int, default=0)
    options.add_argument("--latency-ms", type=float, default=0.0)
    options.add_argument("--receivers", type=int, default=0)
    chosen = options.parse_args()
    uvloop.run(serve(chosen.port, chosen.latency_ms / 1000, chosen.receivers))
