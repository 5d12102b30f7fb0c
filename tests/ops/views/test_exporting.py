"""Messages taken out: byte for byte, page by page, with a reason, and without a formula."""

import csv
import io
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from engine.errors import UsageError
from engine.ops.operations.messages import ExportMessages
from engine.ops.views import exporting
from engine.ops.views.exporting import ExportedRow, bytes_of, csv_line, ndjson_line
from tests.journal.desk import Desk, open_desk
from tests.ops.reading import reading

exported = reading(ExportMessages)

LATIN = "MSH|^~\\&|ADT|RVB|||1||ADT^A08|c2|P|2.5.1\rPID|1||1||Núñez\r".encode("latin-1")
WHY = {"reason": "ticket 4711"}


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    """Three entries: plain, Latin-1, and one whose control id is a formula."""
    async with open_desk(tmp_path) as desk:
        await desk.record("c1", ("s|1",))
        await desk.record("c2", ("s|2",), raw=LATIN)
        await desk.record("=cmd|'/c calc'!A1", ("s|1",), raw=b"\x00\xff")
        yield desk


async def test_every_message_comes_out_as_it_came_in(desk: Desk) -> None:
    """Text where it is UTF-8, else the bytes beside it."""
    rows = ExportMessages.parse(WHY).read(desk.folder).entries
    assert [row.entry for row in rows] == [3, 2, 1]
    assert [bytes_of(row) for row in rows][:2] == [b"\x00\xff", LATIN]
    assert (rows[1].message.endswith("Núñez\r"), rows[2].base64) == (True, None)
    assert bytes_of(ExportedRow.model_validate_json(ndjson_line(rows[1]))) == LATIN


@pytest.mark.parametrize("reason", [None, "", "  ", 7])
async def test_nothing_is_taken_out_without_a_reason(desk: Desk, reason: object) -> None:
    """The audit trail keeps it; filters of a patient may be named with it."""
    with pytest.raises(UsageError, match="reason"):
        exported(desk.folder, {"reason": reason})


async def test_filters_choose_and_pages_follow(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page ends early where its messages are large; the next one goes on."""
    assert [row["entry"] for row in exported(desk.folder, WHY | {"filter": {"patient": "s|1"}})["entries"]] == [3, 1]
    page = exported(desk.folder, WHY | {"limit": 2})
    assert ([row["entry"] for row in page["entries"]], page["before"]) == ([3, 2], 2)
    monkeypatch.setattr(exporting, "MOST_BYTES", 10)
    page = exported(desk.folder, WHY)
    assert ([row["entry"] for row in page["entries"]], page["before"]) == ([3, 2], 2)
    page = exported(desk.folder, WHY | {"before": page["before"]})
    assert ([row["entry"] for row in page["entries"]], page["before"]) == ([1], None)
    with pytest.raises(UsageError, match="filter"):
        exported(desk.folder, WHY | {"filter": "all"})


async def test_a_cell_is_never_a_formula(desk: Desk) -> None:
    """What a spreadsheet would calculate has an apostrophe before it; a message is one cell whatever is in it."""
    rows = ExportMessages.parse(WHY).read(desk.folder).entries
    text = b"".join(csv_line(row) for row in rows).decode()
    records = list(csv.reader(io.StringIO(text, newline="")))
    assert records[0][exporting.COLUMNS.index("control_id")] == "'=cmd|'/c calc'!A1"
    assert [len(record) for record in records] == [len(exporting.COLUMNS)] * 3
    assert records[1][-1] == LATIN.decode("latin-1")
