"""The table of fault points and the code say the same."""

import ast
import re
from pathlib import Path

import pytest

from engine import fault

ENGINE = Path(fault.__file__).parent
NAME = re.compile(r"F\d\d")


def named(file: Path) -> set[str]:
    """Return the points that a file names in its code."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    texts = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    return set(filter(NAME.fullmatch, texts))


def test_every_point_in_the_code_is_in_the_table_and_the_reverse() -> None:
    """A point that stands nowhere would be armed for nothing; one that the table lacks could not be armed."""
    found = {name for file in ENGINE.rglob("*.py") if file != Path(fault.__file__) for name in named(file)}
    assert found == set(fault.POINTS)


@pytest.mark.parametrize("wrong", ["F04:kill", "F26:raise", "F03", "F03:explode", "F03:kill:1:2"])
def test_what_is_no_point_cannot_be_armed(wrong: str) -> None:
    """Nobody believes that a test strikes where it does not."""
    with pytest.raises(ValueError, match="expected"):
        fault.arm(wrong)
