"""What later releases added to the tables: a column, an index or a small table each, one constant a migration."""

from typing import Final

# What remains of bodies that retention took away: the acknowledgement stays, as a sender may ask for it again; it holds
# nothing of a patient. And the wrapped keys of a sealed journal: it is sealed where there is a row of day -1.
# `last_seq`: the newest entry when the next key began.
CARE: Final = (
    "CREATE TABLE worn (seq INTEGER PRIMARY KEY, acknowledgement BLOB NOT NULL, at BIGINT NOT NULL)",
    """
CREATE TABLE seal_key (
  id INTEGER PRIMARY KEY AUTOINCREMENT, day BIGINT NOT NULL, wrapped BLOB NOT NULL, last_seq BIGINT)
""",
)
# What a message is held against: the receipts of its own channel, as two channels are two feeds.
DUPLICATES: Final = (
    "DROP INDEX entry_control",
    "CREATE INDEX entry_control ON entry (control_id, source, channel, fingerprint)",
)
# Where a request went: the query of a URL (a search names patients) has its own column, and goes with the bodies. Older
# requests have it in their URL: taken away from a sealed journal, and where the body is gone already.
REQUESTS: Final = (
    "ALTER TABLE attempt ADD COLUMN query BLOB NOT NULL DEFAULT x''",
    """
UPDATE attempt SET url = substr(url, 1, instr(url, '?') - 1) WHERE instr(url, '?') > 0
AND (EXISTS (SELECT 1 FROM seal_key WHERE day = -1)
  OR NOT EXISTS (SELECT 1 FROM payload AS p WHERE p.seq = attempt.seq))
""",
)
# What was tried of each destination's server, once per version of it.
PROOFS: Final = (
    """
CREATE TABLE proof (
  destination TEXT NOT NULL, server TEXT NOT NULL, if_match BIGINT NOT NULL, at BIGINT NOT NULL,
  PRIMARY KEY (destination, server)) WITHOUT ROWID
""",
)
# The last moment that the journal took for true; retention goes no further than a few days beyond it.
CLOCK: Final = ("CREATE TABLE clock (id INTEGER PRIMARY KEY CHECK (id = 1), at BIGINT NOT NULL)",)
# Look-ups: what a destination is asked for once an entry was delivered there. Only one that waits has `due_at`.
LOOKUPS: Final = (
    """
CREATE TABLE lookup (
  destination TEXT NOT NULL, seq BIGINT NOT NULL, patient TEXT NOT NULL, state TEXT NOT NULL,
  reason TEXT NOT NULL DEFAULT '', codes TEXT NOT NULL DEFAULT '[]', handle TEXT NOT NULL DEFAULT '',
  tries INTEGER NOT NULL DEFAULT 0, due_at BIGINT, settled_at BIGINT,
  PRIMARY KEY (seq, destination)) WITHOUT ROWID
""",
    "CREATE INDEX lookup_due ON lookup (destination, due_at) WHERE due_at IS NOT NULL",
    "CREATE INDEX lookup_patient ON lookup (destination, patient, seq)",
)
# Which record was merged into which, found by the record that is gone. Only what was merged away, so that nothing else
# costs an insert; with the survivor, or the primary key is preferred.
MERGES: Final = ("CREATE INDEX known_gone ON known (destination, logical_id, survivor) WHERE status = 'merged-away'",)
# Follow-ups: look-ups and what else a destination is asked for once an entry was delivered there. Only one that waits
# has `due_at`; the index by patient serves those of one kind in turn, and all of them when records are merged.
FOLLOW_UPS: Final = (
    """
CREATE TABLE follow_up (
  destination TEXT NOT NULL, kind TEXT NOT NULL, seq BIGINT NOT NULL, patient TEXT NOT NULL,
  visit TEXT NOT NULL DEFAULT '', state TEXT NOT NULL, reason TEXT NOT NULL DEFAULT '',
  codes TEXT NOT NULL DEFAULT '[]', handle TEXT NOT NULL DEFAULT '', tries INTEGER NOT NULL DEFAULT 0, due_at BIGINT,
  settled_at BIGINT, PRIMARY KEY (seq, destination, kind)) WITHOUT ROWID
""",
    """
INSERT INTO follow_up (destination, kind, seq, patient, state, reason, codes, handle, tries, due_at, settled_at)
SELECT destination, 'lookup', seq, patient, state, reason, codes, handle, tries, due_at, settled_at FROM lookup
""",
    "DROP TABLE lookup",
    "CREATE INDEX follow_up_due ON follow_up (destination, kind, due_at) WHERE due_at IS NOT NULL",
    "CREATE INDEX follow_up_patient ON follow_up (destination, patient, kind, seq)",
)
# Which node holds what is claimed; a journal of one process has none.
HOLDERS: Final = ("ALTER TABLE delivery ADD COLUMN holder BIGINT NOT NULL DEFAULT 0",)
# Counts for charts in rows of several widths in seconds, and how far they have come; `bound` is of a histogram, in
# milliseconds.
ROLLUP: Final = (
    """
CREATE TABLE rollup (
  width INTEGER NOT NULL, at BIGINT NOT NULL, series TEXT NOT NULL, who TEXT NOT NULL, bound INTEGER NOT NULL,
  count BIGINT NOT NULL, PRIMARY KEY (width, at, series, who, bound)) WITHOUT ROWID
""",
    """
CREATE TABLE rolled (
  id INTEGER PRIMARY KEY CHECK (id = 1), upto BIGINT NOT NULL, unfilled BIGINT NOT NULL, since BIGINT NOT NULL)
""",
)
# What marks the key file that a journal is used with.
KEY_MARK: Final = ("CREATE TABLE key_mark (id INTEGER PRIMARY KEY CHECK (id = 1), mark TEXT NOT NULL)",)
# Checksums of the rows that the engine acts on (row_digest.py); none where an older program wrote, or retention.
ROW_CHECKS: Final = tuple(
    f"ALTER TABLE {table} ADD COLUMN crc BIGINT" for table in ("attempt", "delivery", "known", "owned")
)
