"""Test hooks: only where asked for, and what they do."""

from pathlib import Path

import pytest

from tests.interchange.kit import Running, issue, patient, running


def hook(service: Running, name: str, **body: object) -> int:
    """Ask for a hook."""
    return service.http.post(f"{service.url}/_test/{name}", json=body).status_code


@pytest.mark.parametrize("name", ["clock", "fail", "slow", "reset"])
def test_absent_unless_asked_for(tmp_path: Path, name: str) -> None:
    """Without test_hooks there is nothing at /_test."""
    with running(tmp_path, test_hooks=False) as service:
        assert hook(service, name, path="/fhir", advance_seconds=1) == 404


def test_fail_before_commit(own_service: Running) -> None:
    """The named path fails the named number of times with 500, of one method only, and nothing is written."""
    assert hook(own_service, "fail", path="/fhir/R4/Patient", times=2, method="POST") == 200
    assert own_service.ask("GET", "/fhir/R4/Patient").status_code == 200
    for _ in range(2):
        issue(own_service.ask("POST", "/fhir/R4/Patient", json=patient()), 500, "exception")
    assert own_service.ask("GET", "/fhir/R4/Patient").json()["total"] == 0
    assert own_service.ask("POST", "/fhir/R4/Patient", json=patient()).status_code == 201


def test_fail_after_commit(own_service: Running) -> None:
    """After the commit the answer is 504, and the write is there."""
    assert hook(own_service, "fail", path="/fhir/R4/Patient", after_commit=True, method="POST") == 200
    issue(own_service.ask("POST", "/fhir/R4/Patient", json=patient()), 504, "timeout")
    assert own_service.ask("GET", "/fhir/R4/Patient").json()["total"] == 1


def test_slow_and_timeout(tmp_path: Path) -> None:
    """C-317: a path is slowed down; beyond the request's limit it answers 504."""
    with running(tmp_path, request_timeout_s=2) as service:
        service.token("physician")
        hook(service, "slow", path="/fhir", seconds=0.2)
        assert service.ask("GET", "/fhir/Patient").status_code == 200
        hook(service, "slow", path="/fhir", seconds=30)
        issue(service.ask("GET", "/fhir/Patient"), 504, "timeout")
        assert service.ask("GET", "/fhir/Patient").status_code == 200


def test_reset_and_mistakes(own_service: Running) -> None:
    """What was asked for can be forgotten; a hook that is not understood is 400."""
    hook(own_service, "fail", path="/fhir", times=5)
    assert hook(own_service, "reset") == 200
    assert own_service.ask("GET", "/fhir/Patient").status_code == 200
    assert hook(own_service, "fail") == 400
    assert hook(own_service, "clock", advance_seconds="x") == 400
    assert hook(own_service, "nonsense") == 400
