"""What may happen to two services and their PostgreSQL: nothing answered is lost, nothing refused was done."""

import contextlib
import signal
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import httpx
import orjson
import pytest

from engine.database.postgresql import PostgresqlError, connect
from engine.interchange.store.place import open_known
from engine.interchange.store.postgresql_steps import SESSION, WRITE_LOCK
from tests.interchange.kit import Outside, patient
from tests.interchange.pair import Pair, running_pair
from tests.postgresql import Postgres, a_postgres

pytestmark = pytest.mark.process

ENOUGH = 60
# Sessions of writers are those that have written last: whatever they are doing is broken off.
TERMINATE = (
    "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname=current_database()"
    " AND pid<>pg_backend_pid() AND (query LIKE '%process_commit%' OR query LIKE '%SAVEPOINT%' OR state='active')"
)


FAMILIES = (
    "SELECT s.exact, r.id FROM string_index AS s JOIN resource AS r ON r.key=s.key WHERE s.parameter='Patient.family'"
)


@dataclass
class Writer:
    """One client of one process: the names that it registered, those refused, and those of which nobody knows."""

    service: Outside
    number: int
    kept: dict[str, str] = field(default_factory=dict)
    refused: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    made: int = 0

    def write(self, done: threading.Event) -> None:
        """Register one patient after the other until told to end."""
        headers = {
            "authorization": f"Bearer {self.service.token('physician')}",
            "content-type": "application/fhir+json",
            "prefer": "create-always",
        }
        with httpx.Client(base_url=self.service.url, headers=headers, trust_env=False, timeout=60) as http:
            while not done.is_set():
                self.made += 1
                name = f"F{self.number}x{self.made:05d}"
                body = orjson.dumps(patient(name=[{"family": name, "given": ["G"]}]))
                try:
                    answer = http.post("/fhir/R4/Patient", content=body)
                except httpx.HTTPError:
                    self.unknown.append(name)
                    done.wait(0.05)
                    continue
                if answer.status_code == 201:
                    self.kept[name] = answer.json()["id"]
                elif answer.status_code == 503:
                    assert answer.headers["retry-after"] == "1"
                    self.refused.append(name)
                    done.wait(0.05)
                else:
                    assert answer.status_code == 504, answer.text
                    self.unknown.append(name)


@contextlib.contextmanager
def writing(pair: Pair, clients: int = 3) -> Iterator[list[Writer]]:
    """Let clients of both processes write until the block ends."""
    done = threading.Event()
    for process in pair.processes:
        process.token("physician")
    writers = [Writer(pair.processes[number % 2], number) for number in range(2 * clients)]
    threads = [threading.Thread(target=writer.write, args=(done,)) for writer in writers]
    for thread in threads:
        thread.start()
    try:
        yield writers
    finally:
        done.set()
        for thread in threads:
            thread.join(60)


def wait_for(what: Callable[[], bool], seconds: float = 60) -> None:
    """Wait until something holds; AssertionError where it does not in time."""
    until = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < until
        time.sleep(0.02)


def answered(writers: list[Writer]) -> int:
    """Return how many patients were registered."""
    return sum(len(writer.kept) for writer in writers)


def more(writers: list[Writer], number: int = ENOUGH) -> None:
    """Wait until so many more patients are registered."""
    enough = answered(writers) + number
    wait_for(lambda: answered(writers) >= enough)


def check(pair: Pair, writers: list[Writer]) -> None:
    """Hold the database to every answer: what was registered is there once, what was refused is not."""
    connection = open_known(pair.database)
    rows = connection.execute(FAMILIES)
    found: dict[str, list[str]] = {}
    for name, one in rows:
        found.setdefault(name, []).append(one)
    connection.close()
    for writer in writers:
        assert {name: found.get(name) for name in writer.kept} == {name: [one] for name, one in writer.kept.items()}
        assert [name for name in writer.refused if name in found] == []
        assert [name for name in writer.unknown if len(found.get(name, ())) > 1] == []
    pair.sound()


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    """A server of these tests' own, which they stop."""
    with a_postgres() as made:
        made.start()
        yield made


@pytest.fixture
def both(server: Postgres, tmp_path: Path) -> Iterator[Pair]:
    """Two services on a database of the test's own."""
    name = f"d{abs(hash(tmp_path)) % 10**9}"
    with contextlib.closing(connect(server.address)) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    with running_pair(tmp_path, server.address.replace("/postgres?", f"/{name}?")) as pair:
        yield pair


def ready(service: Outside) -> bool:
    """Say whether a service says that it is ready."""
    return service.http.get(f"{service.url}/readyz").status_code == 200


def test_a_killed_process_leaves_nothing_half_done(both: Pair) -> None:
    """SIGKILL of one process among writes: the other goes on at once, and every answer of both holds."""
    with writing(both) as writers:
        more(writers)
        first, second = both.processes
        first.process.run.kill()
        assert first.process.run.wait(60) == -signal.SIGKILL
        more([writer for writer in writers if writer.service is second])
    check(both, writers)


def test_a_stopped_process_does_not_hold_up_the_other(both: Pair) -> None:
    """SIGSTOP of one process, even within a transaction: the other goes on within moments, and does what only one does.

    Woken, it finds its connections ended, answers what was not done as such, and goes on.
    """
    first, second = both.processes
    with writing(both) as writers:
        more(writers)
        first.process.run.send_signal(signal.SIGSTOP)
        try:
            more([writer for writer in writers if writer.service is second])
            handle = second.ask(
                "POST",
                f"/fhir/R4/Patient/{next(iter(writers[1].kept.values()))}/$export-ccda",
                headers={"prefer": "respond-async"},
            ).headers["location"]
            path = "/fhir/" + handle.partition("/fhir/")[2]
            wait_for(lambda: second.ask("GET", path).status_code == 200, 40)
        finally:
            first.process.run.send_signal(signal.SIGCONT)
        more([writer for writer in writers if writer.service is first])
    check(both, writers)


def test_connections_ended_during_commits(both: Pair) -> None:
    """pg_terminate_backend again and again: what was committed is answered as done, what was not as refused."""
    terminated = 0
    with writing(both) as writers, contextlib.closing(connect(address(both))) as connection:
        for _ in range(60):
            terminated += connection.execute(TERMINATE).fetchone()[0]  # type: ignore[index]
            more(writers, 2)
    assert terminated > 60
    assert sum(len(writer.refused) for writer in writers) > 0
    check(both, writers)


def test_a_server_that_crashes_and_comes_back(both: Pair, server: Postgres) -> None:
    """While the database is away writes and reads are 503 and nobody is ready; once it is back all goes on."""
    first, second = both.processes
    with writing(both) as writers:
        more(writers)
        known = next(iter(writers[0].kept.values()))
        server.stop(immediate=True)
        wait_for(lambda: not ready(first) and not ready(second), 10)
        for one in both.processes:
            read = one.ask("GET", f"/fhir/R4/Patient/{known}")
            assert (read.status_code, read.json()["issue"][0]["code"]) == (503, "transient")
            assert one.http.get(f"{one.url}/metrics").status_code == 200
            assert one.http.get(f"{one.url}/livez").status_code == 200
        before = [len(writer.refused) for writer in writers]
        wait_for(lambda: all(len(one.refused) > count for one, count in zip(writers, before, strict=True)))
        server.start()
        wait_for(lambda: ready(first) and ready(second), 10)
        more([writer for writer in writers if writer.service is first])
        more([writer for writer in writers if writer.service is second])
    for one in both.processes:
        assert one.ask("GET", f"/fhir/R4/Patient/{known}").status_code == 200
        assert one.process.event("database lost")["level"] == "error"
        assert one.process.event("database back")["level"] == "info"
    check(both, writers)


def test_crash_after_crash(both: Pair, server: Postgres) -> None:
    """The server crashes at any moment, again and again: no answer is wrong, whosever number a commit had."""
    with writing(both) as writers:
        for _ in range(6):
            more(writers, 20)
            server.stop(immediate=True)
            server.start()
        more(writers)
    check(both, writers)


def address(pair: Pair) -> str:
    """Return how to connect to a pair's database."""
    assert not isinstance(pair.database, Path)
    return pair.database.url


def test_whoever_stands_still_in_what_it_sends_loses_the_lock(both: Pair) -> None:
    """A process that was stopped among statements which it sends on together seems at work to the server."""
    first, _ = both.processes
    first.create()
    codes: list[int] = []
    # What it sends once it goes on finds its connection ended.
    with (
        contextlib.suppress(PostgresqlError),
        contextlib.closing(connect(address(both))) as stopped,
        stopped.inner.pipeline(),
    ):
        stopped.execute("BEGIN")
        stopped.execute(f"SELECT pg_advisory_xact_lock({WRITE_LOCK})").fetchone()
        codes += [first.ask("POST", "/fhir/R4/Patient", json=patient()).status_code for _ in range(2)]
        stopped.execute("SELECT 1").fetchone()
    assert codes == [503, 201]


def test_a_stranger_s_lock_is_waited_for(both: Pair) -> None:
    """A session that locks a table holds writes up no longer than ten seconds; they are refused, and reads go on."""
    assert "lock_timeout=10s" in SESSION.split()
    first, _ = both.processes
    known = first.create()["id"]
    with contextlib.closing(connect(address(both))) as stranger:
        stranger.execute("BEGIN")
        stranger.execute("LOCK TABLE resource IN SHARE MODE")
        lost = first.ask("PUT", f"/fhir/R4/Patient/{known}", json=patient(id=known))
        assert (lost.status_code, lost.json()["issue"][0]["code"]) == (503, "transient")
        stranger.execute("ROLLBACK")
    wait_for(partial(ready, first))
    assert first.ask("PUT", f"/fhir/R4/Patient/{known}", json=patient(id=known)).status_code == 200
    both.sound()
