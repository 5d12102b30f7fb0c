"""Which tests run: by default, with `--exhaustive`, or since a revision; and the markers that say why.

A path on the command line runs whole, whatever its tier.
"""

import re
import subprocess
from collections import defaultdict
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Final

import pytest

ROOT: Final = Path(__file__).resolve().parent.parent
EXHAUSTIVE: Final = ("process", "postgres", "matrix", "browser", "text")
SMOKE: Final = "smoke"
PROPERTY: Final = "property"
# The part of a property's examples that the default tier tries.
PART: Final = 5
# Every test of a file or below a folder has its marker.
PLACES: Final = {
    "tests/crash": "process",
    "tests/flow": "process",
    "tests/nodes": "process",
    "tests/ops/cli/access": "process",
    "tests/ops/cli/deploy": "process",
    "tests/ops/cli/mapping": "process",
    "tests/ops/cli/messages": "process",
    "tests/ops/cli/operating": "process",
    "tests/ops/cli/running": "process",
    "tests/ops/demo": "process",
    "tests/ops/web/test_playground.py": "process",
    "tests/ops/web/test_publishing.py": "process",
    "tests/ops/cli/sending/test_receive.py": "process",
    "tests/relay": "process",
    "tests/reports": "process",
    "tests/interchange/clients": "process",
    "tests/journal/nodes": "postgres",
    "tests/journal/read/test_both_databases.py": "postgres",
    "tests/corpus": "matrix",
    "tests/ops/web/test_openapi.py": "matrix",
    "tests/destinations/test_profiles.py": "process",
    "tests/interchange/test_store_postgresql.py": "postgres",
    "tests/interchange/test_points.py": "text",
    "tests/errors": "text",
    "tests/mapping/language/test_errors.py": "text",
    "tests/mapping/test_cookbook.py": "text",
    "tests/ops/views/test_handbook_search.py": "text",
    "tests/ops/docs": "text",
    "tests/seeded": "text",
}
# So has every test that uses a fixture or takes a parameter of this name.
FIXTURES: Final = {
    "browser": "browser",
    "corpus": "matrix",
    "pair": "postgres",
    "postgres": "postgres",
    "postgres_server": "postgres",
    "rig": "process",
}
PARAMETERS: Final = {"postgresql": "postgres", "PostgreSQL": "postgres", "STU3": "matrix"}
# An argument that takes all of these takes every FHIR type; the default tier tries one type of each kind.
EVERY_TYPE: Final = frozenset({"Account", "Encounter", "Specimen"})
ONE_OF_EACH_KIND: Final = frozenset(
    {"Patient", "Observation", "Organization", "Provenance", "ServiceRequest", "Group", "Subscription"}
)
# What holds the files that no folder of tests mirrors.
ELSEWHERE: Final = {
    "channels": ("tests/config", "tests/samples"),
    "engine/__main__.py": ("tests/test_main.py",),
    "engine/database": ("tests/test_dialect.py", "tests/test_sqlite.py"),
    "engine/interchange/clinical/ccda": ("tests/interchange/ccda",),
    "engine/interchange/events/subscriptions": ("tests/interchange/subscriptions",),
    "engine/interchange/events/webhooks": ("tests/interchange/webhooks",),
    "engine/interchange/network/patient360": ("tests/interchange/patient360",),
    "engine/interchange/orders/compendium": ("tests/interchange/compendium",),
    "engine/interchange/orders/laboratory": ("tests/interchange/laboratory",),
    "engine/interchange/orders": ("tests/interchange/orders",),
    "engine/interchange/web/chart": ("tests/interchange/chart_api",),
    "engine/interchange/web/viewer": ("tests/interchange/viewer",),
    "engine/journal/copying": ("tests/journal/maintenance",),
    "engine/ops/sender": ("tests/ops/cli/sending",),
    "engine/terminal": ("tests/ops/terminal",),
    "mappings": ("tests/mapping", "tests/samples"),
    "pyproject.toml": ("tests/test_packaging.py",),
    "samples": ("tests/samples",),
}


class Tier:
    """The tier of this run."""

    default = False


def trials(number: int) -> int:
    """Return how many examples of a property to try: a fifth in the default tier, and all elsewhere."""
    return number // PART if Tier.default else number


def mark(items: list[pytest.Item]) -> None:
    """Give each test the markers of its folder, its fixtures and its parameters."""
    every_type = _every_type(items)
    for item in items:
        arguments = _arguments(item)
        words = set(re.split("[^A-Za-z0-9]", _case(item)))
        found = set(_of_place(item.nodeid.partition("::")[0]))
        found |= {FIXTURES[name] for name in getattr(item, "fixturenames", ()) if name in FIXTURES}
        found |= {marker for word, marker in PARAMETERS.items() if word in words}
        if any(
            (_function(item), name) in every_type and value not in ONE_OF_EACH_KIND for name, value in arguments.items()
        ):
            found.add("matrix")
        for marker in sorted(found):
            item.add_marker(marker)


@cache
def _of_place(file: str) -> frozenset[str]:
    return frozenset(marker for place, marker in PLACES.items() if PurePosixPath(file).is_relative_to(place))


def _every_type(items: list[pytest.Item]) -> set[tuple[str, str]]:
    """Return the functions and their arguments that take every type."""
    values: dict[tuple[str, str], set[str]] = defaultdict(set)
    for item in items:
        for name, value in _arguments(item).items():
            if isinstance(value, str):
                values[_function(item), name].add(value)
    return {key for key, taken in values.items() if taken >= EVERY_TYPE}


def _case(item: pytest.Item) -> str:
    return str(item.callspec.id) if hasattr(item, "callspec") else ""


def _arguments(item: pytest.Item) -> dict[str, object]:
    return dict(item.callspec.params) if hasattr(item, "callspec") else {}


def _function(item: pytest.Item) -> str:
    return item.nodeid.partition("[")[0]


def selected(config: pytest.Config, item: pytest.Item, changed: frozenset[str] | None) -> bool:
    """True if this run has the test; `changed` are the paths of `--since`, None without it."""
    file = item.nodeid.partition("::")[0]
    smoke = item.get_closest_marker(SMOKE) is not None
    if changed is not None:
        return smoke or any(PurePosixPath(file).is_relative_to(one) for one in changed)
    if _whole(config):
        return True
    dear = not smoke and any(item.get_closest_marker(marker) for marker in EXHAUSTIVE)
    if config.getoption("--exhaustive"):
        return dear or item.get_closest_marker(PROPERTY) is not None
    return not dear


def is_default(config: pytest.Config) -> bool:
    """True if the default tier runs."""
    return not (_whole(config) or config.getoption("--since") or config.getoption("--exhaustive"))


def _whole(config: pytest.Config) -> bool:
    return bool(config.getoption("--full-sweep")) or config.args != config.getini("testpaths")


def changed_since(revision: str) -> frozenset[str]:
    """Return the files and folders of tests that hold what changed since a revision; UsageError where it is unknown."""
    lines: list[str] = []
    for command in (("diff", "--name-only", revision, "--"), ("ls-files", "--others", "--exclude-standard")):
        done = subprocess.run(["git", *command], cwd=ROOT, capture_output=True, text=True, check=False)
        if done.returncode:
            raise pytest.UsageError(f"--since {revision}: {done.stderr.strip()}")
        lines += done.stdout.splitlines()
    return frozenset(test for line in lines for test in mirrored(line))


def mirrored(file: str) -> tuple[str, ...]:
    """Return the tests of a file: the nearest folder that mirrors its own, or the file of its name."""
    path = PurePosixPath(file)
    if path.suffix == ".md":
        return ("tests/test_docs.py",)
    if len(path.parts) == 2 and path.parts[0] == "engine" and file not in ELSEWHERE:
        return (f"tests/test_{path.name}",)
    if len(path.parts) == 2 and path.parts[0] == "tests":
        return (file if path.name.startswith("test_") else "tests",)
    for place in (path, *path.parents):
        if str(place) in ELSEWHERE:
            return ELSEWHERE[str(place)]
        mirror = PurePosixPath("tests", *place.parts[1:])
        if place.parts[:1] in {("engine",), ("tests",)} and len(place.parts) > 1 and (ROOT / mirror).is_dir():
            return (str(mirror),)
    return ()
