"""The page of the outgoing mapping: its files are written, its commands run, its table is of all functions."""

from pathlib import Path

import pytest

from engine.config.settings import shipped
from engine.mapping.outgoing.functions import OUTGOING_FUNCTIONS
from engine.mapping.outgoing.path import FUNCTIONS, STARTS
from tests.guides import run, whole

PAGE = shipped("mappings") / "out.md"

pytestmark = pytest.mark.text


def test_the_page_does_what_it_shows(tmp_path: Path) -> None:
    """Each block, from the first heading on."""
    run(whole(PAGE), tmp_path)


def test_every_function_is_on_the_page() -> None:
    """With its meaning; so is every step and start of a path."""
    text = PAGE.read_text("utf-8")
    rows = "\n".join(f"| `{name}` | {one.text} |" for name, one in OUTGOING_FUNCTIONS.items())
    shown = text.split("<!-- functions -->\n", 1)[1].split("\n<!-- /functions -->", 1)[0]
    assert shown == f"| Function | Makes |\n|---|---|\n{rows}"
    assert [name for name in (*FUNCTIONS, *STARTS) if f"`{name}" not in text and f"{name}(" not in text] == []
