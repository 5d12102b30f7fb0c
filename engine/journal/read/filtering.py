"""Filters as SQL: for each the streams of an index that hold what it lets through, and the condition that proves it.

A filter that lets most through has no stream; what is asked together is walked along the shortest stream of all.
"""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from engine.config.text import entry_of_own
from engine.database.connection import Connection, json_list
from engine.journal.claim.claiming import DESTINATIONS
from engine.journal.entry import FAILED, FAILED_STATES, State, StateFilter
from engine.journal.moment import to_micros
from engine.journal.read.streams import Stream
from engine.journal.read.views import Filters

MOST_FEEDS: Final = 2000
MOST_SORTED: Final = 20_000
MOST_CODES: Final = 500
# What is appended to a code makes the end of a range that holds this code alone. PostgreSQL keeps no NUL.
END: Final = "\x01"
LAST: Final = "\U0010ffff"

BELOW: Final = "seq < ? AND seq >= ? ORDER BY seq DESC"
# Every entry.
ALL: Final = Stream(f"SELECT seq FROM entry WHERE {BELOW}")  # noqa: S608 - constants

# What came in on a channel from a source with an event.
FEED: Final = f"""
SELECT seq FROM entry INDEXED BY entry_feed WHERE channel = ? AND source = ? AND event = ? AND {BELOW}
"""  # noqa: S608 - constants
# The next channel, source and event that messages came with.
NEXT_FEED: Final = """
SELECT channel, source, event FROM entry INDEXED BY entry_feed WHERE (channel, source, event) >= (?, ?, ?)
ORDER BY channel, source, event LIMIT 1
"""
# The same, after one of them.
FEED_AFTER: Final = NEXT_FEED.replace(">=", ">")
# Entries of a visit.
VISIT: Final = f"SELECT seq FROM entry INDEXED BY entry_visit WHERE visit = ? AND visit <> '' AND {BELOW}"  # noqa: S608 - constants
# Not in the order of an index; only asked where there are few.
CONTROL: Final = f"SELECT seq FROM entry INDEXED BY entry_control WHERE control_id = ? AND {BELOW}"  # noqa: S608 - constants
# The entry of a number, if a relay has sent it: under a number of the engine's own it may have been.
SENT_AS: Final = f"""
SELECT seq FROM entry WHERE seq = ?
AND EXISTS (SELECT 1 FROM attempt AS a WHERE a.seq = entry.seq AND a.method = 'MLLP') AND {BELOW}
"""  # noqa: S608 - constants
# The same of an entry `e`, or its own control id.
HAS_CONTROL: Final = """
(e.control_id = ? OR (e.seq = ? AND EXISTS (SELECT 1 FROM attempt AS a WHERE a.seq = e.seq AND a.method = 'MLLP')))
"""
# How many entries share a control id, up to a bound.
CONTROLS: Final = """
SELECT COUNT(*) FROM (SELECT 1 FROM entry INDEXED BY entry_control WHERE control_id = ? LIMIT ?) AS same
"""
# Entries that stand in a state at a destination.
STATE: Final = f"""
SELECT seq FROM delivery INDEXED BY delivery_open
WHERE destination = ? AND state = ? AND state <> 'delivered' AND {BELOW}
"""  # noqa: S608 - constants
# Entries that the door left in a state.
STATE_AT_DOOR: Final = f"""
SELECT seq FROM entry INDEXED BY entry_door WHERE state = ? AND state <> 'received' AND {BELOW}
"""  # noqa: S608 - constants
# Deliveries that ended for a reason.
REASON: Final = f"""
SELECT seq FROM delivery INDEXED BY delivery_reason WHERE reason = ? AND reason <> '' AND {BELOW}
"""  # noqa: S608 - constants
# Entries that the door refused, filtered or held for a reason.
REASON_AT_DOOR: Final = f"""
SELECT seq FROM entry INDEXED BY entry_reason WHERE reason = ? AND reason <> '' AND {BELOW}
"""  # noqa: S608 - constants
# Entries that bear a note.
NOTED: Final = f"SELECT seq FROM noted WHERE code = ? AND {BELOW}"  # noqa: S608 - constants
# The codes of a range, each found by one step in the index.
CODES: Final = """
WITH RECURSIVE found (code) AS (
  SELECT MIN(code) FROM noted WHERE code >= ?1 AND code < ?2
  UNION ALL
  SELECT (SELECT MIN(n.code) FROM noted AS n WHERE n.code > found.code AND n.code < ?2) FROM found
  WHERE found.code IS NOT NULL)
SELECT code FROM found WHERE code IS NOT NULL LIMIT ?3
"""
# Entries that name an identity.
NAMED: Final = f"SELECT seq FROM named_in WHERE identity = ? AND {BELOW}"  # noqa: S608 - constants
# An identity by its key.
BY_KEY: Final = "SELECT identity FROM lane_of WHERE key = ?"
# Identities by their value, in any system.
BY_VALUE: Final = """
SELECT identity FROM lane_of INDEXED BY lane_of_value WHERE substr(key, instr(key, '|') + 1) = ? ORDER BY identity
"""

# The state of an entry: that of its least finished delivery, or as intake left it.
STATE_NOW: Final = """
COALESCE((SELECT d.state FROM delivery AS d WHERE d.seq = e.seq ORDER BY CASE d.state
  WHEN 'waiting' THEN 0 WHEN 'received' THEN 1 WHEN 'claimed' THEN 2 WHEN 'held' THEN 3 WHEN 'rejected' THEN 4
  WHEN 'discarded' THEN 5 WHEN 'delivered' THEN 6 ELSE 7 END LIMIT 1), e.state)
"""
# Whether an entry is held, at a destination or on arrival, or rejected at a destination.
HAS_FAILED: Final = """
(e.state = 'held' OR EXISTS (SELECT 1 FROM delivery AS d WHERE d.seq = e.seq AND d.state IN ('held', 'rejected')))
"""
# Whether an entry has a reason, at the door or at a destination.
HAS_REASON: Final = """
(e.reason = ? OR EXISTS (SELECT 1 FROM delivery AS d WHERE d.seq = e.seq AND d.reason = ?))
"""
# Whether a text is a code, or goes on from it.
_IS_CODE: Final = "(f.atom = ? OR substr(f.atom, 1, ?) IN (?, ?))"
# Whether an entry bears a code: as a flag, a note, or in an answer.
HAS_OUTCOME: Final = f"""
(EXISTS (SELECT 1 FROM json_each(e.flags) AS f WHERE {_IS_CODE})
 OR EXISTS (SELECT 1 FROM delivery AS d CROSS JOIN json_each(d.notes) AS f
   WHERE d.seq = e.seq AND d.notes <> '[]' AND {_IS_CODE})
 OR EXISTS (SELECT 1 FROM attempt AS a CROSS JOIN answer AS r CROSS JOIN json_each(r.codes) AS f
   WHERE a.seq = e.seq AND r.attempt = a.id AND r.codes <> '[]' AND f.atom = ?)
 OR EXISTS (SELECT 1 FROM follow_up AS u WHERE u.seq = e.seq AND u.reason = ?))
"""  # noqa: S608 - constants
# Whether an entry names one of the identities (a JSON list).
IS_NAMED: Final = """
EXISTS (SELECT 1 FROM json_each(?) AS who CROSS JOIN named_in AS n WHERE n.identity = who.value AND n.seq = e.seq)
"""


class SqlCondition(NamedTuple):
    """What must hold of an entry `e`."""

    sql: str
    values: tuple[Any, ...]


class StreamFilter(NamedTuple):
    """One filter: the streams that hold all that it lets through (None: too many to name), and its condition in SQL."""

    streams: tuple[Stream, ...] | None
    condition: SqlCondition | None


def wanted(connection: Connection, filters: Filters) -> Iterator[StreamFilter]:
    """Yield each filter that is set, but for full text; those that let least through first, as far as one can know."""
    if filters.patient:
        yield _patient(connection, filters.patient)
    if filters.visit:
        condition = SqlCondition("e.visit = ?", (filters.visit,))
        yield StreamFilter((Stream(VISIT, (filters.visit,)),), condition)
    if filters.control_id:
        yield _control(connection, filters.control_id)
    if filters.outcome:
        yield _outcome(connection, filters.outcome)
    if filters.reason:
        streams = (Stream(REASON, (filters.reason,)), Stream(REASON_AT_DOOR, (filters.reason,)))
        yield StreamFilter(streams, SqlCondition(HAS_REASON, (filters.reason, filters.reason)))
    if filters.state is not None:
        yield _state(connection, filters.state)
    if filters.channel or filters.source or filters.event:
        yield _feed(connection, filters)
    if filters.since is not None:
        yield StreamFilter(None, SqlCondition("e.received_at >= ?", (to_micros(filters.since),)))
    if filters.until is not None:
        yield StreamFilter(None, SqlCondition("e.received_at < ?", (to_micros(filters.until),)))


def codes(connection: Connection, code: str) -> list[str]:
    """Return the notes that are a code, or go on from it with a place (`unmapped-code PID-8`) or a count (`x: 3`)."""
    ranges = ((code, f"{code}{END}"), (f"{code} ", f"{code}!"), (f"{code}:", f"{code};"))
    return [found for low, high in ranges for (found,) in connection.execute(CODES, (low, high, MOST_CODES)).fetchall()]


def feeds(connection: Connection, filters: Filters) -> list[tuple[str, str, str]] | None:
    """Return every channel, source and event that messages came with and the filters let through; None: too many.

    What the filters do not let through is stepped over in the index.
    """
    asked = (filters.channel, filters.source, filters.event)
    found: list[tuple[str, str, str]] = []
    at, next_feed = asked, NEXT_FEED
    for _ in range(MOST_FEEDS):
        row = connection.execute(next_feed, at).fetchone()
        if row is None:
            return found
        place = next((place for place in range(3) if asked[place] and row[place] != asked[place]), None)
        if place is None:
            found.append(row)
            at, next_feed = row, FEED_AFTER
        elif row[place] < asked[place]:
            at, next_feed = (*row[:place], asked[place], "", "")[:3], NEXT_FEED
        else:
            at, next_feed = (*row[:place], LAST, LAST, LAST)[:3], NEXT_FEED
    return None


def _patient(connection: Connection, patient: str) -> StreamFilter:
    found = connection.execute(BY_KEY if "|" in patient else BY_VALUE, (patient,)).fetchall()
    identities = [identity for (identity,) in found]
    streams = tuple(Stream(NAMED, (identity,)) for identity in identities)
    return StreamFilter(streams, SqlCondition(IS_NAMED, (json_list(identities),)))


def _control(connection: Connection, control_id: str) -> StreamFilter:
    count = connection.execute(CONTROLS, (control_id, MOST_SORTED)).fetchone()[0]
    streams = (Stream(CONTROL, (control_id,)),) if count < MOST_SORTED else None
    own = entry_of_own(control_id)
    if own is None:
        return StreamFilter(streams, SqlCondition("e.control_id = ?", (control_id,)))
    both = None if streams is None else (*streams, Stream(SENT_AS, (own,)))
    return StreamFilter(both, SqlCondition(HAS_CONTROL, (control_id, own)))


def _outcome(connection: Connection, code: str) -> StreamFilter:
    found = codes(connection, code)
    streams = tuple(Stream(NOTED, (one,)) for one in found) if len(found) < MOST_CODES else None
    is_code = (code, len(code) + 1, f"{code} ", f"{code}:")
    return StreamFilter(streams, SqlCondition(HAS_OUTCOME, (*is_code, *is_code, code, code)))


def _state(connection: Connection, state: StateFilter) -> StreamFilter:
    if state == FAILED:
        names = [name for (name,) in connection.execute(DESTINATIONS).fetchall()]
        failed = [Stream(STATE, (name, one.value)) for name in names for one in sorted(FAILED_STATES)]
        return StreamFilter((*failed, Stream(STATE_AT_DOOR, (State.HELD.value,))), SqlCondition(HAS_FAILED, ()))
    condition = SqlCondition(f"{STATE_NOW} = ?", (str(state),))
    if state is State.DELIVERED:
        return StreamFilter(None, condition)
    destinations = connection.execute(DESTINATIONS).fetchall()
    streams = [Stream(STATE, (destination, str(state))) for (destination,) in destinations]
    return StreamFilter((*streams, Stream(STATE_AT_DOOR, (str(state),))), condition)


def _feed(connection: Connection, filters: Filters) -> StreamFilter:
    pairs = (("e.channel", filters.channel), ("e.source", filters.source), ("e.event", filters.event))
    named = [(column, value) for column, value in pairs if value]
    condition = SqlCondition(" AND ".join(f"{column} = ?" for column, _ in named), tuple(value for _, value in named))
    found = feeds(connection, filters)
    return StreamFilter(None if found is None else tuple(Stream(FEED, feed) for feed in found), condition)
