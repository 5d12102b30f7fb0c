"""Hot queries are held to their indexes: none walks a table that grows."""

import contextlib
import re
from pathlib import Path
from types import ModuleType

import pytest

from engine.journal import (
    acts,
    backlog,
    claiming,
    filtering,
    holding,
    lanes,
    memory,
    recording,
    runs,
    settling,
    spans,
    tallying,
    writer,
)
from engine.journal.database import open_writer

HOT = (recording, claiming, settling, memory, lanes, acts, runs, holding, tallying, spans, writer, backlog)
# A run is a row for thousands of entries, and is listed newest first.
KNOWN_SCANS = re.compile(r"SCAN (json_each|run|i|mine|sent|name|CONSTANT ROW|\(subquery-\d\))( |$)")


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


STREAMS = [param for param in statements((filtering,)) if str(param.values[0]).rstrip().endswith(filtering.BELOW)]
UNSORTED = {"filtering.CONTROL"}


@pytest.mark.parametrize("stream", [pytest.param(filtering.ALL.sql, id="filtering.ALL"), *STREAMS])
def test_a_stream_comes_out_of_its_index_in_order(stream: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """Newest first without a scan and without sorting, but for a control id, which few entries share."""
    with contextlib.closing(open_writer(tmp_path)) as connection:
        plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {stream}", (None,) * stream.count("?"))]
    assert [step for step in plan if step.startswith("SCAN")] == []
    is_sorted = any("TEMP B-TREE" in step for step in plan)
    assert is_sorted == (request.node.callspec.id in UNSORTED)


LOOKUPS = (
    *(filtering.NEXT_FEED, filtering.CONTROLS, filtering.CODES, filtering.BY_KEY),
    *(filtering.BY_VALUE, spans.SPAN),
)


@pytest.mark.parametrize("lookup", LOOKUPS)
def test_what_a_search_looks_up_first_is_found_by_an_index(lookup: str, tmp_path: Path) -> None:
    """Feeds, codes, identities and times are steps in an index, not walks."""
    with contextlib.closing(open_writer(tmp_path)) as connection:
        values = (None,) * len(set(re.findall(r"\?\d?", lookup)) - {"?"}) or (None,) * lookup.count("?")
        plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {lookup}", values)]
    assert [step for step in plan if step.startswith("SCAN") and "found" not in step and "subquery" not in step] == []
