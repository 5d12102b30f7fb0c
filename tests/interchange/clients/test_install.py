"""The libraries of other clients are installed once for all runs, and what cannot be had skips with one line."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.interchange.clients import install


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache folder of the test's own."""
    monkeypatch.setattr(install, "CACHE", tmp_path / "cache")
    return tmp_path / "cache"


def test_two_at_once_install_once(cache: Path, tmp_path: Path) -> None:
    """Two runs that start together share one installation, which the next ones find."""
    command = ("sh", "-c", f"echo once >> {tmp_path}/log; touch made")

    def found(_: int) -> Path:
        return install.installed(command, "pom.xml", programs=("sh",))

    with ThreadPoolExecutor(4) as pool:
        (folder,) = set(pool.map(found, range(4)))
    assert sorted(file.name for file in folder.iterdir()) == ["made", "pom.xml"]
    assert (tmp_path / "log").read_text() == "once\n"
    assert {one.name for one in cache.iterdir()} == {"lock", folder.name}


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("echo npm error code ECONNREFUSED; exit 1", r"^needs the registry of sh, .* \(ECONNREFUSED\)$"),
        ("echo [ERROR] Could not transfer artifact a:b; exit 1", r"^needs the registry of sh, .* \(Could not transfer"),
    ],
)
def test_no_registry_skips(cache: Path, script: str, said: str) -> None:
    """Where the registry cannot be reached the tests skip, and nothing half made is left."""
    with pytest.raises(pytest.skip.Exception, match=said):
        install.installed(("sh", "-c", script), "pom.xml", programs=("sh",))
    assert [one.name for one in cache.iterdir()] == ["lock"]


def test_a_mistake_fails(cache: Path) -> None:
    """What fails for another reason is a mistake of ours."""
    with pytest.raises(AssertionError, match="EUSAGE"):
        install.installed(("sh", "-c", "echo npm error code EUSAGE; exit 1"), "pom.xml", programs=("sh",))


def test_a_missing_program_skips(cache: Path) -> None:
    """A machine without the programs is told which."""
    with pytest.raises(pytest.skip.Exception, match=r"^needs no-such-java, no-such-mvn on the path$"):
        install.installed((), "pom.xml", programs=("sh", "no-such-java", "no-such-mvn"))
