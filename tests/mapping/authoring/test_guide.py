"""The pages of mappings/ that are run: every file of them written, every command run, every line of output found."""

from pathlib import Path
from typing import Final

import pytest

from engine.config.settings import shipped
from tests.flow.rig import free_port
from tests.guides import BLOCK, run

pytestmark = pytest.mark.text

TUTORIAL: Final = (shipped("mappings") / "tutorial.md").read_text("utf-8")
NEW_SITE: Final = (shipped("mappings") / "new-site.md").read_text("utf-8")


def test_the_tutorial_works_as_it_stands(tmp_path: Path) -> None:
    """Files are written where the tutorial says, commands run in one shell, and what it shows is what they print."""
    run(TUTORIAL.replace("2575", str(free_port())), tmp_path)
    for name in ("resources/patient.yaml", "tests/interpreter.yaml", "schema/resource.json"):
        assert (tmp_path / "my-mappings" / name).is_file()


def test_a_new_site_comes_out_as_shown(tmp_path: Path) -> None:
    """From a folder of messages to drafts that pass the checks."""
    run(NEW_SITE, tmp_path, least=3)
    assert (tmp_path / "findings.html").is_file()


def test_every_file_of_the_tutorial_is_named() -> None:
    """A block that is no command and no output says which file it is."""
    blocks = list(BLOCK.finditer(TUTORIAL))
    assert len(blocks) > 10
    assert [block["text"] for block in blocks if block["kind"] not in {"sh", "text"} and not block["file"]] == []
