"""The page on an order and its results runs as it stands: a real service, engine and laboratory, in one shell."""

from pathlib import Path

import pytest

from tests.guides import ROOT, as_readers_do, at_free_ports, run, whole

pytestmark = pytest.mark.text

PAGE = ROOT / "engine/interchange/orders.md"


@as_readers_do
def test_an_order_and_its_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """C-427: from the compendium to the trend, with a refusal, a wrong patient, a correction and a cancellation."""
    monkeypatch.setenv("NO_PROXY", "*")
    run(at_free_ports(whole(PAGE), 2575, 2600, 8080, 8081), tmp_path)
