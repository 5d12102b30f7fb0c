"""The page on subscriptions runs as it stands: a real service and engine, and a care manager's system over HTTPS."""

from pathlib import Path

import pytest

from tests.guides import ROOT, as_readers_do, at_free_ports, run, whole

PAGE = ROOT / "engine/interchange/webhooks.md"


@as_readers_do
def test_a_care_manager_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the feed to the webhooks of an admission and a discharge, with a receiver that is down once."""
    monkeypatch.setenv("NO_PROXY", "*")
    run(at_free_ports(whole(PAGE), 2575, 8080, 8081, 8443), tmp_path)
