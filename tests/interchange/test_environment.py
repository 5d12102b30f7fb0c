"""Sandbox and production: two configurations, two addresses, two stores, and what only a sandbox has (points Z)."""

import sqlite3
import subprocess
from pathlib import Path
from typing import Any

from engine.config.service import Environment
from tests.interchange.kit import configuration, issue, patient, running, secret_file
from tests.interchange.process import COMMAND, DATABASE, ENVIRONMENT, write_configuration

PRODUCTION: dict[str, Any] = {"environment": Environment.PRODUCTION, "test_hooks": False}


def refused(folder: Path, settings: Any) -> str:
    """Start the command over a folder that it must refuse; return what it says."""
    file = write_configuration(folder, settings)
    arguments = ["--config", str(file), "--port", "0", "--database", f"sqlite:///{folder}/{DATABASE}"]
    program = [*COMMAND[:2], "from engine.__main__ import main; main()", "interchange", *arguments]
    done = subprocess.run(program, env=ENVIRONMENT, capture_output=True, text=True, timeout=60, check=False)
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
    assert "name another file" in said
    with sqlite3.connect(tmp_path / DATABASE) as file:
        assert file.execute("SELECT environment FROM home").fetchall() == [("sandbox",)]
    file.close()
    with running(tmp_path) as sandbox:
        assert sandbox.ask("GET", f"/fhir/R4/Patient/{kept['id']}").json() == kept


def test_hooks_are_for_a_sandbox(tmp_path: Path) -> None:
    """C-558: production has no test hooks: asked for by its configuration, the service does not start."""
    settings = configuration(secret_file(tmp_path)).model_dump_json(exclude_unset=True)
    said = refused(tmp_path, settings.replace('"environment":"sandbox"', '"environment":"production"'))
    assert "test_hooks need environment: sandbox" in said
    assert not (tmp_path / DATABASE).exists()
    with running(tmp_path, **PRODUCTION) as production:
        for name in ("clock", "slow", "fail", "reset"):
            assert production.http.post(f"{production.url}/_test/{name}", json={}).status_code == 404
        assert production.ask("POST", "/fhir/R4/Patient", json=patient()).status_code == 201
