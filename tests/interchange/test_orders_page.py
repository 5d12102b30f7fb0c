"""The page on an order and its results runs as it stands: a real service, engine and laboratory, in one shell."""

import shutil
from pathlib import Path

import pytest

from tests.flow.rig import free_port
from tests.guides import run

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "engine/interchange/orders.md"
PORTS = ("2575", "2600", "8080", "8081")


@pytest.mark.skipif(
    not all(shutil.which(program) for program in ("curl", "jq", "openssl")),
    reason="needs curl, jq and openssl, as the page's readers do: apt-get install curl jq openssl",
)
def test_an_order_and_its_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """C-427: from the compendium to the trend, with a refusal, a wrong patient, a correction and a cancellation."""
    # Before the first heading stands what the page is about.
    guide = PAGE.read_text("utf-8").partition("\n## ")[2].replace("~/adt-engine", str(ROOT))
    for port in PORTS:
        guide = guide.replace(port, str(free_port()))
    monkeypatch.setenv("NO_PROXY", "*")
    run(guide, tmp_path)
