"""Duplicates: the same message again, on the same channel, of which an earlier receipt had an effect.

What had none makes no later message one: what was refused or discarded, came in shadow, or was filtered by a rule that
does not filter the message now. Nor does what came in a load, for a message that is live.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

import orjson

from engine.database.connection import Connection, by_name, json_list
from engine.journal.entry import LOAD, SENT_AGAIN, SHADOW, NewEntry, Recorded, State

REUSED: Final = "control-id-reused"

# Which of the control ids at hand (a JSON list of [control id, source, channel]) were seen before. No index but that
# of control ids serves, so that no planner takes another.
SEEN: Final = """
SELECT i.key FROM json_each(?) AS i WHERE EXISTS (
  SELECT 1 FROM entry
  WHERE control_id = i.value ->> 0 AND source || '' = i.value ->> 1 AND channel || '' = i.value ->> 2 LIMIT 1 OFFSET 0)
"""
# Whether a delivery `d` of an entry `e` makes a new message of the same bytes a duplicate: not what was refused or
# discarded, what a rule filtered that does not filter the message now (?6), nor in shadow, unless that is too (?7).
_COUNTS: Final = """
d.state NOT IN ('rejected', 'discarded') AND CASE
  WHEN d.state = 'filtered' AND d.reason <> 'shadow' THEN d.reason = ?6
  WHEN d.state = 'filtered' OR instr(e.flags, '"shadow"') > 0 THEN ?7 = 1
  ELSE true END
"""
_SAME: Final = "e.control_id = ?1 AND e.source = ?2 AND e.channel = ?3 AND e.fingerprint = ?4 AND e.sha256 = ?5"
# The channel's newest receipt of the same bytes that makes a message a duplicate; `?8`: the message is live.
FIRST: Final = f"""
SELECT e.seq, COALESCE(p.acknowledgement, w.acknowledgement) AS acknowledgement, e.ack_code, e.state, e.flags
FROM entry AS e
LEFT JOIN payload AS p ON p.seq = e.seq LEFT JOIN worn AS w ON w.seq = e.seq
WHERE {_SAME}
AND (e.state = 'held' OR (e.state = 'filtered' AND e.reason = ?6)
  OR (e.state = 'received' AND (?8 = 0 OR instr(e.flags, '"in-load"') = 0)
    AND EXISTS (SELECT 1 FROM delivery AS d WHERE d.seq = e.seq AND {_COUNTS})))
ORDER BY e.seq DESC LIMIT 1
"""  # noqa: S608 - constants
# The destinations at which receipts of the same bytes were filtered, and none makes a message a duplicate.
LACKING: Final = f"""
SELECT d.destination FROM entry AS e JOIN delivery AS d ON d.seq = e.seq
WHERE {_SAME} AND e.state = 'received' GROUP BY d.destination
HAVING SUM(CASE WHEN d.state = 'filtered' THEN 1 ELSE 0 END) > 0 AND SUM(CASE WHEN {_COUNTS} THEN 1 ELSE 0 END) = 0
"""  # noqa: S608 - constants
# Whether a control id was used for the same bytes before, and for others.
USED: Final = f"""
SELECT EXISTS (SELECT 1 FROM entry AS e WHERE {_SAME}), EXISTS (
  SELECT 1 FROM entry AS e WHERE e.control_id = ?1 AND e.source = ?2 AND e.channel = ?3
  AND (e.fingerprint <> ?4 OR e.sha256 <> ?5) LIMIT 1 OFFSET 0)
"""  # noqa: S608 - constants
# The least finished state of an entry's deliveries.
LEAST: Final = """
SELECT state FROM delivery WHERE seq = ? ORDER BY CASE state
  WHEN 'waiting' THEN 0 WHEN 'received' THEN 1 WHEN 'claimed' THEN 2 WHEN 'held' THEN 3 WHEN 'rejected' THEN 4
  WHEN 'discarded' THEN 5 WHEN 'delivered' THEN 6 ELSE 7 END LIMIT 1
"""

_Row = tuple[Any, ...]


class Earlier(NamedTuple):
    """A message of the batch at hand: the digest of its bytes, as it was given, and what was made of it."""

    digest: bytes
    entry: NewEntry
    recorded: Recorded


class Duplicates:
    """Looks for earlier receipts of messages; lives in the writer thread, and changes nothing."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def seen(self, entries: Sequence[NewEntry]) -> set[int]:
        """Return the positions of messages whose control id, source and channel were seen before."""
        wanted = json_list([feed(entry) for entry in entries])
        rows = self._connection.execute(SEEN, (wanted,)).fetchall()
        return {key for (key,) in rows if entries[key].control_id}

    def first(
        self, entry: NewEntry, digest: bytes, earlier: Sequence[Earlier], *, known: bool
    ) -> tuple[NewEntry, Recorded | None]:
        """Return the first receipt of a message, as of a duplicate, or None and the message as it is to be recorded.

        `earlier`: those of its control id in the batch; `known`: there are some in the journal. What took effect at
        some destinations and was filtered at others goes to those alone.
        """
        for one in earlier:
            if one.digest == digest and _is_again(one.entry, entry):
                return entry, replace(one.recorded, duplicate=True, flags=(), destinations=())
        given = (*_receipt(entry, digest), *_judged(entry))
        row = by_name(self._connection, FIRST, given).fetchone() if known else None
        if row is None:
            return self._flagged(entry, digest, earlier, known=known), None
        if lacking := self._lacking(entry, given[:7]):
            entry = replace(entry, destinations=lacking, where_known=())
            return self._flagged(entry, digest, earlier, known=known), None
        least = self._connection.execute(LEAST, (row["seq"],)).fetchone()
        found = Recorded(
            seq=row["seq"],
            duplicate=True,
            acknowledgement=row["acknowledgement"],
            ack_code=row["ack_code"],
            state=State(least[0] if least else row["state"]),
            flags=tuple(orjson.loads(row["flags"])),
        )
        return entry, found

    def _lacking(self, entry: NewEntry, given: _Row) -> tuple[str, ...]:
        """Return the destinations of a message at which its earlier receipts had no effect; one had elsewhere."""
        if entry.state is not State.RECEIVED:
            return ()
        lacking = {name for (name,) in self._connection.execute(LACKING, given).fetchall()}
        return tuple(name for name in entry.destinations if name in lacking)

    def _flagged(self, entry: NewEntry, digest: bytes, earlier: Sequence[Earlier], *, known: bool) -> NewEntry:
        flags = self._flags(entry, digest, earlier, known=known)
        return replace(entry, flags=(*entry.flags, *flags))

    def _flags(self, entry: NewEntry, digest: bytes, earlier: Sequence[Earlier], *, known: bool) -> Iterator[str]:
        """Yield the flags of a message that is new although its control id is not."""
        same, other = False, False
        if known:
            same, other = self._connection.execute(USED, _receipt(entry, digest)).fetchone()
        if same or any(one.digest == digest for one in earlier):
            yield SENT_AGAIN
        if other or any(one.digest != digest for one in earlier):
            yield REUSED


def fingerprint(digest: bytes) -> int:
    """Return the part of a SHA-256 that the index holds, as a signed 64-bit number."""
    return int.from_bytes(digest[:8], "big", signed=True)


def feed(entry: NewEntry) -> tuple[str, str, str]:
    """Return what a resend shares with the first receipt, its bytes aside; two channels are two feeds."""
    return entry.control_id, entry.source, entry.channel


def _receipt(entry: NewEntry, digest: bytes) -> tuple[str, str, str, int, bytes]:
    """Return what a resend shares with the first receipt, its bytes among it."""
    return (*feed(entry), fingerprint(digest), digest)


def _judged(entry: NewEntry) -> tuple[str | None, int, int]:
    """Return the rule that filters a message, whether it is in shadow, and whether it is to be delivered live."""
    rule = entry.reason if entry.state is State.FILTERED else None
    shadow = SHADOW in entry.flags
    return rule, int(shadow), int(entry.state is State.RECEIVED and not shadow and LOAD not in entry.flags)


def _is_again(first: NewEntry, entry: NewEntry) -> bool:
    """Say whether a message of the same bytes is a duplicate of one recorded just before, as the statement does."""
    rule, shadow, live = _judged(entry)
    if first.state is not State.RECEIVED:
        return first.state is State.HELD or (first.state is State.FILTERED and first.reason == rule)
    return bool(shadow) if SHADOW in first.flags else not (live and LOAD in first.flags)
