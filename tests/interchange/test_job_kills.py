"""The service killed at each step of a job: nothing that was promised is lost, and nothing is done twice."""

import contextlib
import random
import shutil
import sqlite3
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from engine.interchange.rest.resource.catalogue import INDEXERS
from engine.interchange.store.verify import verify
from tests.interchange.kit import patient
from tests.interchange.places import DATABASE
from tests.interchange.process import FORKED, Process, started
from tests.interchange.test_process import CONFIGURATION, client

pytestmark = pytest.mark.process

PROGRAM = "tests.interchange.job_program"
KILLED = -9
NAMES = "SELECT json_extract(body, '$.name') FROM resource WHERE type='Organization' ORDER BY 1"
# The commits of a job on its way: it is asked for, taken up, tells of itself, and ends.
ASKED, TAKEN, TOLD, DONE = 1, 2, 3, 4
COMMITS = [f"{point}:kill:{number}" for point in ("F28", "F29") for number in (ASKED, TAKEN, TOLD, DONE)]
POINTS = ["F32:kill", "F33:kill", "F34:kill", *COMMITS]


@dataclass
class Lives:
    """One service and its lives, with a token that outlives them."""

    folder: Path
    headers: dict[str, str] = field(default_factory=dict)

    @contextlib.contextmanager
    def live(self, fault: str = "") -> Iterator[tuple[Process, httpx.Client]]:
        """Let it live, with a fault armed; afterwards its database is whole."""
        with started(self.folder, CONFIGURATION, FORKED, fault, PROGRAM) as process:
            if not self.headers:
                with client(process.url) as first:
                    self.headers = dict(first.headers)
            with httpx.Client(base_url=process.url, headers=self.headers, trust_env=False, timeout=60) as http:
                yield process, http
        assert verify(self.folder / DATABASE, INDEXERS).faults == {}

    def rows(self, sql: str) -> list[tuple[object, ...]]:
        """Return what a query finds while no service runs."""
        connection = sqlite3.connect(self.folder / DATABASE)
        found = connection.execute(sql).fetchall()
        connection.close()
        return found

    def check(self) -> None:
        """Hold that each job that is done has kept what it is to keep, once, and that no other one has."""
        done = self.rows("SELECT id FROM job WHERE state='done' ORDER BY id")
        assert self.rows(NAMES) == done
        assert self.rows("SELECT count(*) FROM job WHERE ended_ms IS NULL") == [(0,)]


@pytest.fixture(scope="module")
def former(tmp_path_factory: pytest.TempPathFactory) -> Lives:
    """A service that has lived once, so that its lives begin with what is asked of them."""
    found = Lives(tmp_path_factory.mktemp("former"))
    with found.live():
        pass
    return found


@pytest.fixture
def lives(former: Lives, tmp_path: Path) -> Lives:
    """The same, to live on in a folder of its own."""
    shutil.copy(former.folder / DATABASE, tmp_path)
    return Lives(tmp_path, former.headers)


def asked(http: httpx.Client, patient_id: str, query: str = "") -> str:
    """Ask for a job and return the path of its handle; '' where the service died of it."""
    try:
        answer = http.post(f"/fhir/R4/Patient/{patient_id}/$work{query}", json={"resourceType": "Parameters"})
    except httpx.HTTPError:
        return ""
    assert answer.status_code == 202, answer.text
    return answer.headers["location"].partition("/fhir/")[2]


def ended(http: httpx.Client, handle: str) -> httpx.Response:
    """Ask a handle until its job has ended; AssertionError after half a minute."""
    end = time.monotonic() + 30
    while (answer := http.get(f"/fhir/{handle}")).status_code == 202:
        assert time.monotonic() < end
        time.sleep(0.01)
    return answer


@pytest.mark.parametrize("point", POINTS)
def test_a_job_survives(lives: Lives, point: str) -> None:
    """C-562: killed at each step of a job, what was promised is done after the next start, once.

    Whoever asks again for what was not promised has it done once, too.
    """
    with lives.live(point) as (process, http):
        handle = asked(http, "p1")
        assert process.run.wait(60) == KILLED
    # Nobody is promised what is not on disk.
    assert bool(handle) <= (lives.rows("SELECT count(*) FROM job") == [(1,)])
    assert (lives.rows("SELECT count(*) FROM job") == [(1,)]) == (not point.startswith(("F32", f"F28:kill:{ASKED}")))
    with lives.live() as (_, http):
        handle = handle or asked(http, "p1")
        answers = [ended(http, handle) for _ in range(2)]
        assert [answer.status_code for answer in answers] == [200, 200]
        assert answers[0].json()["id"] == handle.rpartition("/")[2]
    lives.check()


@pytest.mark.parametrize("point", ["F33:kill", "F34:kill"])
def test_an_export_survives(lives: Lives, point: str) -> None:
    """C-337, C-562: killed while a document is made, the handle has it after the next start: one document, whole."""
    with lives.live(point) as (process, http):
        made = http.post("/fhir/R4/Patient", json=patient()).json()["id"]
        # It is on disk before its 202, which may not leave any more.
        with contextlib.suppress(httpx.HTTPError):
            http.post(f"/fhir/R4/Patient/{made}/$export-ccda", headers={"prefer": "respond-async"})
        assert process.run.wait(60) == KILLED
    [(job,)] = lives.rows("SELECT id FROM job")
    with lives.live() as (_, http):
        told = {
            one["name"]: next(iter(value for key, value in one.items() if key != "name"))
            for one in ended(http, f"R4/RequestResult/{job}").json()["parameter"]
        }
        document = http.get(urlsplit(told["url"]).path).content
        assert (len(document), sha256(document).hexdigest()) == (told["size"], told["checksum"])
    assert lives.rows("SELECT count(*) FROM temporary_binary") == [(1,)]


@pytest.mark.parametrize("point", [f"F28:eio:{TAKEN}", f"F28:enospc:{DONE}", f"F29:raise:{DONE}"])
def test_a_job_survives_a_disk_that_fails(lives: Lives, point: str) -> None:
    """A store that fails at a commit of a job takes no more; the job is done after the next start, once."""
    with lives.live(point) as (_, http):
        handle = asked(http, "p1")
        assert handle
        end = time.monotonic() + 30
        while http.get("/readyz").status_code != 503:
            assert time.monotonic() < end
            time.sleep(0.01)
    with lives.live() as (_, http):
        assert ended(http, handle).status_code == 200
    lives.check()


def test_a_job_that_kills_the_service(lives: Lives) -> None:
    """A job whose work ends the process is given up after three times, and takes down no other one with it.

    The others that were under way wait until it is over, are done once, and are not blamed.
    """
    handles: list[str] = []
    for life in range(3):
        with lives.live() as (process, http):
            if not life:
                handles += [asked(http, f"p{number}", "?seconds=0.2") for number in (1, 2)]
                handles.append(asked(http, "p3", "?kills=yes"))
                assert all(handles)
            assert process.run.wait(60) == KILLED
    assert {state for (state,) in lives.rows("SELECT state FROM job")} <= {"running", "waiting", "done"}
    with lives.live() as (process, http):
        told = ended(http, handles[2])
        assert (told.status_code, told.json()["issue"][0]["code"]) == (422, "processing")
        assert "given it up" in told.json()["issue"][0]["diagnostics"]
        assert [ended(http, handle).status_code for handle in handles[:2]] == [200, 200]
        assert process.event("jobs given up")["count"] == 1
    lives.check()
    assert lives.rows("SELECT crashes FROM job ORDER BY number")[2] == (3,)


def test_kills_at_any_moment(lives: Lives) -> None:
    """Jobs are asked for and cancelled while the service is killed at any moment, twice: those promised are all done.

    What was cancelled is gone and has kept nothing.
    """
    chance = random.Random()
    promised: list[str] = []
    cancelled: set[str] = set()
    doubtful: set[str] = set()

    def use(http: httpx.Client, life: int) -> None:
        for number in range(200):
            handle = asked(http, f"p{life}-{number}", f"?seconds={chance.random() / 50}")
            if not handle:
                return
            if number % 5:
                promised.append(handle)
                continue
            try:
                assert http.delete(f"/fhir/{handle}").status_code in {202, 404}
                cancelled.add(handle)
            except httpx.HTTPError:
                doubtful.add(handle)
                return

    for life in range(2):
        with lives.live() as (process, http):
            user = threading.Thread(target=use, args=(http, life))
            user.start()
            time.sleep(0.2 + chance.random() / 2)
            process.run.kill()
            assert process.run.wait(60) == KILLED
            user.join(60)
    with lives.live() as (_, http):
        for handle in promised:
            assert ended(http, handle).status_code == 200
        for handle in cancelled:
            assert ended(http, handle).status_code == 404
        for handle in doubtful:
            assert ended(http, handle).status_code in {200, 404}
    names = [one for (one,) in lives.rows(NAMES)]
    assert len(set(names)) == len(names)
    assert {one.rpartition("/")[2] for one in promised} <= set(names)
    assert {one for (one,) in lives.rows("SELECT id FROM job WHERE state<>'done'")}.isdisjoint(names)
    assert len(promised) > 10
    assert cancelled
