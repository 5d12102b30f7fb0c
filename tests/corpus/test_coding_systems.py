"""HL7 table 0396 as HL7 Terminology has it, beside the corpus: every active name of it has a row."""

import csv
from pathlib import Path

import pytest
import yaml

from engine.config.settings import shipped


def test_every_active_name_has_a_row(pytestconfig: pytest.Config) -> None:
    """No name of a coding system that the standard lists is unknown to the shipped mapping."""
    folder = pytestconfig.getoption("--corpus")
    table = Path(folder or "") / "../tables/tho_v2/v2-0396.csv"
    if not folder or not table.exists():
        pytest.skip("needs --corpus DIR, with the tables beside it")
    lines = table.read_text("utf-8").splitlines(keepends=True)
    active = {row["code"] for row in csv.DictReader(lines[1:]) if row["status"] == "active"}
    rows = yaml.safe_load((shipped("mappings") / "tables/coding-system.yaml").read_text("utf-8"))["codes"]
    assert len(active) > 200
    assert sorted(active - {str(name) for name in rows}) == []
