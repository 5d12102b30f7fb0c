import asyncio
import contextlib
import shutil
import subprocess
from pathlib import Path

import pytest
from lxml import etree

from tests.benchmarks.bench_engine import arguments, measure
from tests.benchmarks.compare import Side, checked_out
from tests.benchmarks.figures import Figure, from_json, to_json
from tests.benchmarks.flamegraph import svg, tree
from tests.benchmarks.ratio import Ratio
from tests.benchmarks.scenarios import LARGE_BYTES, MERGE_EVERY, SCENARIOS

pytestmark = pytest.mark.process

# The fewest requests, and the writes, that a message takes, once the server and what messages name are known. After a
# pause, as a busy machine makes them, a patient is read first.
COSTS = {"known": (1, 1), "new": (3, 1), "visit": (3, 2), "large": (1, 1), "slow": (1, 1), "relay": (1, 1)}
MANY = "3 connections"


async def figures_of(name: str, *more: str) -> dict[str, Figure]:
    """Measure a scenario with as few messages as have a merge among them."""
    few = ("--patients=4", "--connections=3", "--starts=1", f"--messages={MERGE_EVERY}")
    return await measure(SCENARIOS[name], arguments().parse_args([*few, *more]))


async def test_each_scenario_is_measured_to_its_end() -> None:
    """A real engine delivers what every scenario sends, by the requests that it is about."""
    of = {name: asyncio.create_task(figures_of(name)) for name in SCENARIOS if name != "known"}
    of["known"] = asyncio.create_task(figures_of("known", "--journal-entries=100"))
    await asyncio.wait(of.values())
    assert {name: task.exception() for name, task in of.items() if task.exception()} == {}
    found = {name: task.result() for name, task in of.items()}
    for name, costs in COSTS.items():
        requests, writes = (found[name][f"{MANY}: HTTP {what} per message"].value for what in ("requests", "writes"))
        assert (costs[0] <= requests <= costs[0] + 1, writes) == (True, costs[1]), name
    # Beside what it writes, a merge is preceded by searches and a preview, and followed by a reading.
    assert found["merges"][f"{MANY}: HTTP requests per message"].value > 1
    assert found["large"]["size of a message"].value >= LARGE_BYTES
    assert found["slow"][f"{MANY}: delivered of what latency and concurrency allow"].unit == "%"
    for figures in found.values():
        assert figures["one sender: written to disk per message"].value > 1
        assert figures["memory after 4/4 of the messages"].value > 1
        assert from_json(to_json(figures)) == figures


def test_a_ratio_is_of_each_pair() -> None:
    """Runs are compared with their neighbours, so that a machine that slows down does not tell of the engine."""
    a, b = ([Figure(value, "ms") for value in values] for values in ((1, 2, 4), (1.5, 2, 2)))
    assert Ratio.of(a, b) == Ratio("ms", a=2, b=2, median=1, least=0.5, greatest=1.5)
    assert Ratio.of(a, b).cells() == ("2", "2", "ms", "1.00", "0.50 to 1.50")
    nothing = [Figure(0)] * 3
    assert Ratio.of(nothing, b).median is None
    assert Ratio.of(nothing, nothing).cells() == ("0", "0", "", "-", "-")


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_a_commit_is_checked_out_for_a_while(tmp_path: Path) -> None:
    """The tree of a commit is there while it is measured, and gone after an error; an unknown commit is told."""

    def git(*arguments: str) -> str:
        who = ("-c", "user.name=Ada", "-c", "user.email=ada@riverbend.example")
        return subprocess.run(
            ["git", *who, *arguments], cwd=tmp_path, check=True, capture_output=True, text=True
        ).stdout

    git("init", "-q")
    (tmp_path / "engine.py").write_text("1")
    git("add", ".")
    git("commit", "-qm", "one")
    (tmp_path / "engine.py").write_text("2")
    with contextlib.suppress(ZeroDivisionError), checked_out("HEAD", tmp_path) as (name, tree):
        assert name.endswith(" one)")
        assert (tree / "engine.py").read_text() == "1"
        raise ZeroDivisionError
    assert not tree.exists()
    assert git("worktree", "list").count("\n") == 1
    with checked_out(".", tmp_path) as (name, tree):
        assert name.endswith("-dirty")
        assert tree == tmp_path
    with pytest.raises(SystemExit, match="nowhere: there is no such commit"), checked_out("nowhere", tmp_path):
        pass


def test_a_run_that_fails_is_told_with_its_error(tmp_path: Path) -> None:
    """It is said which side could not be measured, and why: here a tree that holds no engine."""
    with pytest.raises(SystemExit, match=r"(?s)theirs: bench_engine .* ended with 1:.*does not run the engine in"):
        Side("theirs", tmp_path, ()).measure()


def test_a_flame_graph_shows_calls_by_their_share() -> None:
    """It begins with the event loop or the work of a thread; what is seldom under way is left out."""
    root = tree(
        [
            "<module> (engine/__main__.py:1);Runner.run (asyncio/runners.py:86);plan (engine/mapping/plan.py:7) 600",
            "<module> (engine/__main__.py:1);Runner.run (asyncio/runners.py:86);rare (engine/mapping/plan.py:9) 1",
            "Thread._bootstrap (threading.py:1);Thread.run (threading.py:9);work (engine/journal/writer.py:3) 399",
            "torn (engine/mapping/plan.py:7) 5",
        ]
    )
    assert root.samples == 1000
    graph = svg(root, "two & more")
    titles = [title.text for title in etree.fromstring(graph).iter("{http://www.w3.org/2000/svg}title")]
    assert sorted(map(str, titles)) == [
        "event loop : 60.1%",
        "plan engine/mapping/plan.py: 60.0%",
        "work engine/journal/writer.py: 39.9%",
    ]
