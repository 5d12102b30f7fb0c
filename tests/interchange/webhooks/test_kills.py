"""The service killed while it owes and sends webhooks: each committed match is told, and nothing else is."""

import contextlib
import random
import sqlite3
import threading
import time
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest
import trustme

from engine.clock import now
from engine.config.service import ServiceConfiguration, Tenant, Webhooks
from engine.interchange.app.application import new_token
from engine.interchange.rest.resource.catalogue import INDEXERS
from engine.interchange.store.verify import verify
from engine.interchange.tokens.vault import issue_locally
from tests.interchange.kit import configuration, patient, secret_file
from tests.interchange.places import DATABASE
from tests.interchange.process import FORKED, started
from tests.interchange.subscriptions.subscribing import R4, observation, subscription
from tests.interchange.test_job_kills import KILLED
from tests.interchange.webhooks.conftest import HERE
from tests.interchange.webhooks.receiver import Receiver, trusted
from tests.interchange.webhooks.told import until

pytestmark = pytest.mark.process

# Each version of an Observation that was ever committed.
COMMITTED = (
    "SELECT resource.id, v.version, v.body FROM resource JOIN"
    " (SELECT key, version, body FROM version UNION ALL SELECT key, version, body FROM resource) AS v"
    " ON v.key=resource.key WHERE resource.type='Observation'"
)
WAITING = "SELECT count(*) FROM notification WHERE ended_ms IS NULL"
WRITERS = 4


class Lives:
    """One service, its lives, and a token that outlives them."""

    def __init__(self, folder: Path, authority: trustme.CA) -> None:
        self.folder = folder
        tenants = {"riverbend": HERE, "lakeside": HERE, "lax": Tenant()}
        self.settings: ServiceConfiguration = configuration(
            secret_file(folder), tenants=tenants, webhooks=Webhooks(**trusted(folder, authority))
        )
        self.headers: dict[str, str] = {}

    def http(self, url: str) -> httpx.Client:
        """Return a client of the life that runs."""
        if not self.headers:
            issued = issue_locally(self.settings, self.folder / DATABASE, "physician", "user/.", now, new_token)
            self.headers = {"authorization": f"Bearer {issued.access}", "content-type": "application/fhir+json"}
        return httpx.Client(base_url=url, headers=self.headers, trust_env=False, timeout=60)

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """Return what a query finds."""
        with sqlite3.connect(self.folder / DATABASE) as connection:
            return connection.execute(query).fetchall()

    def subscribe(self, http: httpx.Client, hook: Receiver, name: str, criteria: str) -> None:
        """Subscribe at a path of its own, by which its deliveries are told apart."""
        made = subscription(criteria, id=name, channel={"endpoint": hook.url.replace("/hook", f"/{name}")})
        assert http.put(f"{R4}/Subscription/{name}", content=orjson.dumps(made)).status_code == 201

    def drained(self) -> bool:
        """Say whether nothing is owed any more."""
        return self.rows(WAITING) == [(0,)]


@pytest.fixture
def lives(tmp_path: Path, authority: trustme.CA) -> Lives:
    """A service before its first life."""
    return Lives(tmp_path, authority)


def test_a_restart(lives: Lives, hook: Receiver) -> None:
    """C-486, C-562: what waits for its retry survives a stop in order, and a start; so do the subscriptions."""
    hook.script[:] = [500, 200]
    with started(lives.folder, lives.settings, FORKED) as process, lives.http(process.url) as http:
        lives.subscribe(http, hook, "s1", "Patient")
        http.put(f"{R4}/Patient/p1", content=orjson.dumps(patient(id="p1")), headers={"prefer": "create-always"})
        hook.wait(1)
        until(lambda: lives.rows("SELECT tries FROM notification"), lambda rows: rows == [(1,)])
    assert not lives.drained()
    with started(lives.folder, lives.settings, FORKED) as process, lives.http(process.url) as http:
        assert http.get(f"{R4}/Subscription/s1").json()["status"] == "active"
        assert len(hook.posts) == 1
        assert http.post("/_test/clock", json={"advance_seconds": 900}).status_code == 200
        first, second = hook.wait(2)
        assert first.raw == second.raw
        until(lives.drained, bool)


@pytest.mark.parametrize(
    ("point", "kept", "told"), [("F28:kill", 0, 0), ("F29:kill", 1, 0), ("F46:kill", 1, 0), ("F45:kill", 1, 1)]
)
def test_killed_at_each_step(lives: Lives, hook: Receiver, point: str, kept: int, told: int) -> None:
    """C-486: killed before the commit there is no event; behind it, it is told by the next life, once more at most."""
    with started(lives.folder, lives.settings, FORKED) as process, lives.http(process.url) as http:
        lives.subscribe(http, hook, "s1", "Patient")
    with started(lives.folder, lives.settings, FORKED, point) as process, lives.http(process.url) as http:
        with contextlib.suppress(httpx.HTTPError):
            http.put(f"{R4}/Patient/p1", content=orjson.dumps(patient(id="p1")), headers={"prefer": "create-always"})
        assert process.run.wait(60) == KILLED
    assert lives.rows("SELECT count(*) FROM notification") == [(kept,)]
    assert len(hook.posts) == told
    with started(lives.folder, lives.settings, FORKED) as process:
        until(lives.drained, bool)
        assert len(hook.posts) == told + kept
        assert process.run.poll() is None
    assert {post.body["id"] for post in hook.posts} <= {"p1"}
    assert verify(lives.folder / DATABASE, INDEXERS).faults == {}


def write_on(http: httpx.Client, first: int, numbers: range, answered: dict[tuple[str, str], bytes]) -> None:
    """Write Observations by one writer, until the service is gone; keep what was answered, by id and version."""
    for number in numbers:
        if number % WRITERS != first:
            continue
        name = f"o{number % 50}"
        body = observation("p1", f"c{random.randrange(25)}", id=name)
        try:
            answer = http.put(f"{R4}/Observation/{name}", content=orjson.dumps(body))
        except httpx.HTTPError:
            return
        if answer.status_code in {200, 201}:
            answered[name, answer.json()["meta"]["versionId"]] = answer.content


def test_kills_at_any_moment(lives: Lives, hook: Receiver, *, full_sweep: bool) -> None:
    """Killed again and again while 50 subscriptions are told: at least once for each match, by receiver and store.

    `meta.versionId` tells the receiver its duplicates; none is told of what was not committed.
    """
    writes, kills = (5000, 12) if full_sweep else (500, 3)
    with started(lives.folder, lives.settings, FORKED) as process, lives.http(process.url) as http:
        http.put(f"{R4}/Patient/p1", content=orjson.dumps(patient(id="p1")), headers={"prefer": "create-always"})
        for number in range(25):
            lives.subscribe(http, hook, f"s{number}", f"Observation?code=c{number}")
            lives.subscribe(http, hook, f"n{number}", f"Observation?code=d{number}")
    answered: dict[tuple[str, str], bytes] = {}
    share = writes // kills
    for life in range(kills):
        with started(lives.folder, lives.settings, FORKED) as process, lives.http(process.url) as http:
            numbers = range(life * share, (life + 1) * share)
            threads = [threading.Thread(target=write_on, args=(http, one, numbers, answered)) for one in range(WRITERS)]
            for thread in threads:
                thread.start()
            time.sleep(random.uniform(0.1, 0.4 if not full_sweep else 3))
            process.run.kill()
            process.run.wait(60)
            for thread in threads:
                thread.join(60)
    with started(lives.folder, lives.settings, FORKED):
        until(lives.drained, bool)
    assert verify(lives.folder / DATABASE, INDEXERS).faults == {}
    committed = {(name, str(version)): orjson.loads(body) for name, version, body in lives.rows(COMMITTED)}
    assert answered.keys() <= committed.keys()
    assert len(committed) > kills
    owed = {(f"/s{one['code']['coding'][0]['code'][1:]}", *which) for which, one in committed.items()}
    told = [(post.path, post.body["id"], post.body["meta"]["versionId"]) for post in hook.posts]
    assert set(told) == owed
    for post in hook.posts:
        assert post.body == committed[post.body["id"], post.body["meta"]["versionId"]]
