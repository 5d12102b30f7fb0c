"""Rows for spreadsheets."""

import csv
import io
from typing import Any

import pytest

from engine.terminal.table_file import as_csv, plain

STARTS = [
    "=1+1",
    "+1",
    "-1",
    "@SUM(A1)",
    "\t=1",
    "\r=1",
    "\n=1",
    "|calc",
    "%0A",
    "  =1+1",
    "＝1＋1",
    "\u00a0=1",
    "\ufeff=1",
]


@pytest.mark.parametrize("text", STARTS)
def test_no_cell_is_a_formula(text: str) -> None:
    """What a spreadsheet would calculate has an apostrophe in front."""
    assert plain(text) == f"'{text}"


def test_rows_come_back_as_they_were() -> None:
    """Quotes, commas and lines survive; what is missing is empty."""
    rows: list[dict[str, Any]] = [{"entry": 1, "reason": 'a "b", c\nd'}, {"entry": 2, "reason": None}]
    read = list(csv.reader(io.StringIO(as_csv(("entry", "reason"), rows).decode())))
    assert read == [["entry", "reason"], ["1", 'a "b", c\nd'], ["2", ""]]
