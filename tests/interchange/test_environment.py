"""Sandbox and production: two configurations, two addresses, two stores, and what only a sandbox has (points Z)."""

import sqlite3
from pathlib import Path
from typing import Any

from engine.config.service import Environment
from tests.interchange.chart import put
from tests.interchange.kit import Running, configuration, conforms, issue, patient, running, secret_file
from tests.interchange.nursery import ran
from tests.interchange.places import DATABASE, url_of
from tests.interchange.process import ENGINE_SECRET, write_configuration

JSON = {"content-type": "application/fhir+json"}
PRODUCTION: dict[str, Any] = {"environment": Environment.PRODUCTION, "test_hooks": False}


def refused(folder: Path, settings: Any) -> str:
    """Start the command over a folder that it must refuse; return what it says."""
    file = write_configuration(folder, settings)
    database = url_of(folder)
    secret = {"ENGINE_SECRET": ENGINE_SECRET}
    done = ran("interchange", "--config", str(file), "--port", "0", "--database", database, environment=secret)
    assert done.returncode in {1, 2}
    assert done.stdout == ""
    return done.stderr


def test_each_environment_has_its_own_address_and_store(tmp_path: Path) -> None:
    """C-558: a patient and a token of the sandbox are unknown in production, which answers at another address."""
    for name in ("sandbox", "production"):
        (tmp_path / name).mkdir()
    with running(tmp_path / "sandbox") as sandbox, running(tmp_path / "production", **PRODUCTION) as production:
        assert sandbox.url != production.url
        made = sandbox.create()
        path = f"/fhir/R4/Patient/{made['id']}"
        issue(production.ask("GET", path), 404, "not-found")
        issue(
            production.http.get(
                production.url + path, headers={"authorization": f"Bearer {sandbox.token('physician')}"}
            ),
            401,
            "login",
        )
        link = production.ask("GET", "/fhir/R4/Patient").json()["link"][0]["url"]
        assert link.startswith(production.url)
        assert sandbox.ask("GET", path).status_code == 200


def test_a_store_stays_in_its_environment(tmp_path: Path) -> None:
    """C-558: the data of a sandbox is never served by production, nor the other way round; nothing is written to it."""
    with running(tmp_path) as sandbox:
        kept = sandbox.create()
    said = refused(tmp_path, configuration(secret_file(tmp_path), **PRODUCTION))
    assert "belongs to sandbox, and this is production" in said
    assert "name another with --database" in said
    with sqlite3.connect(tmp_path / DATABASE) as file:
        assert file.execute("SELECT environment FROM home").fetchall() == [("sandbox",)]
    file.close()
    with running(tmp_path) as sandbox:
        assert sandbox.ask("GET", f"/fhir/R4/Patient/{kept['id']}").json() == kept


def test_hooks_are_for_a_sandbox(tmp_path: Path) -> None:
    """C-558: production has no test hooks: asked for by its configuration, the service does not start."""
    settings = configuration(secret_file(tmp_path)).model_dump_json(exclude_unset=True)
    said = refused(tmp_path, settings.replace('"environment":"sandbox"', '"environment":"production"'))
    assert "test_hooks: found true; take it out: it needs environment: sandbox" in said
    assert not (tmp_path / DATABASE).exists()
    with running(tmp_path, **PRODUCTION) as production:
        for name in ("clock", "slow", "fail", "reset"):
            assert production.http.post(f"{production.url}/_test/{name}", json={}).status_code == 404
        assert production.ask("POST", "/fhir/R4/Patient", json=patient()).status_code == 201


def flags(service: Running, base: str) -> list[str]:
    """Return the features that a CapabilityStatement lists as in force; they are held to what it says of operations."""
    answer = service.http.get(f"{service.url}{base}/metadata")
    conforms(answer, f"{base}/metadata")
    statement = answer.json()
    rest = statement["rest"][0]
    operations = {operation["name"] for found in (rest, *rest["resource"]) for operation in found.get("operation", [])}
    listed = [extension["valueCode"] for extension in statement.get("extension", [])]
    assert ("validate" in operations) == ("validate" in listed)
    return listed


def test_what_is_on_trial_is_for_a_sandbox(tmp_path: Path, base: str) -> None:
    """C-559: a flagged feature is there in a sandbox, and its CapabilityStatement lists it; elsewhere it is not."""
    (tmp_path / "production").mkdir()
    flagged: dict[str, Any] = {"feature_flags": ("validate",)}
    path = f"{base}/Patient/$validate"
    with running(tmp_path, **flagged) as sandbox:
        assert flags(sandbox, base) == ["validate"]
        assert sandbox.ask("POST", path, json=patient()).json()["issue"][0]["code"] == "informational"
        issue(sandbox.ask("GET", path), 405, "not-supported")
    with running(tmp_path / "production", **PRODUCTION, **flagged) as production:
        assert flags(production, base) == []
        issue(production.ask("POST", path, json=patient()), 404, "not-supported")
        issue(production.ask("GET", path), 404, "not-supported")
        assert production.process.event("not in force")["waits_for"] == ["feature_flags"]


def test_what_is_on_trial_needs_its_flag(service: Running, base: str) -> None:
    """C-559: a sandbox whose file does not name the flag has no such feature."""
    assert flags(service, base) == []
    issue(service.ask("POST", f"{base}/Patient/$validate", json=patient()), 404, "not-supported")


def test_an_unknown_flag_is_refused(tmp_path: Path) -> None:
    """C-559: a flag that no release knows is a mistake in the file, told with those that are known."""
    settings = configuration(secret_file(tmp_path), feature_flags=("validate",)).model_dump_json(exclude_unset=True)
    said = refused(tmp_path, settings.replace('"validate"', '"validat"'))
    assert "feature_flags.0" in said
    assert "'validate'" in said


def test_validate_writes_nothing(tmp_path: Path, base: str) -> None:
    """`$validate` says of a body what a create would refuse in it, with the same issues, and keeps nothing."""
    with running(tmp_path, feature_flags=("validate",)) as sandbox:
        kept = sandbox.create()
        observation = {"resourceType": "Observation", "status": "final", "code": {"text": "x"}}
        bodies = [
            patient(gender=None, birthDate=None),
            patient(gender="X"),
            patient(managingOrganization={"reference": "Organization/nobody"}),
            {**observation, "subject": {"reference": "Patient/nobody"}},
            observation,
        ]
        for body in bodies:
            address = f"{base}/{body['resourceType']}"
            told = sandbox.ask("POST", f"{address}/$validate", json=body)
            assert told.status_code == 200
            refusal = sandbox.ask("POST", address, json=body)
            assert refusal.status_code in {400, 422}
            assert told.json() == refusal.json()
        sound = {**observation, "subject": {"reference": f"Patient/{kept['id']}"}}
        foreign = put(sandbox, "CarePlan", sandbox.create()["id"])
        linked = {**sound, "basedOn": [{"reference": foreign}]}
        told = sandbox.ask("POST", f"{base}/Observation/$validate", json=linked)
        assert told.json() == sandbox.ask("POST", f"{base}/Observation", json=linked).json()
        assert told.json()["issue"][0]["code"] == "business-rule"
        told = sandbox.ask("POST", f"{base}/Observation/$validate", json=sound).json()
        assert [one["severity"] for one in told["issue"]] == ["information"]
        assert sandbox.ask("GET", f"{base}/Observation?patient={kept['id']}").json()["total"] == 0
        issue(sandbox.ask("POST", f"{base}/Patient/$validate", client="read", json=patient()), 403, "forbidden")
        issue(sandbox.ask("POST", f"{base}/Patient/$validate", content=b"{", headers=JSON), 400, "structure")


def test_validate_takes_parameters(tmp_path: Path, base: str) -> None:
    """N-236: `$validate` judges the resource that Parameters carry as it judges the bare one; they must carry one."""
    with running(tmp_path, feature_flags=("validate",)) as sandbox:

        def ask(*parameters: Any) -> Any:
            body = {"resourceType": "Parameters", "parameter": list(parameters)}
            return sandbox.ask("POST", f"{base}/Patient/$validate", json=body)

        mode = {"name": "mode", "valueCode": "create"}
        sound = {"name": "resource", "resource": patient()}
        wrong = {"name": "resource", "resource": patient(gender="X")}
        assert [one["severity"] for one in ask(mode, sound).json()["issue"]] == ["information"]
        assert ask(wrong).json() == sandbox.ask("POST", f"{base}/Patient/$validate", json=wrong["resource"]).json()
        for parameters in ((), (mode,), (sound, sound)):
            issue(ask(*parameters), 400, "invalid")


def test_validate_gives_a_second_opinion(tmp_path: Path) -> None:
    """What HL7's schemas let pass and fhir.resources does not is a warning with its place."""
    with running(tmp_path, feature_flags=("validate",)) as sandbox:
        ward = {"url": "https://x.example", "valueString": "Ward"}
        body = {
            "resourceType": "ServiceRequest",
            "status": "active",
            "intent": "order",
            "subject": {"reference": f"Patient/{sandbox.create()['id']}"},
            "occurrenceTiming": {"repeat": {"frequency": 1, "modifierExtension": [ward]}},
        }
        fine, warning = sandbox.ask("POST", "/fhir/R4/ServiceRequest/$validate", json=body).json()["issue"]
        assert (fine["severity"], warning["severity"]) == ("information", "warning")
        assert warning["expression"] == ["ServiceRequest.occurrenceTiming.repeat.modifierExtension"]
        assert "Ward" not in warning["diagnostics"]
