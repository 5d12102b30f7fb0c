"""Hot queries are held to their indexes: none walks a table that grows."""

import ast
import contextlib
import re
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType

import pytest

from engine import journal
from engine.journal.claim import claiming, clocks, lanes
from engine.journal.entry import State
from engine.journal.file.database import open_writer
from engine.journal.read import backlog, counting, filtering, holding, selecting, streams
from engine.journal.read.searching import EntrySearch
from engine.journal.read.selecting import Selection, conditions
from engine.journal.read.views import Filters
from engine.journal.state import counters, event_cursors, follow_ups, memory, rollup, tally
from engine.journal.write import bulk_replay, entry_lookup, job, operations, recording, settling

HOT = (
    recording,
    claiming,
    settling,
    memory,
    lanes,
    operations,
    entry_lookup,
    bulk_replay,
    holding,
    counters,
    streams,
    job,
    backlog,
    clocks,
    event_cursors,
    follow_ups,
    rollup,
    tally,
)
# A run is a row for thousands of entries, and is listed newest first; `reached` are the numbers that were looked up.
KNOWN_SCANS = re.compile(
    r"SCAN (json_each|run|reached|i|who|mine|sent|name|place|members|same|counted|CONSTANT ROW|\(subquery-\d\))( |$)"
)


JOURNAL = Path(journal.__file__).parent
STATEMENT = re.compile(r"\s*(SELECT|INSERT|UPDATE|DELETE|WITH|ATTACH)\b")


def without_purpose(path: Path) -> list[str]:
    """Return the statements of a file that no comment stands over."""
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines()
    named = [one for one in ast.parse(text).body if isinstance(one, ast.AnnAssign) and one.value is not None]
    first = {one: next((part for part in ast.walk(one) if _is_text(part)), None) for one in named}
    return [
        f"{path.relative_to(JOURNAL)}:{one.lineno}"
        for one, found in first.items()
        if found is not None and STATEMENT.match(found.value) and not lines[one.lineno - 2].startswith("#")
    ]


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def test_a_line_of_purpose_stands_over_every_statement() -> None:
    """Whoever is called at night reads what a query is for before how it asks."""
    files = [path for path in JOURNAL.rglob("*.py") if "tables" not in path.parts]
    assert [place for path in sorted(files) for place in without_purpose(path)] == []


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


def test_whom_a_record_was_merged_into_is_found_by_the_record(tmp_path: Path) -> None:
    """By an index of the merged-away ones alone, as a destination knows millions of numbers."""
    with contextlib.closing(open_writer(tmp_path)) as connection:
        plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {memory.SURVIVOR}", ("d", "1"))]
    assert plan == ["SEARCH known USING COVERING INDEX known_gone (destination=? AND logical_id=?)"]


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
    *(filtering.BY_VALUE, streams.SPAN),
)


@pytest.mark.parametrize("lookup", LOOKUPS)
def test_what_a_search_looks_up_first_is_found_by_an_index(lookup: str, tmp_path: Path) -> None:
    """Feeds, codes, identities and times are steps in an index, not walks."""
    with contextlib.closing(open_writer(tmp_path)) as connection:
        values = (None,) * len(set(re.findall(r"\?\d?", lookup)) - {"?"}) or (None,) * lookup.count("?")
        plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {lookup}", values)]
    assert [step for step in plan if step.startswith("SCAN") and not re.search("found|same|subquery", step)] == []


CONDITIONS = [
    pytest.param(Filters(**{name: value}), id=name)
    for name, value in {
        **dict.fromkeys(("channel", "source", "event", "control_id", "reason", "outcome", "patient", "visit"), "x"),
        "state": State.DELIVERED,
        "since": datetime(2026, 3, 1, tzinfo=UTC),
        "until": datetime(2026, 3, 1, tzinfo=UTC),
    }.items()
]


@pytest.mark.parametrize("filters", CONDITIONS)
def test_each_entry_of_a_chunk_is_held_against_a_filter_by_its_number(filters: Filters, tmp_path: Path) -> None:
    """Entries, deliveries, attempts and identities are looked up; only lists within one entry are walked."""
    with contextlib.closing(open_writer(tmp_path)) as connection:
        search = EntrySearch(connection, filters)
        plan = connection.execute(f"EXPLAIN QUERY PLAN {search._sql}", ("[]", *search._values)).fetchall()
    scans = [row[3] for row in plan if row[3].startswith("SCAN") and not re.match(r"SCAN (one|f|asked|who) ", row[3])]
    assert scans == []


SELECTIONS = [
    pytest.param(Selection(**given), id=name)
    for name, given in {
        "a patient's value": {"patient": "1"},
        "a patient's value, of a feed": {"patient": "1", "channel": "adt", "event": "A08"},
        "a patient's value, held": {"patient": "1", "state": State.HELD},
        "a patient's key": {"patient": "s|1"},
        "a patient's key, at a new destination": {"patient": "s|1", "destination": "d"},
        "a time": {"since": datetime(2026, 3, 1, tzinfo=UTC)},
        "a time, of a feed": {"until": datetime(2026, 3, 1, tzinfo=UTC), "channel": "adt"},
        "a reason": {"reason": "unchanged"},
        "held": {"state": State.HELD},
        "held, for a reason": {"state": State.HELD, "reason": "http-422", "channel": "adt"},
        "refused": {"state": State.REJECTED, "destination": "d"},
        "a channel": {"channel": "adt"},
        "numbers": {"entries": (1, 2), "event": "A08"},
    }.items()
]


@pytest.mark.parametrize("selection", SELECTIONS)
def test_a_bulk_selection_goes_by_an_index(selection: Selection, tmp_path: Path) -> None:
    """Whatever bounds it is a step in an index: no walk over all entries, deliveries or identities."""
    where, values = conditions(selection, 0, 1)
    sql = f"{selecting.SELECT}{' AND '.join(where)} ORDER BY e.seq"
    with contextlib.closing(open_writer(tmp_path)) as connection:
        plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {sql}", values)]
    assert [step for step in plan if step.startswith("SCAN") and not KNOWN_SCANS.match(step)] == []
    assert selection.patient == "" or not [step for step in plan if "entry_feed" in step]


@pytest.mark.parametrize("statement", statements((counting,)))
def test_counts_go_by_an_index(statement: str, tmp_path: Path) -> None:
    """What is counted is bounded by its time, its state or its note; none walks all entries."""
    numbered = [int(number) for number in re.findall(r"\?(\d)", statement)]
    count = max(numbered) if numbered else statement.count("?")
    with contextlib.closing(open_writer(tmp_path)) as connection:
        plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {statement}", (None,) * count)]
    scans = [step for step in plan if step.startswith("SCAN") and not step.startswith("SCAN one ")]
    assert [step for step in scans if not KNOWN_SCANS.match(step)] == []
