"""The clients that are not Python's: their libraries, installed once into the user's cache folder, and how to run them.

A client whose programs or libraries cannot be had is skipped, with one line that says what is missing.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import Final

import pytest

HERE: Final = Path(__file__).parent
CACHE: Final = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "adt-engine-tests"
LONGEST: Final = 800  # seconds that an installation may take
# What npm and Maven say where there is no registry; anything else is a mistake of ours, which must fail.
UNREACHABLE: Final = (
    *("ENOTFOUND", "EBADPLATFORM", "EAI_AGAIN", "ECONNREFUSED", "ECONNRESET", "ETIMEDOUT", "ENETUNREACH", "ENOTCACHED"),
    *("ERR_SOCKET_TIMEOUT", "Could not transfer artifact", "in offline mode"),
)
NPM: Final = ("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error", "--fetch-retries=1")
MAVEN: Final = (
    *("mvn", "-B", "-q", "-DoutputDirectory=jars"),
    "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies",
)
# The program runs for seconds: quick to start, not to compile well.
JAVA: Final = ("java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto")


def node(script: Path, folder: Path) -> list[str]:
    """Return the command of a script: it runs in a folder of its own, beside npm's packages."""
    libraries = installed(NPM, "package.json", "package-lock.json", ".npmrc", programs=("node", "npm"))
    for file in HERE.glob("*.mjs"):
        shutil.copy(file, folder)
    (folder / "node_modules").symlink_to(libraries / "node_modules")
    return ["node", str(folder / script.name)]


def java(program: Path, _: Path) -> list[str]:
    """Return the command of a program of one file, which java compiles, with Maven's libraries."""
    libraries = installed(MAVEN, "pom.xml", programs=("java", "javac", "mvn"))
    return [*JAVA, "-cp", f"{libraries}/jars/*", str(program)]


def installed(command: tuple[str, ...], *files: str, programs: tuple[str, ...]) -> Path:
    """Return the folder where a command has installed what some files list; skips the test where it cannot."""
    missing = [program for program in programs if shutil.which(program) is None]
    if missing:
        pytest.skip(f"needs {', '.join(missing)} on the path")
    folder, told = _install(command, files)
    for sign in UNREACHABLE:
        if sign in told:
            pytest.skip(f"needs the registry of {command[0]}, which cannot be reached ({sign})")
    assert not told, told
    return folder


@cache
def _install(command: tuple[str, ...], files: tuple[str, ...]) -> tuple[Path, str]:
    """Install what some files list, if that was not done before; return the folder, and what was said if it failed."""
    listed = "".join((*command, *((HERE / file).read_text() for file in files))).encode()
    folder = CACHE / f"{command[0]}-{hashlib.sha256(listed).hexdigest()[:16]}"
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "lock").open("w") as lock, tempfile.TemporaryDirectory(dir=CACHE) as making:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if folder.exists():
            return folder, ""
        # Made beside it and then renamed: a run that is killed leaves nothing half made under this name.
        made = Path(making) / "made"
        made.mkdir()
        for file in files:
            shutil.copy(HERE / file, made)
        done = subprocess.run(command, cwd=made, capture_output=True, text=True, timeout=LONGEST, check=False)
        if done.returncode:
            return folder, f"{done.stdout}{done.stderr}".strip() or f"{command[0]} failed"
        made.rename(folder)
    return folder, ""
