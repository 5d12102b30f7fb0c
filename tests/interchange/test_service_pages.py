"""The service's pages run as they are: the configuration, every curl line with what it shows, and the compendium."""

import fnmatch
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.interchange.browser import HASH, PASSWORD
from tests.interchange.kit import running
from tests.interchange.places import address_of, url_of
from tests.interchange.process import ENVIRONMENT, PROGRAM, started

pytestmark = pytest.mark.text

PAGES: Final = Path(__file__).parents[2] / "engine/interchange/docs"
SHOWN_AT: Final = "http://127.0.0.1:8080"
SECRETS: Final = {
    "ENGINE_SECRET": "of-the-engine",
    "VIEWER_SECRET": "of-the-viewer",
    "AUDITOR_SECRET": "of-the-auditor",
    "PASSWORD": PASSWORD,
}
NEXT_BLOCK: Final = "-- next block --"


def between(page: str, mark: str) -> str:
    """Return the text between two marks of one of the service's pages."""
    return (PAGES / f"{page}.md").read_text().split(f"<!-- {mark} -->\n", 1)[1].split(f"<!-- /{mark} -->", 1)[0]


def steps(page: str = "fhir-tour", mark: str = "curl") -> list[tuple[str, list[str]]]:
    """Return each block of commands with the lines that are shown below it, none where nothing is."""
    found = re.findall(r"^```sh\n(.*?)^```\n(?:```text\n(.*?)^```)?", between(page, mark), re.MULTILINE | re.DOTALL)
    return [(commands, shown.splitlines()) for commands, shown in found]


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl, as the page's readers do: apt-get install curl")
def test_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The configuration starts a service, and each block of commands prints what the page shows; … is any text."""
    for name, secret in SECRETS.items():
        monkeypatch.setitem(ENVIRONMENT, name, secret)
    configuration = re.findall(r"```yaml\n(.*?)```", between("fhir-service", "interchange.yaml"), re.DOTALL)[0]
    configuration = configuration.replace(":8080", ":0").replace('password_hash: "!"', f'password_hash: "{HASH}"')
    beside = {"NO_PROXY": "*", "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    with started(tmp_path, configuration, PROGRAM) as service:
        script = f"echo '{NEXT_BLOCK}'\n".join(commands for commands, _ in steps())
        done = subprocess.run(
            ["bash", "-c", script.replace(SHOWN_AT, service.url)],
            env={**os.environ, **SECRETS, **beside, "DATABASE": url_of(tmp_path)},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    printed = done.stdout.replace(service.url, SHOWN_AT).split(f"{NEXT_BLOCK}\n")
    assert len(printed) == len(steps()) > 5, done.stderr
    for (commands, shown), lines in zip(steps(), printed, strict=True):
        patterns = [re.sub(r"([\[\]*?])", r"[\1]", line).replace("…", "*") for line in shown]
        told = lines.splitlines()
        assert len(told) == len(patterns), (commands, lines, done.stderr)
        for line, pattern in zip(told, patterns, strict=True):
            assert fnmatch.fnmatchcase(line, pattern), (commands, line, pattern)


def test_the_compendium_runs(tmp_path: Path) -> None:
    """The files of a laboratory as they are shown, checked and loaded, and what is told of them and of a mistake."""
    for name, text in re.findall(
        r"^`([\w.-]+)`:\n\n```\w+\n(.*?)^```", between("fhir-orders", "compendium"), re.MULTILINE | re.DOTALL
    ):
        (tmp_path / name).write_text(text)
    ((commands, shown),) = steps("fhir-orders", "compendium")
    with running(tmp_path) as service:
        done = subprocess.run(
            ["bash", "-c", commands],
            env={**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
            | {"DATABASE": address_of(service.database)},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            cwd=tmp_path,
        )
    # A page shows tables as a terminal does; here, in a pipe, their cells are separated by tabs.
    told = [line.split() for line in (done.stdout + done.stderr).splitlines()]
    assert told == [line.split() for line in shown]
