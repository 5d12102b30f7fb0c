"""The authors' guide in mappings/README.md: every file of it written, every command run, every line of output found."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Final

from engine.config.shipped import shipped
from tests.flow.rig import free_port

README: Final = shipped("mappings") / "README.md"
TITLE: Final = "## From a Z segment to production in ten minutes\n"
BLOCK: Final = re.compile(r"(?:`(?P<file>[\w./-]+)`:\n\n)?```(?P<kind>\w+)\n(?P<text>.*?)```", re.DOTALL)
MARK: Final = "---- end of block ----"
SHELL: Final = """\
set -eu
mkdir bin
printf '#!/bin/sh\\nexec "{python}" -m engine "$@"\\n' > bin/adt-engine
chmod +x bin/adt-engine
export PATH="$PWD/bin:$PATH"
trap 'kill $(jobs -p) 2> /dev/null || true' EXIT
"""


def _blocks(port: int) -> list[re.Match[str]]:
    guide = README.read_text("utf-8").partition(TITLE)[2].partition("\n## ")[0]
    return list(BLOCK.finditer(guide.replace("2575", str(port))))


def test_the_guide_works_as_it_stands(tmp_path: Path) -> None:
    """Files are written where the guide says, commands run in one shell, and what it shows is what they print."""
    script = SHELL.format(python=sys.executable)
    shown: list[str] = []
    for block in _blocks(free_port()):
        if block["kind"] == "sh":
            script += f"{block['text']}echo '{MARK}'\n"
            shown.append("")
        elif block["kind"] == "text":
            shown[-1] = block["text"]
        else:
            assert block["file"], block["text"]
            # A file stands before the commands that use it, as it would for a reader.
            end = "EOF_OF_FILE"
            script += f"mkdir -p $(dirname {block['file']})\ncat > {block['file']} << '{end}'\n{block['text']}{end}\n"
    assert len(shown) >= 7
    done = subprocess.run(
        ["bash", "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=280, check=False
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr
    printed = done.stdout.split(MARK)
    for expected, found in zip(shown, printed, strict=False):
        missing = [line for line in expected.splitlines() if line.rstrip() not in found]
        assert not missing, found
    for name in ("resources/patient.yaml", "tests/interpreter.yaml", "schema/resource.json"):
        assert (tmp_path / "my-mappings" / name).is_file()


def test_every_file_of_the_guide_is_named() -> None:
    """A block that is no command and no output says which file it is."""
    unnamed = [block["text"] for block in _blocks(2575) if block["kind"] not in {"sh", "text"} and not block["file"]]
    assert unnamed == []
