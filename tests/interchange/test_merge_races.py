"""Merges at once, and merges while others write: each as if they had come in turn, and no resource left behind."""

import threading
from itertools import count
from typing import Any

import pytest

from tests.interchange.kit import Running, issue, merge_body
from tests.interchange.least import least, version_of
from tests.interchange.parallel import at_once, statuses, together

pytestmark = pytest.mark.process

FRESH = count(1)
ROUNDS = 8


@pytest.fixture(scope="module", params=["one process", "two on PostgreSQL"])
def service(request: pytest.FixtureRequest, service: Running) -> Running:
    """One process of the service, and two that share a database: nobody must notice."""
    return service if request.param == "one process" else request.getfixturevalue("pair")


def people(service: Running, number: int) -> list[str]:
    """Create patients, each with an Observation and a number of its own, and return their ids."""
    found = []
    for _ in range(number):
        identifier = {"system": "urn:merge-races", "value": f"{next(FRESH)}"}
        found.append(service.create(identifier=[identifier])["id"])
        body = least("Observation", found[-1])
        assert service.ask("POST", "/fhir/R4/Observation", json=body).status_code == 201
    return found


def whose(service: Running, patient_id: str) -> int:
    """Return of how many charts a live patient's chart is made; 0 for one that was merged away."""
    if service.ask("GET", f"/fhir/R4/Patient?_id={patient_id}").json()["total"] == 0:
        return 0
    found = service.ask("GET", f"/fhir/R4/Observation?patient={patient_id}").json()
    assert all(entry["resource"]["subject"]["reference"] == f"Patient/{patient_id}" for entry in found["entry"])
    return int(found["total"])


@pytest.mark.parametrize(
    ("merges", "charts"),
    [
        pytest.param(((0, 1), (1, 0)), {(0, 2), (2, 0)}, id="crossed"),
        pytest.param(((0, 1), (0, 2)), {(0, 2, 1), (0, 1, 2)}, id="one source"),
        pytest.param(((0, 1), (0, 1)), {(0, 2)}, id="the same twice"),
    ],
)
def test_merges_that_exclude_each_other(service: Running, base: str, merges: Any, charts: Any) -> None:
    """C-284: of two merges that cannot both be, one is done; the other is 422 and changes nothing."""
    for _ in range(ROUNDS):
        ids = people(service, len(next(iter(charts))))
        calls = [("POST", f"{base}/Patient/$merge", merge_body(ids[one], ids[other]), {}) for one, other in merges]
        answers = at_once(service, calls)
        assert statuses(answers) == [200, 422]
        issue(next(answer for answer in answers if answer.status_code == 422), 422, "business-rule")
        assert tuple(whose(service, one) for one in ids) in charts


@pytest.mark.parametrize(
    ("merges", "least_done"),
    [
        pytest.param(((0, 1), (1, 2)), 1, id="a chain"),
        pytest.param(((0, 3), (1, 3), (2, 3)), 3, id="into one"),
        pytest.param(((0, 1), (1, 2), (2, 3), (3, 0)), 2, id="a ring"),
    ],
)
def test_merges_at_once_lose_no_chart(service: Running, base: str, merges: Any, least_done: int) -> None:
    """C-276, C-288: in whatever order merges come, every chart is whole with the survivor that the links lead to."""
    for _ in range(ROUNDS):
        ids = people(service, 1 + max(map(max, merges)))
        calls = [("POST", f"{base}/Patient/$merge", merge_body(ids[one], ids[other]), {}) for one, other in merges]
        answers = at_once(service, calls)
        assert set(statuses(answers)) <= {200, 422}
        done = statuses(answers).count(200)
        assert done >= least_done
        charts = [whose(service, one) for one in ids]
        assert sum(charts) == len(ids)
        assert charts.count(0) == done
        for one, chart in zip(ids, charts, strict=True):
            if chart == 0:
                assert whose(service, survivor(service, one)) > 1


def survivor(service: Running, patient_id: str) -> str:
    """Follow the links of merged-away records to the record that lives."""
    read = service.ask("GET", f"/fhir/R4/Patient/{patient_id}").json()
    replaced = [link["other"]["reference"] for link in read.get("link", []) if link["type"] == "replaced-by"]
    return survivor(service, replaced[0].removeprefix("Patient/")) if replaced else patient_id


def test_a_merge_among_writers(service: Running, base: str) -> None:
    """Section 6A: what 8 writers add to the source's chart goes along, and from the merge on each of them is 422."""
    for _ in range(3):
        source, target = people(service, 2)
        merged = threading.Event()

        def write(*, source: str = source, merged: threading.Event = merged) -> list[tuple[bool, int]]:
            """Write until well after the merge; return whether it was over before each request, and the status."""
            told = []
            for _ in range(400):
                over = merged.is_set()
                body = least("Observation", source, version_of(base))
                answer = service.http.post(
                    f"{service.url}{base}/Observation",
                    json=body,
                    headers={
                        "authorization": f"Bearer {service.token('physician')}",
                        "content-type": "application/fhir+json",
                    },
                )
                told.append((over, answer.status_code))
                if over and len([one for one in told if one[0]]) > 3:
                    break
            return told

        def change(*, pair: tuple[str, str] = (source, target), merged: threading.Event = merged) -> list[Any]:
            """Merge once the writers are at work."""
            while service.ask("GET", f"/fhir/R4/Observation?patient={pair[0]}&_count=0").json()["total"] < 20:
                continue
            answer = service.ask("POST", f"{base}/Patient/$merge", json=merge_body(*pair))
            merged.set()
            return [(False, answer.status_code)]

        told = [result for results in together([*[write] * 8, change]) for result in results]
        assert {status for over, status in told if over} == {422}
        assert {status for over, status in told if not over} <= {200, 201, 422}
        written = [status for _, status in told].count(201)
        assert written >= 19
        assert whose(service, target) == written + 2
        assert service.ask("GET", f"/fhir/R4/Observation?patient={source}&_count=0").json()["total"] == written + 2


def test_a_merge_among_updates(service: Running, base: str) -> None:
    """C-158, C-153: an update of the source, or of what it moves, counts before the merge or is refused after it."""
    for _ in range(ROUNDS):
        source, target = people(service, 2)
        found = service.ask("GET", f"/fhir/R4/Observation?patient={source}").json()["entry"][0]["resource"]
        read = service.ask("GET", f"{base}/Patient/{source}").json()
        updates = [
            ("PUT", f"{base}/Patient/{source}", {**read, "language": "x-new"}, {}),
            ("PUT", f"/fhir/R4/Observation/{found['id']}", {**found, "language": "x-new"}, {"if-match": 'W/"1"'}),
        ]
        merge = ("POST", f"{base}/Patient/$merge", merge_body(source, target), {})
        patched, observed, merged = at_once(service, [*updates, merge])
        assert merged.status_code == 200
        assert patched.status_code in {200, 422}
        assert observed.status_code in {200, 412}
        gone = service.ask("GET", f"{base}/Patient/{source}").json()
        assert gone["active"] is False
        assert (gone.get("language") == "x-new") == (patched.status_code == 200)
        moved = service.ask("GET", f"/fhir/R4/Observation/{found['id']}").json()
        assert moved["subject"]["reference"] == f"Patient/{target}"
        assert (moved.get("language") == "x-new") == (observed.status_code == 200)
