"""How long a search takes in a large journal: every filter alone, the usual ones together, and the worst cases.

    python tests/benchmarks/bench_search.py [--entries 10000000] [--texts 1000000] [--folder DIR] [--keep]

The journal is made by bulk SQL in the real schema, with short bodies; the one for full text is smaller. Each line is a
page of 50 as `messages search` finds it: the time of the first and of the fastest of five, the rows found, and whether
the search said that it stopped before the end. The figure to hold is one second. Both folders are taken away
afterwards unless --keep is given; then the next run with the same --folder measures at once.
"""

import argparse
import contextlib
import platform
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from engine.database.connection import Connection
from engine.journal.entry import State
from engine.journal.file import tables
from engine.journal.file.database import open_writer
from engine.journal.moment import to_micros
from engine.journal.read.reading import Filters, Reader
from engine.journal.read.texts import Indexing, open_index

BEGIN: Final = datetime(2025, 1, 1, tzinfo=UTC)
YEAR_MICROS: Final = 365 * 86_400 * 1_000_000
TABLES: Final = ("entry", "payload", "delivery", "named_in", "lane_of", "noted", "queue")

NUMBERS: Final = "WITH RECURSIVE n (i) AS (SELECT :low UNION ALL SELECT i + 1 FROM n WHERE i < :high)"
# One channel has all that is filtered, one has nothing else; the laboratory never sends A31, and waits for nothing.
ENTRY: Final = f"""
{NUMBERS}, m AS (SELECT i, i * 2654435761 % 1000003 AS h FROM n), c AS (
  SELECT i, h, CASE WHEN i % 500000 = 7 THEN 'pharmacy' WHEN i <= :mute THEN 'mute' WHEN h % 10 < 6 THEN 'main'
    WHEN h % 10 < 8 THEN 'laboratory' ELSE 'clinic' || (h % 4) END AS channel FROM m)
INSERT INTO entry (seq, channel, peer, source, control_id, event, version, visit, event_at, received_at, state, reason,
  flags, ack_code, ack_outcome, sha256, fingerprint, mapping, batch, parent, patients)
SELECT i, channel, '127.0.0.1', CASE WHEN h % 5 = 0 THEN 'REG|' ELSE 'ADT|' END || channel,
  CASE WHEN h % 5 = 0 THEN 'CONSTANT' ELSE 'C' || i END,
  CASE WHEN i % 2000003 = 5 THEN 'A43' WHEN i % 1000 = 9 THEN 'A40'
    WHEN h % 20 = 0 AND channel <> 'laboratory' THEN 'A31' WHEN h % 2 = 0 THEN 'A08' ELSE 'A0' || (1 + h % 4) END,
  '2.5.1', CASE WHEN h % 10 = 0 THEN '' ELSE 'V' || (i / 5) END, :begin + i * :step, :begin + i * :step,
  CASE WHEN channel = 'mute' THEN 'filtered' WHEN h % 100 = 3 THEN 'rejected' ELSE 'received' END,
  CASE WHEN channel = 'mute' THEN 'not-routed' WHEN h % 100 = 3 THEN 'no-identity' ELSE '' END,
  '[]', CASE WHEN h % 100 = 3 THEN 'AE' ELSE 'AA' END, 'sent', zeroblob(32), i * 40503, 'abc', '', NULL,
  '[' || (CASE WHEN i % 1000 = 11 THEN 1 ELSE 2 + h % :patients END) || ']'
FROM c
"""  # noqa: S608 - constants
PAYLOAD: Final = f"""
{NUMBERS}, m AS (SELECT i, i * 2654435761 % 1000003 AS h FROM n)
INSERT INTO payload (seq, raw, acknowledgement)
SELECT i, CAST('MSH|^~\\&|ADT|RVB|||2025||ADT^A08|C' || i || '|P|2.5.1' || char(13) || 'PID|1||' || h || '^^^RVB^MR||'
  || 'Fam' || (h % 50000) || '^Giv' || (h % 3000) || '||1950'
  || CASE WHEN i % 300007 = 5 THEN '|zebra crossing' ELSE '' END
  AS BLOB), x'4d' FROM m
"""  # noqa: S608
DELIVERY: Final = """
INSERT INTO delivery (destination, seq, state, reason, notes, lanes, settled_at, mapping)
SELECT 'interchange', seq,
  CASE WHEN seq > :last - 1000 THEN 'received' WHEN seq % 2000 = 1 THEN 'held'
    WHEN channel = 'main' AND seq % 120 = 2 THEN 'waiting' WHEN seq % 3000017 = 3 THEN 'discarded' ELSE 'delivered' END,
  CASE WHEN seq > :last - 1000 THEN '' WHEN seq % 2000 = 1 THEN 'missing-required'
    WHEN seq % 1500007 = 4 THEN 'merge-cycle' WHEN fingerprint % 10 < 3 THEN 'unchanged' ELSE '' END,
  CASE WHEN seq % 10000 = 8 THEN '["possible-duplicate"]'
    WHEN seq % 10 = 6 THEN '["unmapped-code PID-10"]' ELSE '[]' END,
  '[1]', received_at + 40000, 'abc' FROM entry WHERE seq BETWEEN :low AND :high AND state = 'received'
"""
NAMED: Final = """
INSERT OR IGNORE INTO named_in (identity, seq)
SELECT patients ->> 0, seq FROM entry WHERE seq BETWEEN :low AND :high
"""
PATIENTS: Final = f"""
{NUMBERS} INSERT INTO lane_of (identity, key, lane) SELECT i, 'https://mrn.riverbend.example|MRN' || i, i FROM n
"""  # noqa: S608
INDEXES: Final = """
SELECT name, sql FROM sqlite_schema WHERE type = 'index' AND sql IS NOT NULL AND tbl_name IN ('entry', 'delivery')
"""
CHUNK: Final = 1_000_000


def fill(folder: Path, entries: int) -> None:
    """Make a journal of so many entries; indexes are built once the rows are there."""
    folder.mkdir(parents=True, exist_ok=True)
    with contextlib.closing(open_writer(folder)) as connection:
        if connection.execute("SELECT EXISTS (SELECT 1 FROM entry)").fetchone()[0]:
            return
        for pragma in ("synchronous = OFF", "journal_mode = OFF", "cache_size = -1000000", "secure_delete = OFF"):
            connection.execute(f"PRAGMA {pragma}").fetchall()
        indexes = _without_indexes(connection)
        patients = max(entries // 10, 10)
        step = YEAR_MICROS // entries
        connection.execute("BEGIN")
        connection.execute(PATIENTS, {"low": 1, "high": patients + 2})
        for low in range(1, entries + 1, CHUNK):
            bounds = {"low": low, "high": min(low + CHUNK - 1, entries)}
            given = {"mute": entries // 20, "begin": to_micros(BEGIN), "step": step, "patients": patients}
            connection.execute(ENTRY, bounds | given)
            connection.execute(PAYLOAD, bounds)
            connection.execute(DELIVERY, bounds | {"last": entries})
            connection.execute(NAMED, bounds)
            _say(f"  {bounds['high']:>10} entries")
        for statement in (*indexes, *tables._FILL):
            connection.execute(statement)
        connection.execute("COMMIT")


def _without_indexes(connection: Connection) -> list[str]:
    found = connection.execute(INDEXES).fetchall()
    for name, _sql in found:
        connection.execute(f"DROP INDEX {name}")
    return [sql for _name, sql in found]


def index(folder: Path) -> None:
    """Index the words of a journal, and say what it costs."""
    with Reader(folder) as reader, contextlib.closing(open_index(folder)) as texts:
        indexing = Indexing(reader._connection, texts)
        began, cpu = time.perf_counter(), time.process_time()
        while indexing.add():
            pass
        spent, count = time.process_time() - cpu, texts.execute("SELECT seq FROM indexed").fetchone()[0]
        if count:
            seconds = time.perf_counter() - began
            _say(f"indexing words: {spent / count * 1e6:.0f} us CPU a message, {count / seconds:.0f} messages/s")


def questions(entries: int) -> Iterator[tuple[str, Filters, int | None]]:
    """Yield what is asked: a name, the filters, and the page's beginning."""
    early = BEGIN + timedelta(days=20)
    middle = BEGIN + timedelta(days=180)
    yield "nothing", Filters(), None
    yield "nothing, a page far back", Filters(), entries // 2
    for state in State:
        yield f"state {state}", Filters(state=state), None
    yield "state delivered, far back where there is none", Filters(state=State.DELIVERED), entries // 20
    yield "channel, common", Filters(channel="main"), None
    yield "channel, rare", Filters(channel="pharmacy"), None
    yield "channel, unknown", Filters(channel="none"), None
    yield "source, common", Filters(source="ADT|main"), None
    yield "event, common", Filters(event="A08"), None
    yield "event, rare", Filters(event="A43"), None
    yield "control id", Filters(control_id=f"C{entries // 3}"), None
    yield "control id, the same of a fifth", Filters(control_id="CONSTANT"), None
    yield "visit", Filters(visit=f"V{entries // 7}"), None
    yield "reason, common", Filters(reason="unchanged"), None
    yield "reason, rare", Filters(reason="merge-cycle"), None
    yield "reason at the door", Filters(reason="no-identity"), None
    yield "outcome, common", Filters(outcome="unmapped-code"), None
    yield "outcome possible-duplicate", Filters(outcome="possible-duplicate"), None
    yield "patient with 10 entries", Filters(patient=f"https://mrn.riverbend.example|MRN{entries // 30}"), None
    yield "patient with 10,000 entries", Filters(patient="https://mrn.riverbend.example|MRN1"), None
    yield "patient by bare value", Filters(patient=f"MRN{entries // 30}"), None
    yield "patient, unknown", Filters(patient="nobody"), None
    yield "since, the last day", Filters(since=BEGIN + timedelta(days=364)), None
    yield "until, far back", Filters(until=early), None
    yield "a minute far back", Filters(since=middle, until=middle + timedelta(minutes=1)), None
    yield "held, last day", Filters(state=State.HELD, since=BEGIN + timedelta(days=364)), None
    yield "held in a channel", Filters(state=State.HELD, channel="main"), None
    yield "patient and state", Filters(patient="MRN1", state=State.HELD), None
    yield "patient and day", Filters(patient="MRN1", since=middle, until=middle + timedelta(days=1)), None
    yield "channel and event, both common, never together", Filters(channel="laboratory", event="A31"), None
    yield "channel, event, source", Filters(channel="main", event="A40", source="REG|main"), None
    yield "waiting in a channel that waits for nothing", Filters(state=State.WAITING, channel="laboratory"), None
    yield "filtered in a channel that filters nothing", Filters(state=State.FILTERED, channel="main"), None
    yield "delivered in a channel that delivers nothing", Filters(state=State.DELIVERED, channel="mute"), None
    yield "common reason, rejected at the door", Filters(reason="unchanged", state=State.REJECTED), None
    yield "common reason, common outcome", Filters(reason="unchanged", outcome="unmapped-code"), None
    yield "common reason, rare event", Filters(reason="unchanged", event="A43"), None
    yield "constant control id, rare reason", Filters(control_id="CONSTANT", reason="merge-cycle"), None
    yield "constant control id, channel without", Filters(control_id="CONSTANT", channel="pharmacy"), None


def texts(entries: int) -> Iterator[tuple[str, Filters, int | None]]:
    """Yield what is asked of full text."""
    yield "text, one rare word", Filters(text="zebra"), None
    yield "text, in every message", Filters(text="adt"), None
    yield "text, a name", Filters(text="fam4711"), None
    yield "text, two names", Filters(text="fam4711 giv1711"), None
    yield "text, the beginning of a name", Filters(text="fam471*"), None
    yield "text, two words in a row", Filters(text="zebra-crossing"), None
    yield "text, common words never together", Filters(text="fam1 giv2"), None
    yield "text, words of every message not in a row", Filters(text="adt-msh"), None
    yield "text, nowhere", Filters(text="giraffe"), None
    yield "text and state", Filters(text="fam4711", state=State.HELD), None
    yield "text and channel", Filters(text="zebra", channel="main"), None
    yield "text and patient", Filters(text="adt", patient="MRN1"), None


def measure(folder: Path, asked: Iterator[tuple[str, Filters, int | None]]) -> float:
    """Print a line for each question; return the longest time."""
    worst = 0.0
    for name, filters, before in asked:
        times, page = [], None
        for _ in range(5):
            began = time.perf_counter()
            with Reader(folder) as reader:
                page = reader.page(filters, 50, before)
            times.append(time.perf_counter() - began)
        back = f"  searched back to {page.searched_back_to:%Y-%m-%d}" if page and page.searched_back_to else ""
        _say(f"{name:<50} {times[0] * 1000:7.1f} ms first, {min(times) * 1000:7.1f} ms, {len(page.rows):>3} rows{back}")
        worst = max(worst, *times)
    return worst


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main() -> None:
    """Make the journals, print the table, take the journals away."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--entries", type=int, default=10_000_000)
    parser.add_argument("--texts", type=int, default=1_000_000)
    parser.add_argument("--folder", type=Path, default=None)
    parser.add_argument("--keep", action="store_true")
    arguments: Any = parser.parse_args()
    folder = arguments.folder or Path(tempfile.mkdtemp(prefix="adt-engine-search-"))
    _say(f"{platform.machine()}, Python {platform.python_version()}, SQLite {_version()}")
    try:
        for name, count, asked in (("filters", arguments.entries, questions), ("texts", arguments.texts, texts)):
            _say(f"\n{count} entries")
            fill(folder / name, count)
            if name == "texts":
                index(folder / name)
            size = sum(file.stat().st_size for file in (folder / name).iterdir())
            _say(f"{size / 1e9:.1f} GB on disk")
            _say(f"longest: {measure(folder / name, asked(count)):.3f} s")
    finally:
        if not arguments.keep:
            shutil.rmtree(folder, ignore_errors=True)


def _version() -> str:
    with contextlib.closing(open_writer(Path(tempfile.mkdtemp()))) as connection:
        return str(connection.execute("SELECT sqlite_version()").fetchone()[0])


if __name__ == "__main__":
    main()
