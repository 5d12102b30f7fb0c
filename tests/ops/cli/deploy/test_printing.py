"""The printed unit and container file: whole, hardened, and of this version."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from engine import __version__
from engine.config.settings import child_environment
from tests.interchange.nursery import ran

ROOT = Path(__file__).resolve().parents[4]
BASE = "docker.io/library/python:3.11-slim-bookworm"
# What keeps a service in its place.
HARDENED = {
    "NoNewPrivileges": "yes",
    "ProtectSystem": "strict",
    "ProtectHome": "yes",
    "PrivateTmp": "yes",
    "RestrictAddressFamilies": "AF_INET AF_INET6 AF_UNIX",
    "SystemCallFilter": "@system-service",
    "LimitCORE": "0",
    "UMask": "0077",
    "CapabilityBoundingSet": "",
    "RestartPreventExitStatus": "2",
}


def printed(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run `adt-engine deploy`."""
    return ran("deploy", *arguments)


def settings_of(text: str) -> dict[str, list[str]]:
    """Return the settings of a unit by name; a name may stand more than once."""
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        if line and not line.startswith(("#", "[")):
            name, _, value = line.partition("=")
            found.setdefault(name, []).append(value)
    return found


def test_the_unit_is_hardened_and_names_what_it_runs() -> None:
    """Every setting of the table stands in it, and nothing is left to be filled in."""
    done = printed("unit", "--user", "adt", "--data", "/var/lib/adt", "--mappings", "/etc/adt/mappings")
    assert done.returncode == 0, done.stderr
    settings = settings_of(done.stdout)
    assert {name: settings.get(name, [None])[0] for name in HARDENED} == HARDENED
    assert settings["User"] == settings["Group"] == ["adt"]
    (start,) = settings["ExecStart"]
    assert start.endswith("run --channels /etc/adt-engine/channels --data /var/lib/adt --mappings /etc/adt/mappings")
    assert Path(start.split()[0]).is_absolute()
    assert settings["StateDirectory"] == ["adt"]
    assert settings["ReadWritePaths"] == ["/var/lib/adt"]
    assert f"adt-engine {__version__}" in done.stdout


def test_the_unit_of_a_node_names_the_database(tmp_path: Path) -> None:
    """With a journal in PostgreSQL the node is started with it; systemd reads no `%` of the URL as its own."""
    url = "postgresql://engine@db.example/adt?sslmode=verify-full&sslrootcert=/etc/ssl/db%20ca.pem"
    done = printed("unit", "--journal", url, "--node", "west")
    assert done.returncode == 0, done.stderr
    (start,) = settings_of(done.stdout)["ExecStart"]
    assert start.endswith(f" --journal {url.replace('%', '%%')} --node west")
    assert printed("unit", "--journal", "postgresql://engine:secret@db.example/adt").returncode == 2


def test_a_relative_path_is_refused() -> None:
    """A service has no folder of its own to start from."""
    done = printed("unit", "--channels", "channels")
    assert done.returncode == 2
    assert "channels is relative" in done.stderr


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not on this machine")
def test_systemd_takes_the_unit_and_finds_little_exposed(tmp_path: Path) -> None:
    """systemd itself finds no fault in it, and calls its exposure less than 2 of 10."""
    unit = tmp_path / "adt-engine.service"
    unit.write_text(printed("unit", "--user", "root").stdout)
    plain = child_environment()
    checked = subprocess.run(
        ["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, check=False, env=plain
    )
    assert (checked.returncode, checked.stderr) == (0, "")
    command = ["systemd-analyze", "security", "--offline=yes", "--threshold=20", str(unit)]
    security = subprocess.run(command, capture_output=True, text=True, check=False, env=plain)
    assert security.returncode == 0, security.stdout


def test_the_container_runs_as_nobody_special_from_locked_packages() -> None:
    """No root at run time, hashes at build time, and the version that printed it."""
    done = printed("container")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    last_stage = lines[max(number for number, line in enumerate(lines) if line.startswith("FROM")) :]
    # A number, so that Kubernetes sees that it is not root; the one that printed deployments own secrets by.
    assert "USER 10575:10575" in last_stage
    assert any("--require-hashes -r runtime.lock" in line for line in lines)
    assert f"adt-engine:{__version__}" in done.stdout
    assert not re.search(r"\{\w+\}", done.stdout)


@pytest.fixture(scope="module")
def builder() -> str:
    """Name a program that builds containers here and gets the image that ours starts from; without one, skip."""
    for name in ("podman", "docker", "buildah"):
        if shutil.which(name) is not None:
            done = subprocess.run([name, "pull", "--quiet", BASE], capture_output=True, check=False, timeout=240)
            if done.returncode == 0:
                return name
    pytest.skip(f"no podman, docker or buildah at hand that gets {BASE}")


@pytest.mark.timeout(1800)
def test_the_container_is_built_and_runs(builder: str, tmp_path: Path) -> None:
    """Built in a checkout it says its version as nobody special, without privileges and on a read-only disk."""
    context, tag = tmp_path / "checkout", f"localhost/adt-engine-test:{__version__}"
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, listed.split("\0")):
        (context / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, context / name)
    file = context / "Containerfile"
    file.write_text(printed("container").stdout)
    built = subprocess.run(
        [builder, "build", "--tag", tag, "--file", file, context], capture_output=True, text=True, check=False
    )
    assert built.returncode == 0, built.stderr[-4000:]
    try:
        if builder != "buildah":
            confined = ["--rm", "--read-only", "--cap-drop=all", "--security-opt=no-new-privileges", "--tmpfs=/tmp"]
            ran_in = [builder, "run", *confined, "--entrypoint=sh", tag, "-c", "id -u && adt-engine --version"]
            done = subprocess.run(ran_in, capture_output=True, text=True, check=False)
            assert done.stdout.split() == ["10575", "adt-engine", __version__], done.stderr
    finally:
        subprocess.run([builder, "rmi", tag], capture_output=True, check=False)
