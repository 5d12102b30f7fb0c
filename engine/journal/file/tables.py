"""The journal's tables as SQL, a concern at a time, in the order of their migrations.

Nothing here is read while a message is accepted or delivered.
"""

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

_MESSAGES_INDEXES: Final = (
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

MESSAGES: Final = (
    _ENTRY, _PAYLOAD, _DELIVERY, _PLAN, _ATTEMPT, _ANSWER, _QUEUE, _LANE_OF, _NAMED_IN, _KNOWN, _OWNED, _MERGED,
    _APPLIED, *_MESSAGES_INDEXES,
)  # fmt: skip


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

_OPERATIONS_INDEXES: Final = (
    "CREATE INDEX merge_count_of ON merge_count (channel, source, id)",
    "CREATE UNIQUE INDEX merge_count_once ON merge_count (seq, channel, number)",
    "CREATE UNIQUE INDEX alert_open ON alert (kind, subject) WHERE cleared_at IS NULL",
    "CREATE INDEX alert_cleared ON alert (cleared_at) WHERE cleared_at IS NOT NULL",
)

OPERATIONS: Final = (_PAUSED, _STOPPED, _MERGE_COUNT, _MERGES_HELD, _ALERT, _SEEN, *_OPERATIONS_INDEXES)


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

REPLAYS: Final = (
    _RUN, _RUN_ENTRY, _REPLAYED, _EDIT,
    "CREATE INDEX run_running ON run (state) WHERE state IN ('filling', 'running')",
    "CREATE INDEX run_next ON run_entry (run, seq) WHERE outcome = ''",
    "CREATE INDEX run_moving ON run_entry (run, seq) WHERE outcome = 'under way'",
    "CREATE INDEX replayed_of ON replayed (seq, id)",
    "CREATE INDEX edit_of ON edit (parent)",
)  # fmt: skip


# Notes of deliveries, flags of entries and codes of OperationOutcomes; what a replay made untrue stays and is checked.
_NOTED: Final = "CREATE TABLE noted (code TEXT NOT NULL, seq BIGINT NOT NULL, PRIMARY KEY (code, seq)) WITHOUT ROWID"

# Entries recorded, as the door judged them; `unit` is minute or day, `at` its beginning.
_ARRIVED: Final = """
CREATE TABLE arrived (
  unit TEXT NOT NULL, at BIGINT NOT NULL, channel TEXT NOT NULL, state TEXT NOT NULL, count INTEGER NOT NULL,
  first_seq BIGINT NOT NULL, last_seq BIGINT NOT NULL, PRIMARY KEY (unit, at, channel, state)) WITHOUT ROWID
"""

# Settlements by destination and the state they led to; `received` is a delivery that is tried again.
_ENDED: Final = """
CREATE TABLE ended (
  unit TEXT NOT NULL, at BIGINT NOT NULL, destination TEXT NOT NULL, state TEXT NOT NULL, count INTEGER NOT NULL,
  PRIMARY KEY (unit, at, destination, state)) WITHOUT ROWID
"""

# Acknowledgements that older programs wrote, by how long the sender waited: up to `milliseconds`.
_ANSWERED: Final = """
CREATE TABLE answered (
  at BIGINT NOT NULL, channel TEXT NOT NULL, milliseconds INTEGER NOT NULL, count INTEGER NOT NULL,
  PRIMARY KEY (at, channel, milliseconds)) WITHOUT ROWID
"""

_SEARCH_INDEXES: Final = (
    "CREATE INDEX entry_feed ON entry (channel, source, event)",
    "CREATE INDEX entry_parent ON entry (parent) WHERE parent IS NOT NULL",
    "CREATE INDEX entry_reason ON entry (reason, seq) WHERE reason <> ''",
    "CREATE INDEX delivery_reason ON delivery (reason, seq) WHERE reason <> ''",
    "CREATE INDEX lane_of_value ON lane_of (substr(key, instr(key, '|') + 1))",
)

# What an older journal holds already.
_FILL: Final = (
    """
INSERT OR IGNORE INTO noted (code, seq)
SELECT note.value, d.seq FROM delivery AS d CROSS JOIN json_each(d.notes) AS note WHERE d.notes <> '[]'
""",
    """
INSERT OR IGNORE INTO noted (code, seq)
SELECT flag.value, e.seq FROM entry AS e CROSS JOIN json_each(e.flags) AS flag WHERE e.flags <> '[]'
""",
    """
INSERT OR IGNORE INTO noted (code, seq)
SELECT code.value, a.seq FROM answer AS r JOIN attempt AS a ON a.id = r.attempt CROSS JOIN json_each(r.codes) AS code
WHERE r.codes <> '[]'
""",
    *(
        f"""
INSERT INTO arrived (unit, at, channel, state, count, first_seq, last_seq)
SELECT '{unit}', received_at / {micros} * {micros}, channel, state, COUNT(*), MIN(seq), MAX(seq) FROM entry
GROUP BY received_at / {micros}, channel, state
"""  # noqa: S608 - constants
        for unit, micros in (("minute", 60_000_000), ("day", 86_400_000_000))
    ),
    *(
        f"""
INSERT INTO ended (unit, at, destination, state, count)
SELECT '{unit}', settled_at / {micros} * {micros}, destination, state, COUNT(*) FROM delivery
WHERE settled_at IS NOT NULL AND state IN ('delivered', 'filtered', 'held', 'rejected')
GROUP BY settled_at / {micros}, destination, state
"""  # noqa: S608 - constants
        for unit, micros in (("minute", 60_000_000), ("day", 86_400_000_000))
    ),
)

SEARCH: Final = (_NOTED, _ARRIVED, _ENDED, _ANSWERED, *_SEARCH_INDEXES, *_FILL)


# A removed account stays, so that its name never comes to mean somebody else. `totp` is a sealed secret.
_ACCOUNT: Final = """
CREATE TABLE account (
  name TEXT NOT NULL PRIMARY KEY, role TEXT NOT NULL, state TEXT NOT NULL, password TEXT NOT NULL DEFAULT '',
  password_at BIGINT, totp BLOB NOT NULL DEFAULT x'', totp_step BIGINT NOT NULL DEFAULT 0,
  totp_wanted INTEGER NOT NULL DEFAULT 0, made_at BIGINT NOT NULL, made_by TEXT NOT NULL) WITHOUT ROWID
"""

# Of what is secret in the next three only the digest is kept. An invitation for nobody makes the first administrator.
_INVITATION: Final = """
CREATE TABLE invitation (
  digest BLOB NOT NULL PRIMARY KEY, account TEXT NOT NULL, expires_at BIGINT NOT NULL) WITHOUT ROWID
"""

_SESSION: Final = """
CREATE TABLE session (
  digest BLOB NOT NULL PRIMARY KEY, account TEXT NOT NULL, address TEXT NOT NULL, began_at BIGINT NOT NULL,
  seen_at BIGINT NOT NULL, confirmed_at BIGINT NOT NULL, enrolling INTEGER NOT NULL,
  offer BLOB NOT NULL DEFAULT x'') WITHOUT ROWID
"""

_BEARER: Final = """
CREATE TABLE bearer (
  name TEXT NOT NULL PRIMARY KEY, digest BLOB NOT NULL UNIQUE, role TEXT NOT NULL, channels TEXT NOT NULL,
  made_at BIGINT NOT NULL, made_by TEXT NOT NULL, expires_at BIGINT NOT NULL, used_at BIGINT, revoked_at BIGINT)
"""

# hash = SHA-256 of the row before's hash and of this row as JSON.
_AUDIT: Final = """
CREATE TABLE audit (
  seq INTEGER PRIMARY KEY, at BIGINT NOT NULL, actor TEXT NOT NULL, role TEXT NOT NULL, via TEXT NOT NULL,
  address TEXT NOT NULL, act TEXT NOT NULL, entry BIGINT, outcome TEXT NOT NULL, reason TEXT NOT NULL,
  detail TEXT NOT NULL, patients TEXT NOT NULL, follows BIGINT, hash BLOB NOT NULL)
"""

_KEPT: Final = tuple(
    f"CREATE TRIGGER audit_{act.lower()} BEFORE {act} ON audit "
    "BEGIN SELECT RAISE(ABORT, 'the audit trail is only ever added to'); END"
    for act in ("UPDATE", "DELETE")
)

_ACCESS_INDEXES: Final = (
    "CREATE INDEX session_of ON session (account)",
    "CREATE INDEX invitation_of ON invitation (account)",
    "CREATE INDEX audit_actor ON audit (actor, seq)",
    "CREATE INDEX audit_act ON audit (act, seq)",
    "CREATE INDEX audit_entry ON audit (entry, seq) WHERE entry IS NOT NULL",
)

ACCESS: Final = (_ACCOUNT, _INVITATION, _SESSION, _BEARER, _AUDIT, *_KEPT, *_ACCESS_INDEXES)


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
# What charts show beyond plain counts (tally.py), in rows of several widths in seconds. How far deliveries of an older
# journal are counted. And when the engine ran: a row begins where it had not been seen for a while.
TALLY: Final = (
    """
CREATE TABLE tally (
  width INTEGER NOT NULL, at BIGINT NOT NULL, series TEXT NOT NULL, who TEXT NOT NULL, bucket INTEGER NOT NULL,
  count BIGINT NOT NULL, PRIMARY KEY (width, at, series, who, bucket)) WITHOUT ROWID
""",
    """
CREATE TABLE tallied (id INTEGER PRIMARY KEY CHECK (id = 1), unfilled BIGINT NOT NULL, since BIGINT NOT NULL)
""",
    "CREATE TABLE uptime (began_at BIGINT NOT NULL PRIMARY KEY, seen_at BIGINT NOT NULL) WITHOUT ROWID",
)
# What marks the key file that a journal is used with.
KEY_MARK: Final = ("CREATE TABLE key_mark (id INTEGER PRIMARY KEY CHECK (id = 1), mark TEXT NOT NULL)",)
# Checksums of the rows that the engine acts on (row_digest.py); none where an older program wrote, or retention.
ROW_CHECKS: Final = tuple(
    f"ALTER TABLE {table} ADD COLUMN crc BIGINT" for table in ("attempt", "delivery", "known", "owned")
)

# What a relay was last sent of a resource on a FHIR server: its version there, and what tells one change from another.
_SENT_RESOURCE: Final = """
CREATE TABLE sent_resource (
  destination TEXT NOT NULL, resource TEXT NOT NULL, version TEXT NOT NULL, state TEXT NOT NULL, seq BIGINT NOT NULL,
  PRIMARY KEY (destination, resource)) WITHOUT ROWID
"""
# The versions that the engine itself has written for a channel: no change of anybody else.
_OWN_WRITE: Final = """
CREATE TABLE own_write (
  server TEXT NOT NULL, resource TEXT NOT NULL, version TEXT NOT NULL, channel TEXT NOT NULL, moment BIGINT,
  at BIGINT NOT NULL, PRIMARY KEY (server, resource, version)) WITHOUT ROWID
"""
# Up to where the history of a type was read for a channel, as the server wrote it.
_EVENT_CURSOR: Final = """
CREATE TABLE event_cursor (
  channel TEXT NOT NULL, type TEXT NOT NULL, at TEXT NOT NULL, PRIMARY KEY (channel, type)) WITHOUT ROWID
"""
WAY_BACK: Final = (_SENT_RESOURCE, _OWN_WRITE, _EVENT_CURSOR, "CREATE INDEX own_write_at ON own_write (at)")

# The form in which the numbers of a FHIR system are searched (`normalise`); empty: as sent.
_NUMBER_FORM: Final = """
CREATE TABLE number_form (system TEXT PRIMARY KEY, form TEXT NOT NULL, since BIGINT NOT NULL) WITHOUT ROWID
"""
NUMBER_FORM: Final = (_NUMBER_FORM,)
