"""The page on subscriptions runs as it stands: a real service and engine, a receiver over HTTPS, and a browser."""

import re
from pathlib import Path

import pytest

from tests.chromium import CHROMIUM
from tests.guides import as_readers_do
from tests.interchange.webhooks.at_the_chart import PAGE, PICTURES, story

pytestmark = pytest.mark.text


@as_readers_do
def test_a_care_manager_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """C-528: from the feed to the webhooks of an admission and a discharge, and to the visit in the chart."""
    monkeypatch.setenv("NO_PROXY", "*")
    made = sorted(one.name for one in story(tmp_path).glob("*"))
    assert made == (sorted(PICTURES) if CHROMIUM else [])


def test_the_pictures_of_the_page() -> None:
    """The page shows what the browser of this test sees."""
    assert re.findall(r"!\[[^]]+\]\(([^)]+)\)", PAGE.read_text()) == list(PICTURES)
