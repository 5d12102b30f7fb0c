"""Tables of what people and brakes have stopped: paused destinations, stopped channels, counted merges, alerts."""

from typing import Final

_PAUSED: Final = """
CREATE TABLE paused (
  destination TEXT PRIMARY KEY, reason TEXT NOT NULL, detail TEXT NOT NULL, since BIGINT NOT NULL, by TEXT NOT NULL)
WITHOUT ROWID
"""

_STOPPED: Final = """
CREATE TABLE stopped (channel TEXT PRIMARY KEY, since BIGINT NOT NULL, by TEXT NOT NULL) WITHOUT ROWID
"""

# One row a merge that was let through; the newest of each source are kept.
_MERGE_COUNT: Final = """
CREATE TABLE merge_count (
  id INTEGER PRIMARY KEY, channel TEXT NOT NULL, source TEXT NOT NULL, event_at BIGINT NOT NULL, at BIGINT NOT NULL,
  seq BIGINT NOT NULL, number INTEGER NOT NULL)
"""

_MERGES_HELD: Final = """
CREATE TABLE merges_held (channel TEXT PRIMARY KEY, source TEXT NOT NULL, since BIGINT NOT NULL) WITHOUT ROWID
"""

# `subject`: the destination, channel or source that it is about. Cleared ones are kept for a while.
_ALERT: Final = """
CREATE TABLE alert (
  id INTEGER PRIMARY KEY, kind TEXT NOT NULL, subject TEXT NOT NULL, detail TEXT NOT NULL, opened_at BIGINT NOT NULL,
  cleared_at BIGINT, acknowledged_at BIGINT, acknowledged_by TEXT NOT NULL DEFAULT '')
"""

# Who was seen on which channel, and which authorities: the first sight of each opens an alert.
_SEEN: Final = """
CREATE TABLE seen (
  channel TEXT NOT NULL, kind TEXT NOT NULL, name TEXT NOT NULL, first_at BIGINT NOT NULL,
  PRIMARY KEY (channel, kind, name)) WITHOUT ROWID
"""

_INDEXES: Final = (
    "CREATE INDEX merge_count_of ON merge_count (channel, source, id)",
    "CREATE UNIQUE INDEX merge_count_once ON merge_count (seq, channel, number)",
    "CREATE UNIQUE INDEX alert_open ON alert (kind, subject) WHERE cleared_at IS NULL",
    "CREATE INDEX alert_cleared ON alert (cleared_at) WHERE cleared_at IS NOT NULL",
)

STATEMENTS: Final = (_PAUSED, _STOPPED, _MERGE_COUNT, _MERGES_HELD, _ALERT, _SEEN, *_INDEXES)
