"""Laboratories in the service's file: what fits together, what is warned of, and what a performer without one gets."""

from pathlib import Path
from typing import Any

import pytest

from tests.config.test_connectors import looked

LINE = {"type": "hl7", "host": "lab.example", "port": 2575, "tls": True}


def at(connector: dict[str, Any]) -> dict[str, Any]:
    """Return a tenant with one laboratory."""
    return {"laboratories": {"lab-1": {"connector": connector}}}


@pytest.mark.parametrize(
    ("connector", "found"),
    [
        pytest.param({"type": "hl7", "port": 2575}, "missing", id="no host"),
        pytest.param({"type": "hl7", "host": "lab.example"}, "missing", id="no port"),
        pytest.param({"type": "directory"}, "missing", id="no folder"),
        pytest.param({**LINE, "folder": "/srv"}, "given for type hl7", id="a folder of a line"),
        pytest.param({**LINE, "results": True}, "given for type hl7", id="invented results of a line"),
        pytest.param({"type": "directory", "folder": "/", "tls": True}, "given for type dir", id="tls of a folder"),
        pytest.param({"type": "simulated", "message": "OML^O21"}, "given for type sim", id="a message of nobody"),
        pytest.param({**LINE, "tls": False, "ca_file": "/x"}, "given without tls", id="a ca_file in the clear"),
        pytest.param({**LINE, "certificate": "/x"}, "given without key", id="no key"),
        pytest.param({**LINE, "key": "/x"}, "given without certificate", id="no certificate"),
        pytest.param({**LINE, "version": "2.3"}, "found '2.3'", id="OML before it was"),
    ],
)
def test_keys_that_do_not_fit(connector: dict[str, Any], found: str) -> None:
    """Each is a problem with its place."""
    problems = looked(at(connector)).problems
    path = "tenants.riverbend.laboratories.lab-1.connector"
    assert [problem for problem in problems if found in problem.found and problem.path.startswith(path)]


def test_a_laboratory_is_named_by_its_organization() -> None:
    """What cannot be the id of a resource is refused."""
    problems = looked({"laboratories": {"lab 1": {"connector": LINE}}}).problems
    assert "the id of a resource" in problems[0].expected


def test_production_does_not_simulate() -> None:
    """A simulated laboratory takes no order of a real patient."""
    [problem] = looked(at({"type": "simulated"}), "production").problems
    assert problem.path == "tenants.riverbend.laboratories.lab-1.connector.type"
    assert problem.expected == "take it out: it needs environment: sandbox"


def test_a_performer_without_settings() -> None:
    """It is simulated in a sandbox, and not connected in production; one with settings is what they say."""
    sandbox, production = (looked(at(LINE), environment).value for environment in ("sandbox", "production"))
    assert sandbox is not None
    assert production is not None
    other = sandbox.laboratory("riverbend", "lab-2")
    assert other is not None
    assert other.connector.type == "simulated"
    assert production.laboratory("riverbend", "lab-2") is None
    for one in (sandbox, production):
        settings = one.laboratory("riverbend", "lab-1")
        assert settings is not None
        assert settings.connector.port == 2575


def test_what_is_warned_of(tmp_path: Path) -> None:
    """`interchange check` tells a laboratory that gets orders in the clear, and what is not there."""
    [warning] = looked(at({**LINE, "tls": False})).ask("warnings")
    assert warning.path == "tenants.riverbend.laboratories.lab-1.connector.host"
    assert not list(looked(at({**LINE, "tls": False, "host": "127.0.0.1"})).ask("warnings"))
    missing = str(tmp_path / "no.pem")
    asked = looked(at({**LINE, "ca_file": missing, "certificate": missing, "key": missing})).ask("unavailable")
    assert {one.path.rpartition(".")[2] for one in asked} == {"ca_file", "certificate", "key"}
    folder = looked(at({"type": "directory", "folder": str(tmp_path / "none")})).ask("unavailable")
    assert [one.path.rpartition(".")[2] for one in folder] == ["folder"]
    assert not list(looked(at({"type": "directory", "folder": str(tmp_path)})).ask("unavailable"))
