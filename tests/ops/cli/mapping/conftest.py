"""A site's own mapping, for commands that compare and try mappings."""

from pathlib import Path

import pytest


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A mapping folder that leaves out the birth date."""
    (tmp_path / "mine" / "resources").mkdir(parents=True)
    text = "resource: Patient\nextends: shipped/patient\nelements:\n  birthDate:\n"
    (tmp_path / "mine" / "resources" / "patient.yaml").write_text(text)
    return tmp_path / "mine"
