"""Sources of a tenant's patients in the service's file: what fits together, what is warned of, who invents."""

from pathlib import Path
from typing import Any

import orjson
import pytest

from engine.config.service import ServiceConfiguration
from engine.config.source import Looked, look, parse

SERVER = {"type": "fhir", "url": "https://other.example/fhir"}


def looked(tenant: dict[str, Any], environment: str = "sandbox") -> Looked[ServiceConfiguration]:
    """Return what is made of a service's file with one tenant."""
    file = {
        "environment": environment,
        "base_url": "https://cdis.example",
        "service_identifier_system": "https://cdis.example",
        "tenants": {"riverbend": tenant},
    }
    return look(parse(orjson.dumps(file).decode(), "interchange.yaml"), ServiceConfiguration)


@pytest.mark.parametrize(
    ("connector", "found"),
    [
        pytest.param({"type": "fhir"}, "missing", id="no url"),
        pytest.param({"type": "directory"}, "missing", id="no folder"),
        pytest.param({**SERVER, "folder": "/srv"}, "given for type fhir", id="a folder of a server"),
        pytest.param({"type": "directory", "folder": "/srv", "version": "R4"}, "given for type dir", id="a version"),
        pytest.param({**SERVER, "auth": {"client_id": "x"}}, "given without token_url", id="no token_url"),
        pytest.param({**SERVER, "auth": {"token_url": "https://a.example"}}, "missing", id="no client_id"),
        pytest.param(
            {**SERVER, "auth": {"token_url": "https://a.example", "client_id": "x"}}, "none or both", id="no proof"
        ),
        pytest.param({**SERVER, "auth": {"method": "basic"}}, "basic without client_secret", id="no secret to send"),
    ],
)
def test_keys_that_do_not_fit(connector: dict[str, Any], found: str) -> None:
    """Each is a problem with its place."""
    problems = looked({"connectors": {"north": connector}}).problems
    assert [one for one in problems if found in one.found and one.path.startswith("tenants.riverbend.connectors.north")]


@pytest.mark.parametrize(
    ("environment", "mode", "mocked"),
    [
        ("sandbox", {}, True),
        ("sandbox", {"network_mode": "mocked"}, True),
        ("sandbox", {"network_mode": "real"}, False),
        ("production", {}, False),
        ("production", {"network_mode": "real"}, False),
    ],
)
def test_who_invents(environment: str, mode: dict[str, str], mocked: bool) -> None:
    """C-357, C-358: a sandbox invents unless it is told to ask; production never does."""
    value = looked(mode, environment).value
    assert value is not None
    assert value.mocked("riverbend") is mocked


def test_production_does_not_invent() -> None:
    """Invented facts never come into the chart of a real patient."""
    [problem] = looked({"network_mode": "mocked"}, "production").problems
    assert (problem.path, problem.expected) == (
        "tenants.riverbend.network_mode",
        "take it out: it needs environment: sandbox",
    )


@pytest.mark.parametrize(
    ("tenant", "path"),
    [
        ({"network_mode": "real"}, "network_mode"),
        ({"connectors": {"north": SERVER}}, "connectors"),
        (
            {"network_mode": "real", "connectors": {"north": {**SERVER, "url": "http://other.example"}}},
            "connectors.north.url",
        ),
    ],
)
def test_what_is_warned_of(tenant: dict[str, Any], path: str) -> None:
    """`interchange check` tells sources that nobody asks, a mode without sources, and a server asked in the clear."""
    [warning] = looked(tenant).ask("warnings")
    assert warning.path == f"tenants.riverbend.{path}"


def test_what_cannot_be_used(tmp_path: Path) -> None:
    """`interchange check` names connectors whose files, folders or secrets are not there."""
    auth = {"token_url": "https://a.example/token", "client_id": "x", "client_secret": {"env": "NO_SUCH_SECRET"}}
    server = {**SERVER, "ca_file": str(tmp_path / "ca.pem"), "auth": auth}
    folder = {"type": "directory", "folder": str(tmp_path / "drop")}
    asked = looked({"network_mode": "real", "connectors": {"north": server, "drop": folder}}).ask("unavailable")
    assert {one.path.removeprefix("tenants.riverbend.connectors.") for one in asked} == {
        "north.ca_file",
        "north.auth.client_secret.env",
        "drop.folder",
    }
