"""The lock of what runs: `python -m tests.runtime_lock` writes runtime.lock from requirements.lock and pyproject.toml.

Each package that the engine needs to run, and what that needs, at the version and with the hashes that are tested.
"""

import re
import tomllib
from importlib import metadata
from pathlib import Path
from typing import Final

from packaging.markers import Marker
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT: Final = Path(__file__).parent.parent
HEAD: Final = """\
# What runs, at the versions and with the hashes of requirements.lock, which has what is tested with as well.
# Written by `python -m tests.runtime_lock`.
"""
ENTRY: Final = re.compile(r"^([A-Za-z0-9_.-]+)(?:\[[^\]]*\])?==.*(?:\n    .*)*", re.MULTILINE)


def dependencies() -> list[Requirement]:
    """Return what pyproject.toml says is needed to run."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    return [Requirement(one) for one in project["dependencies"]]


def written() -> str:
    """Return the lock as it is to be: read from requirements.lock, and what is installed says who needs whom."""
    locked = (ROOT / "requirements.lock").read_text()
    entries = {canonicalize_name(found[1]): found[0] for found in ENTRY.finditer(locked)}
    needed: set[str] = set()
    waiting = [(dependency, _extras(dependency)) for dependency in dependencies()]
    while waiting:
        one, extras = waiting.pop()
        name = canonicalize_name(one.name)
        needed.add(name)
        for said in metadata.requires(one.name) or ():
            other = Requirement(said)
            is_new = canonicalize_name(other.name) not in needed or bool(other.extras)
            if is_new and _holds(other.marker, extras) and canonicalize_name(other.name) in entries:
                waiting.append((other, _extras(other)))
    lines = [re.sub(r"\n    #.*", "", entries[name]) for name in sorted(needed)]
    return HEAD + "\n".join(lines) + "\n"


def _extras(one: Requirement) -> tuple[str, ...]:
    return ("", *sorted(one.extras))


def _holds(marker: Marker | None, extras: tuple[str, ...]) -> bool:
    return marker is None or any(marker.evaluate({"extra": extra}) for extra in extras)


if __name__ == "__main__":
    (ROOT / "runtime.lock").write_text(written())
