"""The page of differences is as its data file says; each difference has a reason, each reason a difference."""

from typing import Any

import pytest
import yaml

from engine.config.settings import shipped
from engine.mapping.files.reference import data_types, segments
from tests.mapping.differences import PAGE, comparisons, data, written
from tests.mapping.v2_to_fhir import PAGE as FIELDS

CASES: dict[str, Any] = {
    case["case"]: case
    for file in sorted((shipped("mappings") / "tests").glob("*.yaml"))
    for case in yaml.safe_load(file.read_text("utf-8"))["tests"]
}


def test_the_page_is_what_is_generated() -> None:
    """Written anew by `python -m tests.mapping.differences`, and linked where people look for it."""
    assert PAGE.read_text("utf-8") == written()
    assert all(f"({PAGE.name})" in page.read_text("utf-8") for page in (FIELDS, shipped("mappings") / "README.md"))


def test_every_reason_is_given_and_used() -> None:
    """Each difference has a reason, and each reason a difference; nothing that is equal is listed."""
    differences = [one for file in comparisons().values() for one in file.differences]
    assert all(one.reasons and (one.theirs or one.ours) for one in differences)
    assert {reason for one in differences for reason in one.reasons} == data()["reasons"].keys()
    assert {one.by for one in comparisons().values()} == data()["converters"].keys()
    assert not data()["refused"].keys() & comparisons().keys()


@pytest.mark.parametrize("row", data()["rows"], ids=lambda row: f"{row['row']} {row['element']}")
def test_every_row_is_shown_by_a_test_case(row: dict[str, str]) -> None:
    """A difference from the guide names a shipped case, whose message has the segment that it is of."""
    name = row["row"].partition("-")[0].partition(".")[0]
    assert name in segments() or name in data_types()
    assert name in data_types() or f"{name}|" in CASES[row["case"]]["message"]
    assert row["case"] in CASES
    assert all(row.values())
