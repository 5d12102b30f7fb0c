"""What those who look for entries go by: indexes, notes by entry, and counts by minute and day.

Nothing here is read while a message is accepted or delivered.
"""

from typing import Final

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

# Acknowledgements written, by how long the sender waited: up to `milliseconds`.
_ANSWERED: Final = """
CREATE TABLE answered (
  at BIGINT NOT NULL, channel TEXT NOT NULL, milliseconds INTEGER NOT NULL, count INTEGER NOT NULL,
  PRIMARY KEY (at, channel, milliseconds)) WITHOUT ROWID
"""

_INDEXES: Final = (
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

STATEMENTS: Final = (_NOTED, _ARRIVED, _ENDED, _ANSWERED, *_INDEXES, *_FILL)
