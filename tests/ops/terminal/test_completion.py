"""The Tab key in a real shell: commands, options and the names that an engine knows."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.interchange.nursery import ran
from tests.ops.alone import alone

in_bash = pytest.mark.skipif(not shutil.which("bash"), reason="needs bash, as its users do")


def offered(line: str, number: int, **environment: str) -> list[str]:
    """Return what bash would offer for a word of a line, by the number of that word."""
    asked = {"COMP_WORDS": line, "COMP_CWORD": str(number), "_ADT_ENGINE_COMPLETE": "complete_bash"}
    return ran(environment={**asked, **environment}).stdout.split()


@pytest.mark.parametrize(
    ("line", "number", "found"),
    [
        pytest.param("adt-engine me", 1, ["messages"], id="command"),
        pytest.param("adt-engine mappings ex", 2, ["explain"], id="command within"),
        pytest.param("adt-engine messages list --sta", 3, ["--state"], id="option"),
        pytest.param("adt-engine messages list --state de", 4, ["delivered"], id="state"),
        pytest.param("adt-engine reasons ambiguous", 2, ["ambiguous-identity"], id="reason"),
        pytest.param("adt-engine help rep", 2, ["repair"], id="page"),
        pytest.param("adt-engine nothing x", 2, [], id="nothing"),
        pytest.param("adt-engine channels stop ", 3, [], id="no engine"),
    ],
)
def test_words_are_offered(line: str, number: int, found: list[str]) -> None:
    """Those that begin as what was typed; none, and no error, where none is known."""
    assert offered(line, number) == found


async def test_the_names_of_a_running_engine_are_offered(tmp_path: Path) -> None:
    """Of the folder that the line names, or ADT_ENGINE_DATA."""
    async with alone(tmp_path):
        data = str(tmp_path / "data")
        assert offered(f"adt-engine channels stop --data {data} ", 5) == ["a"]
        assert offered("adt-engine channels stop ", 3, ADT_ENGINE_DATA=data) == ["a"]
        assert offered("adt-engine messages list --channel ", 4, ADT_ENGINE_DATA=data) == ["a"]
        assert offered("adt-engine destinations pause no", 3, ADT_ENGINE_DATA=data) == ["nowhere"]


@in_bash
def test_the_script_completes_in_bash(tmp_path: Path) -> None:
    """What `--show-completion` prints is taken by a shell, and asks the command that it completes."""
    program = tmp_path / "adt-engine"
    program.write_text(f"#!{sys.executable}\nfrom engine.__main__ import main\nmain()\n")
    program.chmod(0o755)
    script = """
    PATH="$PWD:$PATH"
    eval "$(adt-engine --show-completion)"
    COMP_WORDS=(adt-engine mes) COMP_CWORD=1
    _adt_engine_completion adt-engine
    echo "offered ${COMPREPLY[*]}"
    """
    done = subprocess.run(
        ["bash", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120
    )
    assert "offered messages" in done.stdout, done.stderr
