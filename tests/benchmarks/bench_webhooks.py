"""What subscriptions cost the writes of the service, and how long a webhook takes while others' receivers are ill.

    python -m tests.benchmarks.bench_webhooks [--writes 2000] [--rounds 3] [--rate 40] [--seconds 30]

Three parts, each printed as a table. *Matching*: CPU of a write in the store, an Observation, without subscriptions and
with 1,000 of which none matches, in turn. *Beside*: p50 and p99 of creates at a steady rate over HTTP, without
subscriptions and with 100 of which 5 match each write. *Ill*: the delay from the answer to a write until a sound
receiver has its event, while ten subscriptions each go to a receiver that is down, one that answers after 9 seconds,
one that answers 500, and one with an expired certificate.
"""

import argparse
import asyncio
import contextlib
import itertools
import multiprocessing
import os
import platform
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import trustme

from engine.config.service import Webhooks
from engine.interchange.app.application import ServiceApp, create_app
from engine.interchange.store.notification import Subscribed, put_subscription
from engine.interchange.store.transaction import Transaction
from tests.benchmarks.bench_interchange import person, show
from tests.interchange.kit import Running, configuration, running, secret_file
from tests.interchange.subscriptions.subscribing import R4, create, observation, subscribe
from tests.interchange.webhooks.conftest import HERE
from tests.interchange.webhooks.receiver import Receiver, receiving, server_context, trusted

TENANTS: Final = {"riverbend": HERE, "lakeside": HERE, "lax": HERE}
MATCHING_AIM: Final = 0.1
# Nobody listens there.
DOWN: Final = "https://127.0.0.1:9/hook"
# Criteria that no write of these matches: told apart by a code or a patient, and by none of both.
NONE: Final[dict[str, Callable[[int], str]]] = {
    "1,000 by code": lambda number: f"Observation?code=9{number}-1",
    "1,000 by patient": lambda number: f"Observation?patient=other-{number}&status=final",
    "1,000 of other types": lambda number: f"Condition?code=9{number}",
    "1,000 by date alone": lambda number: f"Observation?date=ge20{number % 70 + 30}",
    "1,000 by status": lambda number: f"Observation?status=cancelled&date=ge20{number % 70 + 30}",
}
FIVE: Final = "100, 5 match"


def five(number: int) -> str:
    """Return criteria of which the first five match each write."""
    return f"Observation?code={'789-8' if number < 5 else f'9{number}-1'}"


def percentile(seconds: list[float], part: float) -> float:
    """Return a percentile in milliseconds."""
    return sorted(seconds)[min(len(seconds) - 1, int(len(seconds) * part))] * 1000


def subscribed(app: ServiceApp, criteria: Callable[[int], str], count: int) -> None:
    """Keep subscriptions as writes see them."""

    def work(transaction: Transaction) -> None:
        for number in range(count):
            text = criteria(number)
            row = Subscribed(
                transaction.tenant, f"s{number}", "R4", text.partition("?")[0], text, "https://a.example", b"", 1, None
            )
            put_subscription(transaction, row, anew=True)

    asyncio.run(app.service.store.write("riverbend", work))


def matching(folder: Path, writes: int, rounds: int) -> None:
    """Print the CPU of a write with and without subscriptions, each in its own store, in turn."""
    apps: dict[str, ServiceApp] = {}
    for number, name in enumerate(("none", *NONE, FIVE)):
        apps[name] = create_app(configuration(secret_file(folder)), folder / f"{number}.db")
        asyncio.run(apps[name].service.store.write("riverbend", _patient))
        if name in NONE:
            subscribed(apps[name], NONE[name], 1000)
        if name == FIVE:
            subscribed(apps[name], five, 100)
    least: dict[str, float] = {}
    fresh = itertools.count()
    for _ in range(rounds):
        for name, app in apps.items():
            began = time.process_time()
            asyncio.run(_write(app, writes, fresh))
            used = (time.process_time() - began) / writes * 1000
            least[name] = min(used, least.get(name, used))
    show(f"{'matching':<24}{'CPU ms':>9}{'more':>9}{'aim':>7}")
    for name, used in least.items():
        aim = "" if name == "none" else f"{MATCHING_AIM:>7}"
        show(f"{name:<24}{used:>9.3f}{used - least['none']:>9.3f}{aim}")
    for app in apps.values():
        app.close()


def _patient(transaction: Transaction) -> None:
    transaction.create("Patient", "p1", person(1))


async def _write(app: ServiceApp, writes: int, fresh: Iterator[int]) -> None:
    for _ in range(writes):
        number = next(fresh)

        def work(transaction: Transaction, number: int = number) -> None:
            transaction.create("Observation", f"o{number}", observation("p1"))

        await app.service.store.write("riverbend", work)


def beside(folder: Path, authority: trustme.CA, rate: float, seconds: float) -> None:
    """Print how long creates take beside deliveries, at a steady rate."""
    show(f"{'beside':<24}{'p50 ms':>9}{'p99 ms':>9}   at {rate:.0f} writes a second")
    for name, active in (("no subscription", 0), ("100, of which 5 match", 100)):
        inner = folder / f"beside-{active}"
        inner.mkdir()
        with _service(inner, authority) as service, _apart(authority) as endpoint:
            for number in range(active):
                subscribe(service, five(number), channel={"endpoint": endpoint})
            taken = _paced(service, rate, seconds)
        show(f"{name:<24}{percentile(taken, 0.5):>9.2f}{percentile(taken, 0.99):>9.2f}")


def ill(folder: Path, authority: trustme.CA, rate: float, seconds: float) -> None:
    """Print how long a sound receiver waits for an event beside ill ones."""
    show(f"{'ill':<24}{'p50 ms':>9}{'p99 ms':>9}{'max ms':>9}   until a sound receiver has its event")
    for name, others in (("all sound", False), ("40 ill beside", True)):
        inner = folder / f"ill-{others}"
        inner.mkdir()
        with _service(inner, authority) as service, _sound(authority) as hook, _ill(authority) as endpoints:
            subscribe(service, "Observation", channel={"endpoint": hook.url})
            for endpoint in endpoints if others else ():
                for _ in range(10):
                    subscribe(service, "Observation", channel={"endpoint": endpoint})
            written: dict[str, float] = {}
            _paced(service, rate, seconds, written)
            posts = hook.wait(len(written), 120)
            waited = [post.at - written[post.event.partition("/")[2]] for post in posts]
        show(f"{name:<24}{percentile(waited, 0.5):>9.1f}{percentile(waited, 0.99):>9.1f}{max(waited) * 1000:>9.1f}")


def _service(folder: Path, authority: trustme.CA) -> contextlib.AbstractContextManager[Running]:
    return running(folder, tenants=TENANTS, webhooks=Webhooks(**trusted(folder, authority)))


def _sound(authority: trustme.CA) -> contextlib.AbstractContextManager[Receiver]:
    return receiving(server_context(authority.issue_cert("127.0.0.1")))


@contextlib.contextmanager
def _apart(authority: trustme.CA) -> Iterator[str]:
    """Run a sound receiver in a process of its own, which takes nothing from who writes; yield its endpoint."""
    processes = multiprocessing.get_context("fork")
    endpoints = processes.Queue()
    process = processes.Process(target=_receive, args=(authority.issue_cert("127.0.0.1"), endpoints), daemon=True)
    process.start()
    try:
        yield endpoints.get()
    finally:
        process.kill()


def _receive(certificate: trustme.LeafCert, endpoints: "multiprocessing.Queue[str]") -> None:
    with receiving(server_context(certificate)) as hook:
        endpoints.put(hook.url)
        threading.Event().wait()


@contextlib.contextmanager
def _ill(authority: trustme.CA) -> Iterator[list[str]]:
    """Run receivers that are down, slow, broken, and out of date; yield their endpoints."""
    with contextlib.ExitStack() as stack:
        good = server_context(authority.issue_cert("127.0.0.1"))
        slow = stack.enter_context(receiving(good))
        slow.pause = lambda _post: 9.0
        broken = stack.enter_context(receiving(good, 500))
        expired = server_context(authority.issue_cert("127.0.0.1", not_after=datetime(2020, 1, 1, tzinfo=UTC)))
        late = stack.enter_context(receiving(expired))
        yield [DOWN, slow.url, broken.url, late.url]


def _paced(service: Running, rate: float, seconds: float, written: dict[str, float] | None = None) -> list[float]:
    """Create Observations at a rate; return how long each took, and note when each was answered."""
    who = service.create()["id"]
    taken: list[float] = []
    start = time.monotonic()
    for number in range(int(rate * seconds)):
        time.sleep(max(0.0, start + number / rate - time.monotonic()))
        began = time.monotonic()
        made: dict[str, Any] = create(service, observation(who), R4)
        ended = time.monotonic()
        taken.append(ended - began)
        if written is not None:
            written[made["id"]] = ended
    return taken


def main() -> None:
    """Run all parts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--writes", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rate", type=float, default=40)
    parser.add_argument("--seconds", type=float, default=30)
    given = parser.parse_args()
    show(f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}; WAL, synchronous=FULL")
    authority = trustme.CA()
    with tempfile.TemporaryDirectory() as folder:
        matching(Path(folder), given.writes, given.rounds)
        beside(Path(folder), authority, given.rate, given.seconds)
        ill(Path(folder), authority, given.rate, given.seconds)


if __name__ == "__main__":
    main()
