"""Rows as a file for spreadsheets, in which no cell is taken for a formula."""

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

# What a spreadsheet would calculate, in full width too, and also behind spaces of any kind (OWASP, CSV injection).
_STARTS: Final = ("=", "+", "-", "@", "\t", "\r", "\n", "|", "%", "＝", "＋", "－", "＠")


def as_csv(columns: Sequence[str], rows: Iterable[Mapping[str, object]]) -> bytes:
    """Return rows as CSV (RFC 4180) in UTF-8, one line of headings first."""
    return b"".join(map(csv_record, [columns, *([row.get(column) for column in columns] for row in rows)]))


def csv_record(cells: Iterable[object]) -> bytes:
    """Return one record of CSV."""
    written = io.StringIO()
    csv.writer(written, lineterminator="\r\n").writerow(map(plain, cells))
    return written.getvalue().encode()


def plain(value: object) -> str:
    """Return a cell; one that a spreadsheet would calculate has an apostrophe in front."""
    text = "" if value is None else str(value)
    begin = text.lstrip(" \u00a0\u3000\ufeff\u200b")
    return f"'{text}" if begin.startswith(_STARTS) else text
