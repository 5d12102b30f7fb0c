"""A service killed again and again under load: what was answered is there, whole, once, found, and in the log."""

import random
import signal
import threading
import time
import uuid
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest

from engine.interchange.rest.resource.catalogue import INDEXERS
from engine.interchange.store.access import faults
from engine.interchange.store.sqlite import open_known
from engine.interchange.store.verify import verify
from tests.interchange.kit import merge_body, patient, record_number
from tests.interchange.places import DATABASE
from tests.interchange.process import started
from tests.interchange.test_process import CONFIGURATION, client

pytestmark = pytest.mark.process

LIVES, MORE_LIVES = 3, 100
CLIENTS = 8
SHARED = 40
PATIENTS = "/fhir/R4/Patient"


@dataclass
class Sender:
    """One client: what it was answered, and the patients that its last request, if unanswered, may have changed."""

    number: int
    chance: random.Random
    kept: dict[str, Any] = field(default_factory=dict)
    merged: dict[str, str] = field(default_factory=dict)
    removed: set[str] = field(default_factory=set)
    pairs: dict[str, bool] = field(default_factory=dict)
    shared: dict[int, str] = field(default_factory=dict)
    doubtful: tuple[str, ...] = ()
    requests: set[str] = field(default_factory=set)
    made: int = 0
    answered: int = 0

    def send(self, url: str, headers: dict[str, str]) -> None:
        """Send one request after the other until nobody answers any more."""
        acts = (self.create, self.create, self.update, self.update, self.merge, self.share, self.remove, self.pair)
        acts += (self.look, self.look, self.find)
        hooks = {"request": [name_request], "response": [self.note]}
        with httpx.Client(base_url=url, headers=headers, trust_env=False, timeout=60, event_hooks=hooks) as http:
            try:
                while True:
                    self.chance.choice(acts)(http)
                    self.doubtful = ()
                    self.answered += 1
            except httpx.HTTPError:
                return

    def note(self, answer: httpx.Response) -> None:
        """Remember that a request was answered."""
        self.requests.add(answer.request.headers["x-request-id"])

    def look(self, http: httpx.Client) -> None:
        """Read a patient."""
        if self.kept:
            one = self.chance.choice(sorted(self.kept))
            assert http.get(f"{PATIENTS}/{one}").json() == self.kept[one]

    def find(self, http: httpx.Client) -> None:
        """Search for somebody whom others may register just now."""
        answer = http.get(f"{PATIENTS}?family:exact=Shared{self.chance.randrange(SHARED):03d}")
        assert answer.json()["total"] < 2

    def create(self, http: httpx.Client) -> None:
        """Register a patient with a record number of its own."""
        self.made += 1
        name = f"{self.number}x{self.made}"
        body = patient(name=[{"family": f"F{name}", "given": ["G"]}], identifier=[record_number(name)])
        answer = http.post(PATIENTS, content=orjson.dumps(body))
        # One that was made although nobody was answered keeps its number.
        assert answer.status_code == 201, answer.text
        self.kept[answer.json()["id"]] = answer.json()

    def update(self, http: httpx.Client) -> None:
        """Change a patient's date of birth."""
        if self.kept:
            one = self.chance.choice(sorted(self.kept))
            self.doubtful = (one,)
            body = {**self.kept[one], "birthDate": f"19{self.chance.randrange(10, 99)}"}
            answer = http.put(f"{PATIENTS}/{one}", content=orjson.dumps(body))
            assert answer.status_code == 200, answer.text
            self.kept[one] = answer.json()

    def merge(self, http: httpx.Client) -> None:
        """Merge one patient into another."""
        if len(self.kept) > 4:
            source, target = self.chance.sample(sorted(self.kept), 2)
            self.doubtful = (source, target)
            answer = http.post(f"{PATIENTS}/$merge", content=orjson.dumps(merge_body(source, target)))
            assert answer.status_code == 200, answer.text
            self.merged[source] = target
            del self.kept[source]
            self.doubtful = (target,)
            self.kept[target] = http.get(f"{PATIENTS}/{target}").json()

    def remove(self, http: httpx.Client) -> None:
        """Delete a patient into whom nobody was merged."""
        alone = sorted(self.kept.keys() - set(self.merged.values()))
        if len(alone) > 4:
            one = self.chance.choice(alone)
            self.doubtful = (one,)
            assert http.delete(f"{PATIENTS}/{one}").status_code == 204
            self.removed.add(one)
            del self.kept[one]

    def pair(self, http: httpx.Client) -> None:
        """Register two patients of one name in a transaction."""
        name = f"Pair{self.number}x{len(self.pairs):04d}"
        self.pairs[name] = False
        body = patient(name=[{"family": name, "given": ["P"]}])
        one = {"request": {"method": "POST", "url": "Patient"}, "resource": body}
        bundle = {"resourceType": "Bundle", "type": "transaction", "entry": [one, one]}
        answer = http.post("/fhir/R4", content=orjson.dumps(bundle))
        assert answer.status_code == 200, answer.text
        self.pairs[name] = True

    def share(self, http: httpx.Client) -> None:
        """Register a patient whom the others register too, unless there is one."""
        number = self.chance.randrange(SHARED)
        name = {"family": f"Shared{number:03d}", "given": ["S"]}
        condition = {"if-none-exist": f"family=Shared{number:03d}&given=S"}
        answer = http.post(PATIENTS, content=orjson.dumps(patient(name=[name])), headers=condition)
        assert answer.status_code in {200, 201}, answer.text
        self.shared[number] = answer.json()["id"]

    def check(self, http: httpx.Client) -> None:
        """Hold the service to all that this client was answered."""
        for one, body in self.kept.items():
            found = http.get(f"{PATIENTS}/{one}").json()
            if one not in self.doubtful:
                assert found == body
                version = int(body["meta"]["versionId"])
                entry = http.get(f"{PATIENTS}/{one}/_history?_count=100").json()["entry"]
                told = [each["resource"]["meta"]["versionId"] for each in entry]
                assert told == [str(number) for number in range(version, 0, -1)]
        for name, answered in self.pairs.items():
            assert http.get(f"{PATIENTS}?family:exact={name}").json()["total"] in ({2} if answered else {0, 2})
        for one in self.removed:
            assert http.get(f"{PATIENTS}/{one}").status_code == 410
            assert http.get(f"{PATIENTS}?_id={one}").json()["total"] == 0
        for source, target in self.merged.items():
            links = http.get(f"{PATIENTS}/{source}").json()["link"]
            assert {"other": {"reference": f"Patient/{target}"}, "type": "replaced-by"} in links
            assert http.get(f"{PATIENTS}?_id={source}").json()["total"] == 0

    def look_again(self, http: httpx.Client) -> None:
        """See what became of a request that nobody answered: all of it or nothing."""
        for one in self.doubtful:
            answer = http.get(f"{PATIENTS}/{one}")
            found = answer.json()
            if answer.status_code == 410:
                self.removed.add(one)
                self.kept.pop(one, None)
                continue
            gone = [link["other"]["reference"] for link in found.get("link", []) if link["type"] == "replaced-by"]
            if gone:
                assert one == self.doubtful[0]
                assert gone == [f"Patient/{self.doubtful[1]}"]
                self.merged[one] = self.doubtful[1]
                self.kept.pop(one, None)
            else:
                self.kept[one] = found
        self.doubtful = ()


def name_request(request: httpx.Request) -> None:
    """Give a request an id, by which the access log tells of it."""
    request.headers["x-request-id"] = str(uuid.uuid4())


def test_random_kills_lose_nothing_and_leave_nothing_half_done(tmp_path: Path, *, full_sweep: bool) -> None:
    """C-562: eight clients read, write, merge, delete, transact; SIGKILL at any moment, again and again (N-152, N-321).

    Every answer holds after the new start, an unanswered write is whole or absent, nobody is registered twice, and
    every index row is the one that the bodies ask for. Every request that was answered is in the access log, whose
    chain is whole.
    """
    lives = MORE_LIVES if full_sweep else LIVES
    chance = random.Random()
    senders = [Sender(number, random.Random(chance.random())) for number in range(CLIENTS)]
    headers: dict[str, str] = {}
    for life in range(lives + 1):
        with started(tmp_path, CONFIGURATION) as process, httpx.Client(base_url=process.url, trust_env=False) as http:
            if not headers:
                with client(process.url) as first:
                    headers = dict(first.headers)
            http.headers.update(headers)
            assert dict(verify(tmp_path / DATABASE, INDEXERS).faults) == {}
            for sender in senders:
                sender.check(http)
                sender.look_again(http)
            held_once(senders, http)
            check_log(tmp_path, senders)
            if life < lives:
                threads = [threading.Thread(target=one.send, args=(process.url, headers)) for one in senders]
                before = answered(senders)
                for thread in threads:
                    thread.start()
                enough = before + chance.randrange(60, 200)
                while answered(senders) < enough and any(thread.is_alive() for thread in threads):
                    time.sleep(0.001)
                process.run.kill()
                assert process.run.wait(60) == -signal.SIGKILL
                for thread in threads:
                    thread.join(60)
    assert answered(senders) >= lives * 60
    assert sum(len(sender.merged) for sender in senders) > 0


def answered(senders: list[Sender]) -> int:
    """Return how many acts of all clients were answered."""
    return sum(sender.answered for sender in senders)


def check_log(folder: Path, senders: list[Sender]) -> None:
    """Hold that all requests which were answered are in the access log, and that nothing was taken out of it."""
    connection = open_known(folder / DATABASE)
    logged = {request for (request,) in connection.execute("SELECT request FROM access")}
    assert list(faults(connection)) == []
    connection.close()
    assert set().union(*(sender.requests for sender in senders)) <= logged


def held_once(senders: list[Sender], http: httpx.Client) -> None:
    """Hold that everybody was told the same patient, and that there is no other of that name."""
    told = defaultdict(set)
    for sender in senders:
        for number, one in sender.shared.items():
            told[number].add(one)
    assert {number: ids for number, ids in told.items() if len(ids) != 1} == {}
    for number in range(SHARED):
        total = http.get(f"{PATIENTS}?family:exact=Shared{number:03d}").json()["total"]
        assert total <= 1
        assert total == 1 or number not in told
