"""Guides in Markdown, run as they stand: files written, commands run in one shell, shown output found."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Final

BLOCK: Final = re.compile(r"(?:`(?P<file>[\w./-]+)`:\n\n)?```(?P<kind>\w+)\n(?P<text>.*?)```", re.DOTALL)
MARK: Final = "---- end of block ----"
END: Final = "EOF_OF_FILE"
SHELL: Final = """\
set -eu
mkdir bin
printf '#!/bin/sh\\nexec "{python}" -m engine "$@"\\n' > bin/adt-engine
printf '#!/bin/sh\\nexec "{python}" "$@"\\n' > bin/python
chmod +x bin/adt-engine bin/python
export PATH="$PWD/bin:$PATH"
trap 'kill $(jobs -p) 2> /dev/null || true' EXIT
"""


def section(document: Path, title: str) -> str:
    """Return what stands under a heading of a document, up to the next one of its level."""
    return document.read_text("utf-8").partition(f"## {title}\n")[2].partition("\n## ")[0]


def run(guide: str, folder: Path) -> None:
    """Run a guide in a folder; AssertionError where a command fails or does not print what is shown below it.

    A block of `sh` is run; one of `text` is what that block prints, line by line; any other is the file named above it.
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
    assert len(shown) > 4
    done = subprocess.run(["bash", "-c", script], cwd=folder, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr
    for expected, found in zip(shown, done.stdout.split(MARK), strict=False):
        missing = [line for line in expected.splitlines() if line.rstrip() not in found]
        assert not missing, found
