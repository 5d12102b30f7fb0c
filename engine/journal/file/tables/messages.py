"""Tables of messages, their deliveries and lanes, and of what is known of each destination."""

from typing import Final

# The state in `entry` is the one at the door; with deliveries (then it is 'received') theirs counts.
_ENTRY: Final = """
CREATE TABLE entry (
  seq INTEGER PRIMARY KEY, channel TEXT NOT NULL, peer TEXT NOT NULL, source TEXT NOT NULL,
  control_id TEXT NOT NULL, event TEXT NOT NULL, version TEXT NOT NULL, visit TEXT NOT NULL,
  event_at BIGINT, received_at BIGINT NOT NULL, state TEXT NOT NULL, reason TEXT NOT NULL, flags TEXT NOT NULL,
  ack_code TEXT NOT NULL, ack_outcome TEXT NOT NULL, sha256 BLOB NOT NULL, fingerprint BIGINT NOT NULL,
  mapping TEXT NOT NULL, batch TEXT NOT NULL, parent BIGINT, receipts INTEGER NOT NULL DEFAULT 1,
  patients TEXT NOT NULL, settled_by TEXT NOT NULL DEFAULT '')
"""

_PAYLOAD: Final = "CREATE TABLE payload (seq INTEGER PRIMARY KEY, raw BLOB NOT NULL, acknowledgement BLOB NOT NULL)"

_DELIVERY: Final = """
CREATE TABLE delivery (
  destination TEXT NOT NULL, seq BIGINT NOT NULL, state TEXT NOT NULL, reason TEXT NOT NULL DEFAULT '',
  notes TEXT NOT NULL DEFAULT '[]', lanes TEXT NOT NULL, tries INTEGER NOT NULL DEFAULT 0, due_at BIGINT,
  settled_at BIGINT, mapping TEXT NOT NULL DEFAULT '', replay INTEGER NOT NULL DEFAULT 0,
  forced INTEGER NOT NULL DEFAULT 0, settled_by TEXT NOT NULL DEFAULT '',
  PRIMARY KEY (seq, destination)) WITHOUT ROWID
"""

_PLAN: Final = """
CREATE TABLE plan (id INTEGER PRIMARY KEY, seq BIGINT NOT NULL, destination TEXT NOT NULL, content BLOB NOT NULL)
"""

_ATTEMPT: Final = """
CREATE TABLE attempt (
  id INTEGER PRIMARY KEY, seq BIGINT NOT NULL, destination TEXT NOT NULL, number INTEGER NOT NULL,
  method TEXT NOT NULL, url TEXT NOT NULL, headers TEXT NOT NULL, body BLOB NOT NULL, at BIGINT NOT NULL)
"""

# An attempt without an answer is an open intent.
_ANSWER: Final = """
CREATE TABLE answer (
  attempt INTEGER PRIMARY KEY, status INTEGER NOT NULL, codes TEXT NOT NULL, failure TEXT NOT NULL,
  milliseconds REAL NOT NULL, response BLOB NOT NULL)
"""

_QUEUE: Final = """
CREATE TABLE queue (
  destination TEXT NOT NULL, lane BIGINT NOT NULL, seq BIGINT NOT NULL,
  PRIMARY KEY (destination, lane, seq)) WITHOUT ROWID
"""

_LANE_OF: Final = "CREATE TABLE lane_of (identity INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, lane BIGINT NOT NULL)"

_NAMED_IN: Final = """
CREATE TABLE named_in (
  identity BIGINT NOT NULL, seq BIGINT NOT NULL, PRIMARY KEY (identity, seq)) WITHOUT ROWID
"""

_KNOWN: Final = """
CREATE TABLE known (
  destination TEXT NOT NULL, system TEXT NOT NULL, value TEXT NOT NULL, logical_id TEXT NOT NULL,
  status TEXT NOT NULL, survivor TEXT NOT NULL, PRIMARY KEY (destination, system, value)) WITHOUT ROWID
"""

_OWNED: Final = """
CREATE TABLE owned (
  destination TEXT NOT NULL, resource TEXT NOT NULL, source TEXT NOT NULL, slices TEXT NOT NULL,
  PRIMARY KEY (destination, resource, source)) WITHOUT ROWID
"""

_MERGED: Final = """
CREATE TABLE merged (
  destination TEXT NOT NULL, source_key TEXT NOT NULL, survivor_key TEXT NOT NULL, seq BIGINT NOT NULL,
  PRIMARY KEY (destination, source_key, survivor_key)) WITHOUT ROWID
"""

_APPLIED: Final = """
CREATE TABLE applied (
  destination TEXT NOT NULL, lane BIGINT NOT NULL, source TEXT NOT NULL, event_at BIGINT,
  seq BIGINT NOT NULL, PRIMARY KEY (destination, lane, source)) WITHOUT ROWID
"""

_INDEXES: Final = (
    "CREATE INDEX entry_control ON entry (control_id, source, fingerprint)",
    "CREATE INDEX entry_visit ON entry (visit, seq) WHERE visit <> ''",
    "CREATE INDEX entry_door ON entry (state, seq) WHERE state <> 'received'",
    "CREATE INDEX delivery_open ON delivery (destination, state, seq, due_at) WHERE state <> 'delivered'",
    "CREATE INDEX delivery_due ON delivery (destination, due_at) WHERE due_at IS NOT NULL",
    "CREATE UNIQUE INDEX plan_of ON plan (seq, destination)",
    "CREATE UNIQUE INDEX attempt_of ON attempt (seq, destination, number)",
    "CREATE INDEX applied_lane ON applied (lane)",
    "CREATE INDEX lane_of_lane ON lane_of (lane)",
)

STATEMENTS: Final = (
    _ENTRY, _PAYLOAD, _DELIVERY, _PLAN, _ATTEMPT, _ANSWER, _QUEUE, _LANE_OF, _NAMED_IN, _KNOWN, _OWNED, _MERGED,
    _APPLIED, *_INDEXES,
)  # fmt: skip
