"""A journal that has long been in use: filled with old entries, none under way, before the engine is measured on it.

    PYTHONPATH=TREE python tests/benchmarks/old_entries.py DATA ENTRIES

The entries are those of bench_search.py, moved to the last day, so that no retention takes any away meanwhile. Their
words count as indexed: making that index takes most of an hour, and would be measured with the messages.
"""

import contextlib
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

from engine.journal.file.database import open_writer
from engine.journal.read.texts import open_index
from tests.benchmarks import bench_search


def fill(data: Path, entries: int) -> None:
    """Fill the journal of a data folder with entries: 94 % delivered, 5 % filtered, 1 % rejected."""
    bench_search.BEGIN = datetime.now(UTC) - timedelta(days=1)  # type: ignore[misc]
    bench_search.YEAR_MICROS = 86_400 * 1_000_000  # type: ignore[misc]
    bench_search.fill(data, entries)
    with contextlib.closing(open_writer(data)) as journal:
        journal.execute("UPDATE delivery SET state = 'delivered', reason = '' WHERE state <> 'delivered'")
        last = journal.execute("SELECT seq, sha256 FROM entry ORDER BY seq DESC LIMIT 1").fetchone()
    with contextlib.closing(open_index(data)) as texts:
        texts.execute("UPDATE indexed SET seq = ?, sha256 = ?", last)
        texts.commit()


if __name__ == "__main__":
    fill(Path(sys.argv[1]), int(sys.argv[2]))
