"""Two commits measured in turn, A B A B, by one tool on one machine: what changed, and how certain that is.

    python -m tests.benchmarks.compare COMMIT_A COMMIT_B [--rounds N] [--a OPTIONS] [--b OPTIONS] [--json] [-- OPTIONS]

Both are checked out into temporary worktrees, and this tree's bench_engine measures the engine of each. `.` is this
tree as it stands, changes and all. OPTIONS are those of bench_engine: after `--` for both, with --a and --b for one of
them, which also compares two interpreters or two journals:

    python -m tests.benchmarks.compare main . -- --scenario visit --messages 4000
    python -m tests.benchmarks.compare . . --b="--python /usr/bin/python3.13"
    python -m tests.benchmarks.compare . . --rounds 2 --b="--journal-entries 10000000"

Of each figure is told: the median of A, the median of B, and of B / A pair by pair the median, least and greatest.
"""

import argparse
import contextlib
import json
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from tests.benchmarks.figures import from_json, table
from tests.benchmarks.machine import machine
from tests.benchmarks.ratio import Ratio
from tests.benchmarks.rig import TREE

HEAD: Final = ("", "A", "B", "", "B / A", "least to greatest")


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two: what it is called, the tree that its engine stands in, and bench_engine's options for it."""

    name: str
    tree: Path
    options: tuple[str, ...]

    def measure(self) -> dict[str, Any]:
        """Run bench_engine once and return what it prints; SystemExit with its standard error where it fails."""
        command = [sys.executable, "-m", "tests.benchmarks.bench_engine", "--json", f"--engine={self.tree}"]
        command += self.options
        # In a session of its own: of Ctrl-C it hears from here, once, and then ends its engine.
        with subprocess.Popen(
            command, cwd=TREE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
        ) as run:
            try:
                out, err = run.communicate()
            except BaseException:
                run.send_signal(signal.SIGINT)
                raise
        if run.returncode:
            sys.exit(f"{self.name}: bench_engine {shlex.join(command[3:])} ended with {run.returncode}:\n{err}")
        return dict(json.loads(out))


def compare(a: Side, b: Side, rounds: int) -> dict[str, Any]:
    """Measure both in turn and return what they were measured on, and the ratios by scenario and figure."""
    told: dict[str, list[dict[str, Any]]] = {"A": [], "B": []}
    for number in range(1, rounds + 1):
        for letter, side in (("A", a), ("B", b)):
            _tell(f"round {number} of {rounds}: {letter}, {side.name}")
            told[letter].append(side.measure())
    ratios: dict[str, dict[str, Ratio]] = {}
    for scenario, figures in told["A"][0]["scenarios"].items():
        runs = [[from_json(run["scenarios"][scenario]) for run in told[letter]] for letter in ("A", "B")]
        both = [name for name in figures if all(name in run for side in runs for run in side)]
        ratios[scenario] = {name: Ratio.of(*([run[name] for run in side] for side in runs)) for name in both}
    pythons = {f"Python of {letter}": runs[0]["about"]["engine's Python"] for letter, runs in told.items()}
    sides = {letter: " ".join((side.name, *side.options)) for letter, side in (("A", a), ("B", b))}
    return {"about": machine() | sides | pythons, "rounds": rounds, "scenarios": ratios}


@contextlib.contextmanager
def checked_out(commit: str, repository: Path = TREE) -> Iterator[tuple[str, Path]]:
    """Give the name of a commit and a tree of it, which is removed afterwards; of `.`, the repository's as it stands.

    SystemExit where there is no such commit.
    """
    git = partial(_git, repository)
    if commit == ".":
        described = git("describe", "--always", "--dirty", "--exclude=*").stdout.strip()
        yield f"working tree at {described}", repository
        return
    found = git("rev-parse", "--verify", "--quiet", f"{commit}^{{commit}}")
    if found.returncode:
        sys.exit(f"{commit}: there is no such commit here")
    with tempfile.TemporaryDirectory(prefix="compare-") as folder:
        tree = Path(folder) / "tree"
        added = git("worktree", "add", "--detach", str(tree), found.stdout.strip())
        if added.returncode:
            sys.exit(f"{commit} cannot be checked out: {added.stderr}")
        try:
            subject = git("log", "-1", "--format=%h %s", found.stdout.strip()).stdout.strip()
            yield f"{commit} ({subject})", tree
        finally:
            git("worktree", "remove", "--force", str(tree))


def _git(repository: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    # In a session of its own, so that Ctrl-C does not end the removal of a tree.
    return subprocess.run(
        ["git", *arguments], cwd=repository, capture_output=True, text=True, check=False, start_new_session=True
    )


def _shown(found: dict[str, Any]) -> str:
    parts = [table(found["about"] | {"rounds": found["rounds"]})]
    for scenario, ratios in found["scenarios"].items():
        rows = [(name, *ratio.cells()) for name, ratio in ratios.items()]
        parts.append(f"\n{scenario}\n{_columns([HEAD, *rows])}")
    return "\n".join(parts)


def _columns(rows: Sequence[Sequence[str]]) -> str:
    """Return rows with their cells in columns, numbers to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    form = "  ".join(f"{{:{side}{width}}}" for side, width in zip("<>><><", widths, strict=True))
    return "\n".join(form.format(*row).rstrip() for row in rows)


def _tell(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)  # noqa: T201


def main() -> None:
    """Compare and print a table for each scenario."""
    given = sys.argv[1:]
    at = given.index("--") if "--" in given else len(given)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("commits", nargs=2, metavar="COMMIT")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--a", default="", metavar="OPTIONS", help="of bench_engine, for A alone: --a='--python python3'"
    )
    parser.add_argument("--b", default="", metavar="OPTIONS", help="of bench_engine, for B alone")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(given[:at])
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))
    with contextlib.ExitStack() as trees:
        a, b = (
            Side(*trees.enter_context(checked_out(commit)), (*given[at + 1 :], *shlex.split(own)))
            for commit, own in zip(options.commits, (options.a, options.b), strict=True)
        )
        found = compare(a, b, options.rounds)
    if options.json:
        print(json.dumps(found, indent=2, default=asdict))  # noqa: T201
    else:
        print(_shown(found))  # noqa: T201


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit("interrupted")
