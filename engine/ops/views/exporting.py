"""Messages taken out of the journal: a page of them, and the forms they are written in."""

from base64 import b64decode, b64encode
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from engine.journal.read.reading import Reader
from engine.journal.read.views import Filters
from engine.journal.read.wording import text_of
from engine.ops.views.entry import Row
from engine.ops.views.view import Page, searched
from engine.terminal.table_file import csv_record

MOST: Final = 200
MOST_BYTES: Final = 8 * 1_048_576
COLUMNS: Final = (
    "entry", "received_at", "channel", "source", "event", "control_id", "visit", "state", "reason", "ack", "flags",
    "message",
)  # fmt: skip


class ExportedRow(Row):
    """An entry with its message: the text, and its bytes, null where the text in UTF-8 is those bytes.

    Where retention removed the message it is empty, and `base64` null.
    """

    message: str
    base64: str | None


class ExportPage(Page):
    """A page of entries with their messages; it ends early once these come to 8 MiB."""

    entries: tuple[ExportedRow, ...]


def exported(
    folder: Path, filters: Filters, limit: int = 0, before: int = 0, charsets: Mapping[str, str] | None = None
) -> ExportPage:
    """Return a page of at most 200 entries with their messages, read in the `charsets` of their channels."""
    page = searched(folder, filters, min(limit or MOST, MOST), before)
    rows: list[ExportedRow] = []
    size = 0
    with Reader(folder) as reader:
        for row in page.entries:
            raw = reader.raw(row.entry)
            rows.append(_with_message(row, raw, (charsets or {}).get(row.channel, "")))
            size += len(raw)
            if size > MOST_BYTES and row is not page.entries[-1]:
                return ExportPage(entries=tuple(rows), before=row.entry, searched_back_to=None)
    return ExportPage.of(page, entries=tuple(rows))


def _with_message(row: Row, raw: bytes, charset: str) -> ExportedRow:
    text = text_of(raw, charset)
    encoded = None if text.encode() == raw else b64encode(raw).decode()
    return ExportedRow.of(row, message=text, base64=encoded)


def bytes_of(row: ExportedRow) -> bytes:
    """Return the bytes of an exported message."""
    return b64decode(row.base64) if row.base64 else row.message.encode()


def ndjson_line(row: ExportedRow) -> bytes:
    """Return an exported message as one line of JSON."""
    return row.model_dump_json().encode() + b"\n"


def csv_line(row: ExportedRow) -> bytes:
    """Return an exported message as one record of CSV, in which no cell is taken for a formula."""
    return csv_record(" ".join(row.flags) if name == "flags" else getattr(row, name) for name in COLUMNS)
