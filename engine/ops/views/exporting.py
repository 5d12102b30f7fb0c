"""Messages taken out of the journal with a reason: a page of them for the act, and the forms they are written in.

`messages.export` takes `filter` (what messages.search takes), `before`, `limit` (at most 200) and `reason`, which the
audit trail keeps. It returns `{entries: [row and message, base64], before, searched_back_to}`: `message` is the text;
`base64` its bytes, null where the text in UTF-8 is those bytes. A page ends early once its messages come to 8 MiB. Of
what retention took the message is empty and `base64` null.
"""

import csv
import io
from base64 import b64decode, b64encode
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import orjson

from engine.errors import UsageError
from engine.journal.read.reading import Reader
from engine.journal.read.wording import text_of
from engine.ops.request import number_in
from engine.ops.views.searching import searched
from engine.ops.web.table_file import plain

MOST: Final = 200
MOST_BYTES: Final = 8 * 1_048_576
COLUMNS: Final = (
    "entry", "received_at", "channel", "source", "event", "control_id", "visit", "state", "reason", "ack", "flags",
    "message",
)  # fmt: skip


def exported(folder: Path, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return a page of entries with their messages; UsageError where no reason is given."""
    reason = given.get("reason")
    if not isinstance(reason, str) or not reason.strip():
        raise UsageError("say what the messages are taken out for: --reason TEXT; the audit trail keeps it")
    filters = given.get("filter") or {}
    if not isinstance(filters, Mapping):
        raise UsageError("filter is what messages.search takes, as an object")
    bounds = {"before": given.get("before"), "limit": min(number_in(given, "limit") or MOST, MOST)}
    page = searched(folder, {**filters, **bounds})
    rows, size = [], 0
    with Reader(folder) as reader:
        for row in page["entries"]:
            raw = reader.raw(row["entry"])
            rows.append(row | _message(raw))
            size += len(raw)
            if size > MOST_BYTES and row is not page["entries"][-1]:
                return {"entries": rows, "before": row["entry"], "searched_back_to": None}
    return page | {"entries": rows}


def _message(raw: bytes) -> dict[str, str | None]:
    text = text_of(raw)
    return {"message": text, "base64": None if text.encode() == raw else b64encode(raw).decode()}


def bytes_of(row: Mapping[str, Any]) -> bytes:
    """Return the bytes of an exported message."""
    return b64decode(row["base64"]) if row["base64"] else str(row["message"]).encode()


def ndjson_line(row: Mapping[str, Any]) -> bytes:
    """Return an exported message as one line of JSON."""
    return orjson.dumps(row) + b"\n"


def csv_line(row: Mapping[str, Any]) -> bytes:
    """Return an exported message as one record of CSV, in which no cell is taken for a formula."""
    made = io.StringIO()
    cells = [" ".join(row["flags"]) if name == "flags" else row[name] for name in COLUMNS]
    csv.writer(made, lineterminator="\r\n").writerow([plain(cell) for cell in cells])
    return made.getvalue().encode()
