"""Hot queries are held to their indexes: none walks a table that grows."""

import contextlib
import re
from pathlib import Path
from types import ModuleType

import pytest

from engine.journal import acts, claiming, holding, lanes, memory, reading, recording, runs, settling, writer
from engine.journal.database import open_writer

HOT = (recording, claiming, settling, memory, lanes, acts, runs, holding, writer)
# A run is a row for thousands of entries, and is listed newest first.
KNOWN_SCANS = re.compile(r"SCAN (json_each|run|i|mine|name|CONSTANT ROW|\(subquery-\d\))( |$)")


def statements(modules: tuple[ModuleType, ...]) -> list[object]:
    """Return every statement of the modules by its name."""
    return [
        pytest.param(text, id=f"{module.__name__.rpartition('.')[2]}.{name}")
        for module in modules
        for name, text in vars(module).items()
        if name.isupper() and isinstance(text, str) and re.match(r"\s*(SELECT|INSERT|UPDATE|DELETE|WITH)\b", text)
    ]


@pytest.mark.parametrize("statement", statements(HOT))
def test_no_hot_statement_scans_a_table(statement: str, tmp_path: Path) -> None:
    """SQLite's own plan names an index for every table."""
    numbered = [int(number) for number in re.findall(r"\?(\d)", statement)]
    count = max(numbered) if numbered else statement.count("?")
    with contextlib.closing(open_writer(tmp_path)) as connection:
        plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {statement}", (None,) * count)]
    assert [step for step in plan if step.startswith("SCAN") and not KNOWN_SCANS.match(step)] == []


def test_the_list_walks_entries_in_their_own_order(tmp_path: Path) -> None:
    """A page needs no sorting."""
    with contextlib.closing(open_writer(tmp_path)) as connection:
        rows = connection.execute(f"EXPLAIN QUERY PLAN {reading._COLUMNS} ORDER BY e.seq DESC LIMIT 50").fetchall()
    sorts = [row[3] for row in rows if "TEMP B-TREE" in row[3] and row[1] == 0]
    assert sorts == []
