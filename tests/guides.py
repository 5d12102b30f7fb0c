"""Guides in Markdown, run as they stand: files written, commands run in one shell, shown output found."""

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.flow.rig import free_port

ROOT: Final = Path(__file__).parents[1]
NEEDS: Final = ("curl", "jq", "openssl")
BLOCK: Final = re.compile(r"(?:`(?P<file>[\w./-]+)`:\n\n)?```(?P<kind>\w+)\n(?P<text>.*?)```", re.DOTALL)
MARK: Final = "---- end of block ----"
END: Final = "EOF_OF_FILE"
PATIENCE_SECONDS: Final = 280
SHELL: Final = """\
set -eu
mkdir bin
printf '#!/bin/sh\\nexec "{python}" -m engine "$@"\\n' > bin/adt-engine
printf '#!/bin/sh\\nexec "{python}" "$@"\\n' > bin/python
chmod +x bin/adt-engine bin/python
export PATH="$PWD/bin:$PATH"
trap 'kill $(jobs -p) 2> /dev/null || true' EXIT
"""

# Of a test that runs a page whose reader needs these programs.
as_readers_do = pytest.mark.skipif(
    not all(shutil.which(program) for program in NEEDS),
    reason="needs curl, jq and openssl, as the page's readers do: apt-get install curl jq openssl",
)


def whole(document: Path) -> str:
    """Return what stands under the headings of a page: what it is about stands before them, and is not run."""
    return document.read_text("utf-8").partition("\n## ")[2]


def section(document: Path, title: str) -> str:
    """Return what stands under a heading of a document, up to the next one of its level."""
    return document.read_text("utf-8").partition(f"## {title}\n")[2].partition("\n## ")[0]


def at_free_ports(guide: str, *ports: int) -> str:
    """Return a guide with free ports for its own, and these sources for a reader's checkout."""
    free = {str(port): str(free_port()) for port in ports}
    guide = re.sub(rf"\b(?:{'|'.join(free)})\b", lambda port: free[port[0]], guide)
    return guide.replace("~/adt-engine", str(ROOT))


def run(guide: str, folder: Path, least: int = 5) -> None:
    """Run a guide in a folder; AssertionError where a command fails or does not print what is shown below it.

    A block of `sh` is run; one of `text` is what that block prints, line by line; any other is the file named above it.
    There are at least so many blocks of `sh`.
    """
    script = SHELL.format(python=sys.executable)
    shown: list[str] = []
    for block in BLOCK.finditer(guide):
        if block["kind"] == "sh":
            script += f"{block['text']}echo '{MARK}'\n"
            shown.append("")
        elif block["kind"] == "text":
            shown[-1] = block["text"]
        else:
            assert block["file"], block["text"]
            script += f"mkdir -p $(dirname {block['file']})\ncat > {block['file']} << '{END}'\n{block['text']}{END}\n"
    assert len(shown) >= least
    printed = _ran(script, folder)
    for expected, found in zip(shown, printed.split(MARK), strict=False):
        # A page shows tables as a terminal does; here, in a pipe, their cells are separated by tabs.
        squeezed = "\n".join(map(_squeezed, found.splitlines()))
        missing = [line for line in expected.splitlines() if _squeezed(line) not in squeezed]
        assert not missing, found


def _squeezed(line: str) -> str:
    """Return a line with one blank for each gap in it."""
    return " ".join(line.split())


def _ran(script: str, folder: Path) -> str:
    """Run a script and return what it prints; where it fails or hangs, all that it started is ended."""
    with subprocess.Popen(
        ["bash", "-c", script],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as shell:
        try:
            printed, said = shell.communicate(timeout=PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(shell.pid, signal.SIGKILL)
            printed, said = shell.communicate()
            said += f"not done after {PATIENCE_SECONDS} s"
        finally:
            if shell.poll() is None:
                os.killpg(shell.pid, signal.SIGKILL)
    assert shell.returncode == 0, printed[-2000:] + said
    return printed
