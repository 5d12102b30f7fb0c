"""CPU of the service for orders: `$submit` of one with 10 tests, and searches by status over very many.

    python -m tests.benchmarks.bench_orders [--orders 100000] [--submits 300] [--requests 1000] [--connections 8]
                                            [--folder DIR]

The orders, their patients and a compendium are laid in through the service's own store: of 10,000 orders 2 have failed,
100 wait, 300 are sent, 200 are drafts, the rest is completed. Printed as by bench_interchange: CPU milliseconds of the
service a request (user and system), p50 and p99 of the answers, rate. The laboratory is the simulated one, which takes
nothing while this runs.
"""

import argparse
import asyncio
import contextlib
import os
import platform
import random
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import httpx
import orjson
import psutil

from engine.interchange.orders.order import OrderStatus, with_status
from engine.interchange.rest.resource.catalogue import INDEXERS
from engine.interchange.store.store import Store
from engine.interchange.store.transaction import Transaction
from tests.benchmarks.bench_interchange import BATCH, Kind, drive, person, requests, serving, show
from tests.benchmarks.processes import cpu

Json = Any
SIS: Final = "https://cdis.example"
LAB: Final = "lab-1"
TESTS: Final = 10
# Orders of one patient.
EACH: Final = 10
SUBMIT_AIM: Final = 8.0
SEARCH_AIM: Final = 1.0
RARE: Final = "status=failed"
LABORATORIES: Final = {LAB: {"connector": {"type": "simulated", "transmit_delay_s": 86_400}}}


def extension(name: str, **value: Json) -> Json:
    """Return an extension of an order."""
    return {"url": f"{SIS}/fhir/StructureDefinition/requestgroup-{name}", **value}


def coding(number: int) -> Json:
    """Return the laboratory's code of its nth test."""
    return {"system": f"urn:uuid:f:{LAB}", "code": f"T{number}", "display": f"Test {number}"}


def compendium(transaction: Transaction) -> None:
    """Lay in the laboratory, 1,000 tests of it, of which each second asks a question, and who orders."""
    orderable = {
        "url": f"{SIS}/fhir/StructureDefinition/organization-orderingEnabled",
        "valueBoolean": True,
    }
    transaction.create(
        "Organization", LAB, {"resourceType": "Organization", "name": "Acme", "extension": [orderable], "active": True}
    )
    transaction.create("Organization", "clinic-1", {"resourceType": "Organization", "name": "Riverbend"})
    transaction.create("Practitioner", "d1", {"resourceType": "Practitioner", "name": [{"family": "Osei"}]})
    for number in range(1000):
        definition = {
            "resourceType": "ActivityDefinition",
            "status": "active",
            "title": f"Test {number}",
            "kind": "ServiceRequest",
            "code": {"coding": [coding(number)]},
        }
        transaction.create("ActivityDefinition", f"{LAB}-T{number}", definition)
        if number % 2 == 0:
            item = {"id": "fasting", "linkId": "fasting", "text": "Fasting?", "type": "boolean", "required": True}
            asked = {"resourceType": "Questionnaire", "status": "active", "code": [coding(number)], "item": [item]}
            transaction.create("Questionnaire", f"aoe-T{number}", asked)


def order(patient_id: str, status: OrderStatus, at: datetime, chance: random.Random) -> Json:
    """Return an order as it is kept: of one test, whose resource is left out here."""
    made = {
        "resourceType": "RequestGroup",
        "intent": "order",
        "subject": {"reference": f"Patient/{patient_id}"},
        "author": {"reference": "Practitioner/d1"},
        "authoredOn": at.isoformat(),
        "groupIdentifier": {"system": f"{SIS}/order-number", "value": str(chance.getrandbits(64))},
        "extension": [extension("performer", valueReference={"reference": f"Organization/{LAB}"})],
        "action": [{"title": "Test 1", "resource": {"display": "Test 1"}}],
    }
    return with_status(made, SIS, status)


def status_of(number: int) -> OrderStatus:
    """Return the status of the nth order."""
    return next(
        (
            status
            for least, status in (
                (9_998, OrderStatus.FAILED),
                (9_898, OrderStatus.PENDING),
                (9_598, OrderStatus.SENT),
                (9_398, OrderStatus.DRAFT),
            )
            if number * 7_919 % 10_000 >= least
        ),
        OrderStatus.COMPLETED,
    )


def lay_in(path: Path, orders: int) -> None:
    """Put the laboratory, patients and orders into a store before the service starts."""
    store = Store(path, ["riverbend"], lambda: datetime.now(UTC), INDEXERS)
    asyncio.run(store.write("riverbend", compendium))
    start = datetime(2025, 1, 1, tzinfo=UTC)

    def some(numbers: range) -> Callable[[Transaction], None]:
        def work(transaction: Transaction) -> None:
            for number in numbers:
                patient_id, chance = f"p{number // EACH}", random.Random(number)
                if number % EACH == 0:
                    transaction.create("Patient", patient_id, person(number // EACH))
                made = order(patient_id, status_of(number), start + timedelta(minutes=number), chance)
                transaction.create("RequestGroup", f"o{number}", made)

        return work

    for begin in range(0, orders, BATCH):
        asyncio.run(store.write("riverbend", some(range(begin, min(begin + BATCH, orders)))))
    store.close()


def new_order(patient_id: str, first: int) -> Json:
    """Return an order of 10 tests as a client sends it, each second with its question answered."""
    contained = []
    for nth in range(TESTS):
        answers = f"a{nth}"
        test = {
            "resourceType": "ServiceRequest",
            "id": f"t{nth}",
            "status": "active",
            "intent": "order",
            "subject": {"reference": f"Patient/{patient_id}"},
            "code": {"coding": [coding(first + nth)]},
        }
        if (first + nth) % 2 == 0:
            item = [{"linkId": "fasting", "answer": [{"valueBoolean": True}]}]
            contained.append(
                {"resourceType": "QuestionnaireResponse", "id": answers, "status": "completed", "item": item}
            )
            test["supportingInfo"] = [{"reference": f"#{answers}"}]
        contained.append(test)
    agent = {"url": "agent", "valueReference": {"reference": "Practitioner/d1"}}
    behalf = {"url": "onBehalfOf", "valueReference": {"reference": "Organization/clinic-1"}}
    account = {"resourceType": "Account", "id": "acc", "status": "active", "type": {"coding": [{"code": "patient"}]}}
    return {
        "resourceType": "RequestGroup",
        "status": "active",
        "intent": "order",
        "subject": {"reference": f"Patient/{patient_id}"},
        "author": {"reference": "Practitioner/d1"},
        "contained": [*contained, account],
        "extension": [
            extension("performer", valueReference={"reference": f"Organization/{LAB}"}),
            extension("requester", extension=[agent, behalf]),
            extension("account", valueReference={"reference": "#acc"}),
        ],
        "action": [{"resource": {"reference": f"#t{nth}"}} for nth in range(TESTS)],
    }


def drafts(url: str, token: str, count: int, patients: int) -> Iterator[str]:
    """Create orders asynchronously, and yield their ids once each job is done."""
    headers = {"authorization": f"Bearer {token}", "content-type": "application/fhir+json"}
    with httpx.Client(headers=headers, trust_env=False, timeout=60) as client:
        handles = []
        for number in range(count):
            body = orjson.dumps(new_order(f"p{number % patients}", number * TESTS % 900))
            made = client.post(f"{url}/fhir/R4/RequestGroup", content=body, headers={"prefer": "respond-async"})
            assert made.status_code == 202, made.text
            handles.append(made.headers["content-location"])
        for handle in handles:
            while (told := client.get(handle)).status_code == 202:
                time.sleep(0.02)
            assert told.status_code == 200, told.text
            yield told.json()["id"]


def searches(patients: int) -> dict[str, Callable[[int], str]]:
    """Return the searches: a rare and a common status, with and without a patient, in either vocabulary."""
    chance = random.Random(7)

    def of_some(query: str) -> Callable[[int], str]:
        return lambda _: f"patient=p{chance.randrange(patients)}&{query}"

    return {
        "(one by id)": lambda _: f"_id=o{chance.randrange(patients)}",
        "rare": lambda _: RARE,
        "rare, of a patient": of_some(RARE),
        "seldom (pending)": lambda _: "status=pending",
        "FHIR's (active)": lambda _: "status=active",
        "common": lambda _: "status=completed",
        "common, not counted": lambda _: "status=completed&_total=none",
        "common, of a patient": of_some("status=completed"),
        "active, of a patient": of_some("status=active"),
    }


def measure(process: psutil.Process, url: str, token: str, kind: Kind, count: int, connections: int) -> str:
    """Ask a kind of request so often; return its line without the aim."""
    work = list(requests(kind, count, token))
    before, started = cpu(process), time.perf_counter()
    seconds = sorted(asyncio.run(drive([url], work, connections)))
    wall, used = time.perf_counter() - started, cpu(process) - before
    p50, p99 = seconds[len(seconds) // 2] * 1000, seconds[len(seconds) * 99 // 100] * 1000
    return f"{used / count * 1000:>8.3f}{{}}{p50:>9.2f}{p99:>9.2f}{count / wall:>8.0f}"


def run(folder: Path, given: argparse.Namespace) -> None:
    """Lay in, start the service, measure."""
    started = time.perf_counter()
    if not (folder / "b.db").exists():
        lay_in(folder / "b.db", given.orders)
    laid, patients = time.perf_counter() - started, max(given.orders // EACH, 1)
    with serving(folder, laboratories=LABORATORIES) as (url, token, process):
        show(f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}; WAL, synchronous=FULL")
        show(f"{given.orders} orders laid in, {laid / given.orders * 1e6:.0f} us each")
        show(f"{'request':<24}{'CPU ms':>8}{'aim':>7}{'p50 ms':>9}{'p99 ms':>9}{'per s':>8}")
        for name, query in searches(patients).items():
            search = Kind(name, lambda n, query=query: ("GET", f"/fhir/R4/RequestGroup?{query(n)}", {}, b""))
            measure(process, url, token, search, 50, given.connections)
            line = measure(process, url, token, search, given.requests, given.connections)
            show(f"{name:<24}" + line.format(f"{SEARCH_AIM:>7}"))
        for connections in (1, given.connections) if given.submits else ():
            ids = list(drafts(url, token, given.submits, patients))
            submit = Kind("submit", lambda n, ids=ids: ("POST", f"/fhir/R4/RequestGroup/{ids[n]}/$submit", {}, b""))
            line = measure(process, url, token, submit, given.submits, connections)
            show(f"{f'submit of {TESTS}, {connections} at once':<24}" + line.format(f"{SUBMIT_AIM:>7}"))
        show(f"memory at the end: {process.memory_info().rss >> 20} MiB")


def main() -> None:
    """Run everything and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--orders", type=int, default=100_000)
    parser.add_argument("--submits", type=int, default=300)
    parser.add_argument("--requests", type=int, default=1000)
    parser.add_argument("--connections", type=int, default=8)
    parser.add_argument("--folder", type=Path, help="kept, with the orders laid in, for the next run")
    given = parser.parse_args()
    if given.folder:
        given.folder.mkdir(exist_ok=True)
    with contextlib.nullcontext(given.folder) if given.folder else tempfile.TemporaryDirectory() as folder:
        run(Path(folder), given)


if __name__ == "__main__":
    main()
