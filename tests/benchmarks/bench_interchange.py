"""CPU of the interchange service for each kind of request, as its own process under full durability.

    python -m tests.benchmarks.bench_interchange [--patients 100000] [--requests 3000] [--connections 8] [--charts 20]
                                                 [--only read,update] [--postgresql] [--processes 2]

The service keeps `--patients` patients, laid in through its own store; then each kind of request runs over kept
connections. Printed: CPU milliseconds of the service a request (user and system), p50 and p99 of the answers, rate.
With --postgresql on a server of its own, under `database` the CPU milliseconds of that; its connections go to
--processes of the service in turn.
Then `everything`: `--charts` patients with charts of 5,000 resources each, each chart asked for once, one after the
other.
"""

import argparse
import asyncio
import contextlib
import itertools
import os
import platform
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import httpx
import orjson
import psutil

from engine.database.postgresql import connect
from engine.interchange.rest.patient.index import index_patient
from engine.interchange.store.place import Place, place_of
from engine.interchange.store.store import Store
from engine.interchange.store.transaction import Transaction
from tests.benchmarks.charts import SIZE, lay_in_charts
from tests.benchmarks.processes import cpu, cpu_of_all
from tests.postgresql import a_postgres

MRN = "https://mrn.riverbend.example"
TYPE = {"coding": [{"system": "http://terminology.hl7.org/CodeSystem/v2-0203", "code": "MR"}], "text": "MRN"}
AIMS = {
    "read": 0.25,
    "by identifier": 0.35,
    "name + birthdate": 0.5,
    "update": 0.85,
    "create": 0.9,
    "conditional": 1.2,
    "transaction": 4.0,
}
# Milliseconds that the first page of a chart of 5,000 resources may take.
CHART_AIM = 200
CHART_QUERIES = {
    "first page": "R4/Patient/{}/$everything",
    "first of 500": "R4/Patient/{}/$everything?_count=500",
    "one type": "R4/Patient/{}/$everything?_type=Encounter",
    "days": "R4/Patient/{}/$everything?start=2018-01-01&end=2018-12-31",
    "STU3": "Patient/{}/$everything",
}
BATCH = 2000
# A small server's memory, as its manual advises it: a quarter of 2 GB.
SERVER = ("shared_buffers=512MB", "max_wal_size=4GB")
FAMILIES = [
    f"{first}{middle}{last}"
    for first in ("Quin", "Van", "Sor", "Kel", "Mar", "Ob")
    for middle in ("ter", "dal", "min", "ro", "sa")
    for last in ("o", "ez", "son", "ley", "ick", "er", "stein", "i")
]
GIVEN = [
    "Marisol",
    "Elisabeth",
    "Bo",
    "Ines",
    "Al",
    "Zoe",
    "Ama",
    "Ike",
    "Lea",
    "Tom",
    "Una",
    "Vic",
    "Wim",
    "Yul",
    "Ada",
    "Ben",
]

Make = Callable[[int], tuple[str, str, dict[str, str], bytes]]


class Kind(NamedTuple):
    """One kind of request: its name, and what makes the nth of it."""

    name: str
    make: Make


def person(number: int) -> dict[str, Any]:
    """Return the nth patient, about 900 bytes; the same for the same number."""
    chance = random.Random(number)
    born = date(1930, 1, 1) + timedelta(days=chance.randrange(33_000))
    return {
        "resourceType": "Patient",
        "active": True,
        "identifier": [{"type": TYPE, "system": MRN, "value": f"RB-{number}"}],
        "name": [
            {
                "use": "official",
                "family": chance.choice(FAMILIES),
                "given": [chance.choice(GIVEN), chance.choice(GIVEN)],
            }
        ],
        "gender": chance.choice(["male", "female"]),
        "birthDate": born.isoformat(),
        "telecom": [{"system": "phone", "value": f"+1 503 555 {number % 10_000:04d}", "use": "home"}],
        "address": [
            {
                "use": "home",
                "line": ["12 Alder Way"],
                "city": "Keswick",
                "state": "OR",
                "postalCode": f"{97_000 + number % 500}",
            }
        ],
        "maritalStatus": {
            "coding": [{"system": "http://terminology.hl7.org/CodeSystem/v3-MaritalStatus", "code": "M"}]
        },
        "communication": [{"language": {"coding": [{"system": "urn:ietf:bcp:47", "code": "es"}]}, "preferred": True}],
    }


def lay_in(place: Place, patients: int) -> None:
    """Put patients into a store before the service starts."""
    store = Store(place, ["riverbend"], lambda: datetime.now(UTC), {"Patient": index_patient})

    def some(numbers: range) -> Callable[[Transaction], None]:
        def work(transaction: Transaction) -> None:
            for number in numbers:
                transaction.create("Patient", f"p{number}", person(number))

        return work

    for start in range(0, patients, BATCH):
        asyncio.run(store.write("riverbend", some(range(start, min(start + BATCH, patients)))))
    store.close()


def kinds(patients: int) -> list[Kind]:
    """Return the kinds of requests."""
    chance, fresh = random.Random(7), itertools.count(patients)
    json = {"content-type": "application/fhir+json"}

    def read(_: int) -> tuple[str, str, dict[str, str], bytes]:
        return "GET", f"/fhir/R4/Patient/p{chance.randrange(patients)}", {}, b""

    def identifier(_: int) -> tuple[str, str, dict[str, str], bytes]:
        return "GET", f"/fhir/R4/Patient?identifier={MRN}|RB-{chance.randrange(patients)}", {}, b""

    def named(_: int) -> tuple[str, str, dict[str, str], bytes]:
        one = person(chance.randrange(patients))
        name = one["name"][0]
        query = f"family={name['family']}&given={name['given'][0]}&birthdate={one['birthDate']}&gender={one['gender']}"
        return "GET", f"/fhir/R4/Patient?{query}", {}, b""

    def update(_: int) -> tuple[str, str, dict[str, str], bytes]:
        number = chance.randrange(patients)
        one = {**person(number), "id": f"p{number}"}
        one["address"][0]["line"] = [f"{chance.randrange(999)} Birch Row"]
        return "PUT", f"/fhir/R4/Patient/p{number}", json, orjson.dumps(one)

    def create(_: int) -> tuple[str, str, dict[str, str], bytes]:
        return "POST", "/fhir/R4/Patient", json | {"prefer": "create-always"}, orjson.dumps(person(next(fresh)))

    def conditional(_: int) -> tuple[str, str, dict[str, str], bytes]:
        one = person(next(fresh))
        name = one["name"][0]
        name["family"] += str(next(fresh))
        query = f"given={name['given'][0]}&family={name['family']}&gender={one['gender']}&birthdate={one['birthDate']}"
        return "POST", "/fhir/R4/Patient", json | {"if-none-exist": query}, orjson.dumps(one)

    def transaction(_: int) -> tuple[str, str, dict[str, str], bytes]:
        patient = f"Patient/p{chance.randrange(patients)}"
        return "POST", "/fhir/R4", json, orjson.dumps(visit(patient, next(fresh)))

    makes = (read, identifier, named, update, create, conditional, transaction)
    return [Kind(name, make) for name, make in zip(AIMS, makes, strict=True)]


def visit(patient: str, number: int) -> dict[str, Any]:
    """Return a transaction of 10 entries: a visit, whom and what it names, and what was found."""

    def entry(type_name: str, nth: int, **elements: Any) -> dict[str, Any]:
        url = f"urn:uuid:00000000-0000-4000-8000-{number:09d}{nth:03d}"
        resource = {"resourceType": type_name, "identifier": [{"system": MRN, "value": f"{number}-{nth}"}], **elements}
        return {"fullUrl": url, "resource": resource, "request": {"method": "POST", "url": type_name}}

    def code(text: str) -> dict[str, Any]:
        return {"coding": [{"system": "http://loinc.org", "code": text}]}

    def other(nth: int) -> dict[str, str]:
        return {"reference": f"urn:uuid:00000000-0000-4000-8000-{number:09d}{nth:03d}"}

    of = {"subject": {"reference": patient}}
    seen = [
        entry(
            "Observation",
            nth,
            status="final",
            code=code("2345-7"),
            valueQuantity={"value": 90 + nth, "unit": "mg/dL"},
            effectiveDateTime="2025-07-01T09:30:00Z",
            encounter=other(3),
            performer=[other(0)],
            **of,
        )
        for nth in range(6, 10)
    ]
    participant = [{"individual": other(0)}]
    stay = {"status": "in-progress", "class": {"code": "IMP"}, "period": {"start": "2025-07-01T09:00:00Z"}}
    entries = [
        entry("Practitioner", 0, name=[{"family": "Okafor"}]),
        entry("Organization", 1, name="Riverbend"),
        entry("Location", 2, name="Ward 4", managingOrganization=other(1)),
        entry("Encounter", 3, participant=participant, location=[{"location": other(2)}], **stay, **of),
        entry("Condition", 4, code=code("44054006"), encounter=other(3), **of),
        entry("Condition", 5, code=code("38341003"), encounter=other(3), **of),
        *seen,
    ]
    return {"resourceType": "Bundle", "type": "transaction", "entry": entries}


async def ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: bytes) -> int:
    """Send a request over a kept connection and return the answer's status."""
    writer.write(request)
    head = await reader.readuntil(b"\r\n\r\n")
    length = next(int(line[15:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:"))
    await reader.readexactly(length)
    return int(head[9:12])


def requests(kind: Kind, count: int, token: str) -> Iterator[bytes]:
    """Yield whole requests as bytes."""
    for number in range(count):
        method, path, headers, body = kind.make(number)
        told = {"host": "b", "authorization": f"Bearer {token}", "content-length": str(len(body)), **headers}
        head = "".join(f"{name}: {value}\r\n" for name, value in told.items())
        yield f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode() + body


async def drive(urls: list[str], work: list[bytes], connections: int) -> list[float]:
    """Send all requests over some connections, to each address in turn; return the seconds each took."""
    addresses = itertools.cycle([urlsplit(url) for url in urls])
    waiting = iter(work)
    seconds: list[float] = []

    async def line() -> None:
        address = next(addresses)
        reader, writer = await asyncio.open_connection(address.hostname, address.port)
        for request in waiting:
            started = time.perf_counter()
            status = await ask(reader, writer, request)
            seconds.append(time.perf_counter() - started)
            if status >= 300:
                raise SystemExit(f"{request[:60]!r} answered {status}")
        writer.close()

    await asyncio.gather(*(line() for _ in range(connections)))
    return seconds


def main() -> None:
    """Run every kind and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--patients", type=int, default=100_000)
    parser.add_argument("--requests", type=int, default=3000)
    parser.add_argument("--connections", type=int, default=8)
    parser.add_argument("--charts", type=int, default=20)
    parser.add_argument("--only", type=lambda text: text.split(","), default=list(AIMS), help=", ".join(AIMS))
    parser.add_argument("--postgresql", action="store_true", help="on PostgreSQL in place of SQLite")
    parser.add_argument("--processes", type=int, default=1, help="of the service, on one PostgreSQL")
    given = parser.parse_args()
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        if not given.postgresql:
            run(folder, given, f"sqlite:///{folder}/b.db")
            return
        server = stack.enter_context(a_postgres(on_disk=True))
        server.start(*SERVER)
        run(folder, given, server.address, psutil.Process(server.pid))


def show(line: str) -> None:
    """Print a line of the report."""
    print(line, flush=True)  # noqa: T201


def everything(url: str, token: str, process: psutil.Process, charts: int) -> None:
    """Ask for each large chart once in each way, one after the other; print CPU, p50 and the slowest of the answers."""
    show(f"{'everything':<18}{'CPU ms':>8}{'aim':>7}{'p50 ms':>9}{'max ms':>9}")
    with httpx.Client(base_url=f"{url}/fhir/", headers={"authorization": f"Bearer {token}"}, trust_env=False) as client:
        for name, query in CHART_QUERIES.items():
            before, seconds = cpu(process), []
            for number in range(charts):
                started = time.perf_counter()
                answer = client.get(query.format(f"c{number}"))
                seconds.append(time.perf_counter() - started)
                assert answer.json()["total"] >= (SIZE if "?" not in query else 1)
            used, slowest = cpu(process) - before, max(seconds)
            p50 = sorted(seconds)[charts // 2]
            show(f"{name:<18}{used / charts * 1000:>8.2f}{CHART_AIM:>7}{p50 * 1000:>9.2f}{slowest * 1000:>9.2f}")


@contextlib.contextmanager
def serving(folder: Path, database: str = "", **tenant: Any) -> Iterator[tuple[str, str, psutil.Process]]:
    """Run the service; yield its address, a token for everything, and its process.

    `database` is where it keeps its data, '' for `b.db` of the folder.
    """
    configuration = {
        "environment": "sandbox",
        "base_url": "http://127.0.0.1:0",
        "service_identifier_system": "https://cdis.example",
        "tenants": {"riverbend": tenant},
        "clients": {"b": {"tenant": "riverbend", "secret": {"env": "BENCH_SECRET"}, "scopes": ["system/*.*"]}},
    }
    (folder / "b.yaml").write_bytes(orjson.dumps(configuration))
    command = [
        sys.executable,
        "-c",
        "from engine.interchange.app.commands.interchange import app; app()",
        "--config",
        f"{folder}/b.yaml",
    ]
    command += ["--port", "0", "--database", database or f"sqlite:///{folder}/b.db"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, env={**os.environ, "BENCH_SECRET": "b"}, text=True
    ) as service:
        assert service.stdout is not None
        url = service.stdout.readline().split()[-1]
        process = psutil.Process(service.pid)
        fields = {"grant_type": "client_credentials", "client_id": "b", "client_secret": "b", "scope": "system/*.*"}
        token = httpx.post(f"{url}/oauth/token", data=fields, trust_env=False).json()["access_token"]
        yield url, token, process
        service.terminate()


def run(folder: Path, given: argparse.Namespace, database: str, server: psutil.Process | None = None) -> None:
    """Lay in, start the service, measure; `server` is that of the database."""
    patients, count, connections, charts = given.patients, given.requests, given.connections, given.charts
    started = time.perf_counter()
    lay_in(place_of(database), patients)
    laid = time.perf_counter() - started
    lay_in_charts(place_of(database), charts)
    if server is not None:
        with contextlib.closing(connect(database)) as connection:
            # What autovacuum does within a minute.
            connection.execute("VACUUM ANALYZE")
    started = time.perf_counter()
    with contextlib.ExitStack() as stack:
        services = [stack.enter_context(serving(folder, database)) for _ in range(given.processes)]
        urls, token, processes = [service[0] for service in services], services[0][1], [one[2] for one in services]
        ready = time.perf_counter() - started
        show(f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}; durable")
        show(f"{patients} patients laid in, {laid / patients * 1e6:.0f} us each")
        show(f"ready in {ready:.2f} s, {processes[0].memory_info().rss >> 20} MiB")
        show(f"{'request':<18}{'CPU ms':>8}{'aim':>7}{'p50 ms':>9}{'p99 ms':>9}{'per s':>8}{'database':>10}")
        for kind in (one for one in kinds(patients) if one.name in given.only):
            asyncio.run(drive(urls, list(requests(kind, 100, token)), connections))
            work = list(requests(kind, count, token))
            before, started = cpu(*processes), time.perf_counter()
            database_before = cpu_of_all(server) if server is not None else 0
            seconds = sorted(asyncio.run(drive(urls, work, connections)))
            wall, used = time.perf_counter() - started, cpu(*processes) - before
            behind = cpu_of_all(server) - database_before if server is not None else 0
            p50, p99 = seconds[len(seconds) // 2] * 1000, seconds[len(seconds) * 99 // 100] * 1000
            cost = f"{kind.name:<18}{used / count * 1000:>8.3f}{AIMS[kind.name]:>7}"
            show(f"{cost}{p50:>9.2f}{p99:>9.2f}{count / wall:>8.0f}{behind / count * 1000:>10.3f}")
        if charts:
            everything(urls[0], token, processes[0], charts)
        show(f"memory at the end: {processes[0].memory_info().rss >> 20} MiB")


if __name__ == "__main__":
    main()
