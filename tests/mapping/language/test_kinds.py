"""A text where a map belongs, a list where a text does: told with its place, whatever the key, and never a crash."""

import json
from pathlib import Path
from typing import Any

import pytest

from engine.config.shipped import shipped
from engine.errors import ConfigurationError
from engine.mapping.compile import load
from engine.mapping.files.kinds import OF


@pytest.mark.parametrize("given", [["a"], {"a": "b"}, "a"], ids=["list", "map", "text"])
def test_every_key_of_another_kind_is_told(tmp_path: Path, given: Any) -> None:
    """All of them at once, each where it stands, with the kind that would do."""
    (tmp_path / "resources").mkdir()
    text = json.dumps({"resource": "Basic", **dict.fromkeys(OF, given)}, indent=1)
    (tmp_path / "resources/basic.yaml").write_text(text, "utf-8")
    with pytest.raises(ConfigurationError) as caught:
        load([tmp_path, shipped("mappings")], "adt")
    told = {one.path for one in caught.value.problems if one.expected.startswith("expected a") and "found" in one.found}
    wrong = {key for key, kinds in OF.items() if not isinstance(given, kinds)} - {"elements", "merged"}
    assert wrong
    assert wrong <= told


@pytest.mark.parametrize(
    "body", [{}, {"identity": {"keys": "PV1-19"}}, {"elements": None}, {"from": "XCN", "kinds": {"Payor": 3}}]
)
def test_a_file_of_almost_nothing_is_told(tmp_path: Path, body: dict[str, Any]) -> None:
    """What is left out altogether ends in problems, too."""
    (tmp_path / "resources").mkdir()
    (tmp_path / "resources/basic.yaml").write_text(json.dumps({"resource": "Basic", **body}), "utf-8")
    with pytest.raises(ConfigurationError, match=r"basic\.yaml"):
        load([tmp_path, shipped("mappings")], "adt")
