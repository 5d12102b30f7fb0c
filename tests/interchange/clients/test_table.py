"""FHIR clients that others wrote, each doing what the table of clients.md says of it, against a running service."""

import json
import re
import tomllib
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from engine.config.account import Client
from tests.interchange.browser import USERS
from tests.interchange.clients import fhirclient_client, fhirpy_client
from tests.interchange.clients.checks import CHECKS
from tests.interchange.clients.install import java, node
from tests.interchange.clients.table import BASES, CALLS, VERSIONS
from tests.interchange.clients.task import APP, BACK, SCOPE, task
from tests.interchange.clients.walk import Walk, walk_apart, walk_here
from tests.interchange.kit import configuration, running

# The first run on a machine installs the clients.
pytestmark = pytest.mark.timeout(900)

HERE: Final = Path(__file__).parent
SOURCES: Final = {
    "fhirpy": HERE / "fhirpy_client.py",
    "fhirclient": HERE / "fhirclient_client.py",
    "fhir-kit-client": HERE / "fhir-kit-client.mjs",
    "@medplum/core": HERE / "medplum-core.mjs",
    "fhirclient.js": HERE / "fhirclient-js.mjs",
    "HAPI": HERE / "HapiClient.java",
}
IN_PYTHON: Final = {"fhirpy": fhirpy_client.steps, "fhirclient": fhirclient_client.steps}
COMMANDS: Final = {".mjs": node, ".java": java}
PAIRS: Final = [(client, version) for client, versions in BASES.items() for version in versions]

Walks = Callable[[str, str], Walk]


@pytest.fixture(scope="module")
def walks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Walks]:
    """A service, and what each client did at each base of it, done when it is first asked for."""
    folder = tmp_path_factory.mktemp("clients")
    app = Client(
        tenant="riverbend",
        grants=("authorization_code", "refresh_token"),
        redirect_uris=(BACK,),
        scopes=tuple(SCOPE.split()),
    )
    clients = {**configuration(folder / "secret").clients, APP: app}
    with running(folder, clients=clients, users=USERS) as service:

        @cache
        def walk(client: str, version: str) -> Walk:
            if client in IN_PYTHON:
                return walk_here(task(service, version), IN_PYTHON[client])
            source, room = SOURCES[client], tmp_path_factory.mktemp("client")
            return walk_apart(task(service, version), COMMANDS[source.suffix](source, room), room / "errors")

        yield walk


@pytest.mark.parametrize(
    ("client", "version", "verb"), [(client, version, verb) for client, version in PAIRS for verb in CALLS[client]]
)
def test_what_the_table_says_works(walks: Walks, client: str, version: str, verb: str) -> None:
    """The client's call does what it should, and the service has what it says."""
    walk = walks(client, version)
    assert verb in walk.saw, walk.errors
    CHECKS[verb](walk.task, walk.task.given[verb], walk.saw[verb])


@pytest.mark.parametrize(("client", "version"), PAIRS)
def test_what_has_no_call_was_not_run(walks: Walks, client: str, version: str) -> None:
    """The table names each step that the client did, no other, and its program ended well."""
    walk = walks(client, version)
    assert walk.errors == {}
    assert walk.saw.keys() == CALLS[client].keys()
    assert walk.exit_code == 0


@pytest.mark.parametrize("client", CALLS)
def test_the_table_names_the_calls(client: str) -> None:
    """What the table names as the client's call for a verb stands in the client's steps."""
    source = SOURCES[client].read_text()
    assert [call for call in CALLS[client].values() if not re.search(rf"\.{call}\(", source)] == []


def test_the_table_knows_every_client_and_verb() -> None:
    """Each client has a column, each verb a row and a check."""
    assert CALLS.keys() == SOURCES.keys()
    assert {verb for calls in CALLS.values() for verb in calls} == CHECKS.keys()


def test_the_versions_are_those_that_are_installed() -> None:
    """The table names the versions that pyproject.toml, package.json and pom.xml pin."""
    project = tomllib.loads((HERE.parents[2] / "pyproject.toml").read_text())
    python = dict(one.split("==") for one in project["project"]["optional-dependencies"]["test"] if "==" in one)
    packages = json.loads((HERE / "package.json").read_text())["dependencies"]
    locked = json.loads((HERE / "package-lock.json").read_text())["packages"][""]["dependencies"]
    hapi = re.findall(r"<hapi.version>(.*)</hapi.version>", (HERE / "pom.xml").read_text())
    assert packages == locked
    pinned = {
        "fhirpy": python["fhirpy"],
        "fhirclient": python["fhirclient"],
        "fhir-kit-client": packages["fhir-kit-client"],
        "@medplum/core": packages["@medplum/core"],
        "fhirclient.js": packages["fhirclient"],
        "HAPI": hapi[0],
    }
    assert pinned == VERSIONS
