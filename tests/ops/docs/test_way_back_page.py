"""The page on the way back: its files are written, its commands run, and the message comes out."""

from pathlib import Path
from typing import Final

import pytest

from tests.guides import as_readers_do, at_free_ports, run, section

PAGE: Final = Path(__file__).resolve().parents[3] / "engine/ops/docs/way-back.md"

pytestmark = pytest.mark.text


@as_readers_do
def test_the_page_does_what_it_shows(tmp_path: Path) -> None:
    """A feed, a change by somebody else, the A31 of it, and nothing of the feed."""
    run(at_free_ports(section(PAGE, "Try it"), 2575, 2600, 8080, 8081), tmp_path, least=3)
