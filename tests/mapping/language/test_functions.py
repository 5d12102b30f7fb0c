"""The registry of functions: closed, documented, and each used or at least usable."""

import re

import pytest

from engine.config.shipped import shipped
from engine.mapping.language.functions import FUNCTIONS

README = (shipped("mappings") / "README.md").read_text("utf-8")


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_every_function_is_documented(name: str) -> None:
    """The table of functions names each, with its own words."""
    row = next(
        (line for line in README.splitlines() if re.search(rf"`{name}(\(|`)", line) and line.startswith("|")), ""
    )
    assert row, name
    if name not in {"integer", "positive-integer"}:
        assert FUNCTIONS[name].text in row


def test_the_readme_names_no_other_function() -> None:
    """What the table names exists."""
    table = README.split("## Functions")[1].split("## Identifiers")[0]
    named = {
        name
        for row in table.splitlines()
        if row.startswith("| `")
        for name in re.findall(r"`([a-z-]+)", row.split("|")[1])
    }
    assert named == set(FUNCTIONS)
