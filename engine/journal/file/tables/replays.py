"""Tables of what people did with entries: bulk runs and their entries, every replay, and what an edit changed."""

from typing import Final

# `asked` is what was asked for, as JSON, `bound` the newest entry then; `counts` is kept once the run has ended and
# its entries are forgotten.
_RUN: Final = """
CREATE TABLE run (
  id INTEGER PRIMARY KEY, kind TEXT NOT NULL, by TEXT NOT NULL, asked TEXT NOT NULL, destination TEXT NOT NULL,
  forced INTEGER NOT NULL, rate REAL NOT NULL, state TEXT NOT NULL, started_at BIGINT NOT NULL, ended_at BIGINT,
  bound BIGINT NOT NULL, total INTEGER NOT NULL DEFAULT 0, counts TEXT NOT NULL DEFAULT '{}')
"""

# `outcome` is empty until the entry is taken up, then `under way`, then how it ended, or `refused: ` and why.
_RUN_ENTRY: Final = """
CREATE TABLE run_entry (
  run BIGINT NOT NULL, seq BIGINT NOT NULL, outcome TEXT NOT NULL DEFAULT '', PRIMARY KEY (run, seq)) WITHOUT ROWID
"""

# How a delivery stood before somebody let it run again.
_REPLAYED: Final = """
CREATE TABLE replayed (
  id INTEGER PRIMARY KEY, seq BIGINT NOT NULL, destination TEXT NOT NULL, act TEXT NOT NULL, by TEXT NOT NULL,
  at BIGINT, run BIGINT NOT NULL, forced INTEGER NOT NULL, state TEXT NOT NULL, reason TEXT NOT NULL,
  mapping TEXT NOT NULL)
"""

_EDIT: Final = """
CREATE TABLE edit (
  seq INTEGER PRIMARY KEY, parent BIGINT NOT NULL, by TEXT NOT NULL, at BIGINT, changes TEXT NOT NULL)
"""

STATEMENTS: Final = (
    _RUN, _RUN_ENTRY, _REPLAYED, _EDIT,
    "CREATE INDEX run_running ON run (state) WHERE state IN ('filling', 'running')",
    "CREATE INDEX run_next ON run_entry (run, seq) WHERE outcome = ''",
    "CREATE INDEX run_moving ON run_entry (run, seq) WHERE outcome = 'under way'",
    "CREATE INDEX replayed_of ON replayed (seq, id)",
    "CREATE INDEX edit_of ON edit (parent)",
)  # fmt: skip
