"""Nothing in the Chart API that FHIR does not allow: tokens for one patient, scopes, roles, and the access log."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.interchange.web.chart.operation import LISTINGS
from tests.interchange.browser import USERS
from tests.interchange.chart import put, to
from tests.interchange.chart_api.charts import chart, lipids
from tests.interchange.kit import Outside, Running, issue, merge_body, running
from tests.interchange.test_access_log import rows
from tests.interchange.test_patient_context import App, clients

PATHS = ["", *(f"/{path}" for path in LISTINGS)]


@pytest.fixture(scope="module")
def apps(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A service with apps whose users choose a patient."""
    folder = tmp_path_factory.mktemp("chart-apps")
    with running(folder, clients=clients(folder), users=USERS) as found:
        yield found


@pytest.mark.parametrize("path", PATHS)
def test_without_a_token(service: Running, path: str) -> None:
    """C-539: 401 with a challenge; for a token of another kind too."""
    patient = service.create()["id"]
    for headers in ({}, {"authorization": "Bearer garbage"}, {"authorization": f"Bearer {service.pair().refresh}"}):
        answer = service.http.get(f"{service.url}/chart/v1/patients/{patient}{path}", headers=headers)
        issue(answer, 401, "login")
        assert answer.headers["www-authenticate"].startswith("Bearer")
    issue(service.http.get(f"{service.url}/chart/v1/patients"), 401, "login")


@pytest.mark.parametrize("path", PATHS)
def test_roles_and_tenants(service: Running, path: str) -> None:
    """C-539: clinicians and programs read, administrative users only the demographics; another tenant's is nobody."""
    patient = service.create()["id"]
    for client in ("physician", "nurse", "system", "read", "pread", "patient360"):
        assert chart(service, f"patients/{patient}{path}", client).status_code == 200, client
    by_the_desk = chart(service, f"patients/{patient}{path}", "administrative")
    if path:
        issue(by_the_desk, 403, "forbidden")
    else:
        assert by_the_desk.json()["birthDate"] == "1984-02-29"  # as FHIR's read of Patient
    issue(chart(service, f"patients/{patient}{path}", "other"), 404, "not-found")
    issue(chart(service, f"patients/nobody{path}"), 404, "not-found")
    denied = "user/Observation.read" if not path else "user/Patient.read"
    issue(chart(service, f"patients/{patient}{path}", scope=denied), 403, "forbidden")


def test_an_administrative_user_searches(service: Running) -> None:
    """The role table: administrative users search Patients, here as in FHIR; the charts stay closed to them."""
    family = f"Desk{service.create()['id'][:8]}"
    made = service.create(name=[{"family": family, "given": ["A"]}])["id"]
    found = chart(service, f"patients?name={family}", "administrative")
    assert [one["id"] for one in found.json()["items"]] == [made]


def test_searching_needs_the_right_to_search(service: Running) -> None:
    """A scope of reading alone, or of a whole chart, finds nobody, as in FHIR."""
    for client, scope in (("patient360", ""), ("physician", "user/Patient.r"), ("observation", "")):
        issue(chart(service, "patients?name=q", client, scope=scope), 403, "forbidden")
    for client, scope in (("read", ""), ("pread", ""), ("physician", "user/Patient.s")):
        assert chart(service, "patients?name=q", client, scope=scope).status_code == 200, client


def test_names_need_their_own_right(service: Running) -> None:
    """Who may read Patients and nothing else sees no name of a practitioner that FHIR would not show."""
    doctor = put(service, "Practitioner", name=[{"text": "Gene Practice"}])
    patient = service.create(generalPractitioner=[to(doctor)])["id"]
    assert "Gene" not in chart(service, f"patients/{patient}", scope="user/Patient.read").text
    assert "Gene" in chart(service, f"patients/{patient}", scope="user/Patient.read user/Practitioner.read").text


def test_a_role_of_a_person_needs_its_own_right(service: Running) -> None:
    """Through a PractitionerRole, which $everything does not return, only a token looks that may read it."""
    patient = service.create()["id"]
    lipids(service, patient)
    [by_all] = chart(service, f"patients/{patient}/clinical-tests", "read").json()["items"]
    [by_chart] = chart(service, f"patients/{patient}/clinical-tests", "patient360").json()["items"]
    assert ("orderingProvider" in by_all, "orderingProvider" in by_chart) == (True, False)


@pytest.mark.parametrize("path", PATHS)
def test_a_token_for_one_patient(apps: Running, path: str) -> None:
    """A token for one patient reads that chart, under the survivor's id too, and nobody else's."""
    mine, other = apps.create()["id"], apps.create()["id"]
    app = App(apps, mine)
    assert app.ask("GET", f"/chart/v1/patients/{mine}{path}").status_code == 200
    issue(app.ask("GET", f"/chart/v1/patients/{other}{path}"), 403, "forbidden")
    narrow = App(apps, mine, "wider", "launch/patient patient/*.read user/Patient.read")
    assert narrow.ask("GET", f"/chart/v1/patients/{mine}{path}").status_code == 200
    # Every Patient is theirs to read, and the chart of one.
    expected = 403 if path else 200
    assert narrow.ask("GET", f"/chart/v1/patients/{other}{path}").status_code == expected
    assert narrow.ask("GET", f"/fhir/R4/Patient/{other}/$everything").status_code == 403
    wide = App(apps, mine, "wider", "launch/patient patient/*.read user/*.*")
    assert wide.ask("GET", f"/chart/v1/patients/{other}{path}").status_code == 200
    assert apps.ask("POST", "/fhir/R4/Patient/$merge", json=merge_body(mine, other)).status_code == 200
    assert app.ask("GET", f"/chart/v1/patients/{other}{path}").status_code == 200


def test_a_search_with_a_token_for_one_patient(apps: Running) -> None:
    """It finds that patient alone."""
    mine = apps.create(name=[{"family": "Zeller", "given": ["A"]}])["id"]
    apps.create(name=[{"family": "Zeller", "given": ["B"]}])
    app = App(apps, mine)
    found = app.ask("GET", "/chart/v1/patients?family=Zeller").json()
    assert (found["total"], [one["id"] for one in found["items"]]) == (1, [mine])


def test_each_access_has_its_row(tmp_path: Path) -> None:
    """What was asked for, whose record it showed, and how it ended is in the access log, of refusals too."""
    with running(tmp_path) as service:
        source, target = service.create()["id"], service.create()["id"]
        service.ask("POST", "/fhir/R4/Patient/$merge", json=merge_body(source, target))
        before = len(rows(service))
        for path, client in (
            ("patients?name=Quintero", "physician"),
            (f"patients/{target}", "physician"),
            (f"patients/{target}/problems", "nurse"),
            (f"patients/{source}/medications", "physician"),
            (f"patients/{target}/documents", "administrative"),
            ("patients/nobody", "physician"),
            ("openapi.json", "physician"),
        ):
            chart(service, path, client)
        assert [(row[1], *row[4:]) for row in rows(service)[before:]] == [
            ("physician", "search-type", "Patient", "", target, "done", 200),
            ("physician", "read", "Patient", target, target, "done", 200),
            ("nurse", "chart", "Condition", "", target, "done", 200),
            ("physician", "chart", "MedicationRequest", "", f"{source} {target}", "done", 200),
            ("administrative", "chart", "DocumentReference", "", target, "refused", 403),
            ("physician", "read", "Patient", "nobody", "nobody", "refused", 404),
        ]
        assert bases(service)[-6:] == ["chart"] * 6


def bases(service: Outside) -> list[str]:
    """Return what was called, by row of the log."""
    connection = sqlite3.connect(service.database)
    try:
        return [base for (base,) in connection.execute("SELECT base FROM access ORDER BY seq")]
    finally:
        connection.close()


def test_it_counts_and_fails_as_fhir_does(own_service: Running) -> None:
    """Metrics have it apart, hooks strike it, a failure is an OperationOutcome of 500, and logs have no patient."""
    patient = own_service.create()["id"]
    chart(own_service, f"patients/{patient}/problems")
    metrics = own_service.http.get(f"{own_service.url}/metrics").text
    assert 'interaction="chart",status="2xx",type="Condition",version="chart"' in metrics
    own_service.http.post(f"{own_service.url}/_test/fail", json={"path": "/chart/v1/patients"})
    issue(chart(own_service, f"patients/{patient}/problems"), 500, "exception")
    assert chart(own_service, f"patients/{patient}/problems").status_code == 200
