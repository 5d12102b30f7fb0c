"""What every test may use: the corpus of messages that this project did not write, where its folder is named."""

import csv
import gc
import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings

from tests.postgresql import OPTION, Chosen, programs_of, running_postgres
from tests.remembering import remember_checked, remember_shipped
from tests.tiers import Tier, changed_since, is_default, mark, selected

# No example is refused for the time that it took or was drawn in: that tells of the machine.
settings.register_profile("tests", settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow])
# What a planted bug breaks need not be found in its smallest form.
settings.register_profile("seeded", settings.get_profile("tests"), phases=(Phase.explicit, Phase.generate))
settings.load_profile("tests")
# Files with tests of twenty seconds or more, the longest first; they begin a run.
LONGEST = (
    "tests/flow/test_simulated.py",
    "tests/ops/web/test_first_screen.py",
    "tests/crash/test_random_kills.py",
    "tests/flow/test_drain.py",
    "tests/nodes/test_pauses.py",
    "tests/interchange/test_webhooks_page.py",
    "tests/mapping/authoring/test_guide.py",
    "tests/journal/claim/test_lanes.py",
    "tests/deliver/resources/test_bundle_planner.py",
    "tests/mapping/test_plan.py",
    "tests/nodes/test_cuts.py",
    "tests/nodes/test_kills.py",
    "tests/nodes/test_random_faults.py",
    "tests/ops/web/test_stories.py",
    "tests/ops/web/test_browser.py",
    "tests/crash/test_fault_points.py",
)
# Mappings are loaded some thousand times in a run, nearly all of them from the eighty files that ship.
remember_shipped()
remember_checked()
# Started in the background of a shell, a run ignores Ctrl-C; what it starts must not.
signal.signal(signal.SIGINT, signal.default_int_handler)
# Else every process that a test starts would compile all modules anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options: the corpus folder, the long runs, and the seed of what is drawn at random."""
    parser.addoption(
        "--corpus", metavar="DIR", help="folder of public HL7 messages with its MANIFEST.tsv: --corpus=DIR"
    )
    for name, repository in (("schemas", "CDA-core-2.0"), ("schematron", "CDA-ccda-2.1")):
        parser.addoption(f"--{name}", type=Path, metavar="DIR", help=f"copy of github.com/HL7/{repository}")
    parser.addoption(
        "--postgresql", action="store_true", help="the tests of service and flow on PostgreSQL, not SQLite"
    )
    parser.addoption(
        OPTION, metavar="DIR", help="programs of another PostgreSQL than the packaged one, or the word `oldest`"
    )
    parser.addoption("--exhaustive", action="store_true", help="the tests that the default tier leaves out")
    parser.addoption("--since", metavar="REVISION", help="the tests of what changed since a revision, and the smokes")
    parser.addoption(
        "--full-sweep", action="store_true", help="all tests, the long runs in full: 10,000 messages, 1,000 kills"
    )
    parser.addoption("--seed", type=int, default=2026, help="seed of feeds and of random kills")


def pytest_configure(config: pytest.Config) -> None:
    """Let all tests use the PostgreSQL that the command line names, and know their tier."""
    Tier.default = is_default(config)
    try:
        Chosen.programs = programs_of(config.getoption(OPTION))
    except pytest.skip.Exception as error:
        raise pytest.UsageError(f"{OPTION} oldest: {error}") from error


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Run folders of tests in three processes, as they wait for processes and disks half of their time.

    Named files run at once in this one, and so do the long runs, which measure and print; `-n` says otherwise.
    """
    files = any(Path(argument.partition("::")[0]).is_file() for argument in config.args)
    return 0 if files or config.getoption("--full-sweep") else 3


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is of another tier, and begin each process with its part of the longest files.

    So none of them runs alone at the end.
    """
    mark(items)
    since = config.getoption("--since")
    changed = changed_since(since) if since else None
    chosen = {item: selected(config, item, changed) for item in items}
    config.hook.pytest_deselected(items=[item for item in items if not chosen[item]])
    items[:] = [item for item in items if chosen[item]]
    count = getattr(config, "workerinput", {"workercount": 1})["workercount"]
    ways: list[list[pytest.Item]] = [[] for _ in range(count)]
    others: list[pytest.Item] = []
    for item in items:
        file = item.nodeid.partition("::")[0]
        (ways[LONGEST.index(file) % count] if file in LONGEST else others).append(item)
    total = len(items)
    items.clear()
    # As xdist gives them out: to each process what is left, divided by the processes that are left.
    for place, way in enumerate(ways):
        room = max(0, (total - len(items)) // (count - place) - len(way))
        items += [*way, *others[:room]]
        del others[:room]


def pytest_collection_finish() -> None:
    """Let the garbage collector leave alone what stays: with every module and test it took a third of the time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000)


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """A PostgreSQL server that all tests of a process share; each takes a database of its own."""
    with running_postgres() as address:
        yield address


@dataclass(frozen=True, slots=True)
class CorpusFile:
    """One file of the corpus: its path, its bytes and its row of the manifest."""

    path: Path
    raw: bytes
    row: dict[str, str]

    @property
    def name(self) -> str:
        """Name of the file within the corpus."""
        return self.row["file"]

    @property
    def kind(self) -> str:
        """Class of the file: full, minimal, msh-only, no-pid, non-adt, batch/stream or fuzz."""
        return self.row["class"]


@pytest.fixture
def address() -> str:
    """Give no address: a journal is in its folder, but for tests that try it in PostgreSQL as well."""
    return ""


@pytest.fixture
def full_sweep(pytestconfig: pytest.Config) -> bool:
    """Whether the long runs were asked for."""
    return bool(pytestconfig.getoption("--full-sweep"))


@pytest.fixture(scope="session")
def corpus(pytestconfig: pytest.Config) -> tuple[CorpusFile, ...]:
    """All files of the corpus; without `--corpus DIR` the test is skipped."""
    folder = pytestconfig.getoption("--corpus")
    if not folder:
        pytest.skip("needs --corpus DIR")
    with (Path(folder) / "MANIFEST.tsv").open(encoding="utf-8", newline="") as manifest:
        rows = list(csv.DictReader(manifest, delimiter="\t", quoting=csv.QUOTE_NONE))
    return tuple(CorpusFile(path := Path(folder) / row["file"], path.read_bytes(), row) for row in rows)
