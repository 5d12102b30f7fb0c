"""Recording: messages become entries with deliveries and places in their lanes; duplicates are recognised."""

from dataclasses import replace
from hashlib import sha256
from typing import Any, Final

from engine.database.connection import Connection, json_list, together
from engine.journal.claim.claiming import Claims
from engine.journal.claim.holders import ALONE
from engine.journal.claim.lanes import Lanes
from engine.journal.entry import FEED, SHADOW, Claimed, NewEntry, Recorded, State
from engine.journal.file.sealing import Sealing, message_at
from engine.journal.moment import optional_micros, to_micros
from engine.journal.row_digest import of_delivery
from engine.journal.state.counters import NOTE, Arrivals
from engine.journal.state.tally import NameLimit
from engine.journal.write.duplicates import Duplicates, Earlier, feed, fingerprint

CROWDED: Final = "lane-crowded"

# The newest entry's number.
LAST: Final = "SELECT COALESCE(MAX(seq), 0) FROM entry"

# A message came once more.
COUNT_RECEIPT: Final = "UPDATE entry SET receipts = receipts + 1 WHERE seq = ?"

# A message as it was judged at the door.
ENTRY: Final = """
INSERT INTO entry (seq, channel, peer, source, control_id, event, version, visit, event_at, received_at, state, reason,
  flags, ack_code, ack_outcome, sha256, fingerprint, mapping, batch, parent, patients)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
# Its bytes and its acknowledgement: the body, which retention takes first.
PAYLOAD: Final = "INSERT INTO payload (seq, raw, acknowledgement) VALUES (?, ?, ?)"
# Find entries by identities that they name.
NAMED: Final = "INSERT INTO named_in (identity, seq) VALUES (?, ?)"
# The same, of an entry that may name them already.
NAMED_AGAIN: Final = "INSERT INTO named_in (identity, seq) VALUES (?, ?) ON CONFLICT DO NOTHING"
# A place in the queue of a lane.
QUEUE: Final = "INSERT INTO queue (destination, lane, seq) VALUES (?, ?, ?)"

# Which of the places at hand, a JSON list of [destination, lane, entry], have something older ahead in the queue.
BLOCKED: Final = """
SELECT place.key FROM json_each(?) AS place WHERE EXISTS (SELECT 1 FROM queue
  WHERE destination = place.value ->> 0 AND lane = CAST(place.value ->> 1 AS BIGINT)
  AND seq < CAST(place.value ->> 2 AS BIGINT) LIMIT 1 OFFSET 0)
"""
# A delivery in its lanes.
# It has a checksum from the start: a row that grows when it is settled moves others of its page.
DELIVERY: Final = (
    "INSERT INTO delivery (seq, destination, lanes, state, holder, due_at, crc) VALUES (?, ?, ?, ?, ?, ?, ?)"
)

# What is held for want of demographics is tried again when something comes to its lane: that may bring them. The places
# are a JSON list of [destination, lane] at which something new is queued behind it, from the number given on.
AGAIN: Final = """
UPDATE delivery SET state = 'received'
WHERE (seq, destination) IN (
  SELECT (SELECT MIN(seq) FROM queue
    WHERE destination = place.value ->> 0 AND lane = CAST(place.value ->> 1 AS BIGINT) AND seq < ?2), place.value ->> 0
  FROM json_each(?1) AS place)
AND state = 'held' AND reason = 'missing-required'
AND NOT EXISTS (SELECT 1 FROM json_each(delivery.lanes) AS mine WHERE EXISTS (SELECT 1 FROM queue AS q
  WHERE q.destination = delivery.destination AND q.lane = mine.value AND q.seq < delivery.seq LIMIT 1 OFFSET 0))
RETURNING 1
"""

_Row = tuple[Any, ...]


class Recording:
    """Records batches of messages; lives in the writer thread, inside its transactions."""

    def __init__(self, connection: Connection, lanes: Lanes, claims: Claims, sealing: Sealing | None = None) -> None:
        self._connection = connection
        self._lanes = lanes
        self._claims = claims
        self._sealing = sealing
        self._duplicates = Duplicates(connection)
        self._names = NameLimit()
        self.catch_up()

    def catch_up(self) -> None:
        """Read the newest number anew: another node may have recorded something."""
        self._last = newest_entry(self._connection)

    def record(self, entries: list[NewEntry], *, hand_out: bool = False) -> list[Recorded]:
        """Return what became of each entry, in order; numbers are given in that order.

        `hand_out`: deliveries that may run at once are claimed for those who wait for them.
        """
        digests = [sha256(entry.raw).digest() for entry in entries]
        seen = self._duplicates.seen(entries)
        here: dict[tuple[str, ...], list[Earlier]] = {}
        rows = _BatchRows(self._connection, self._claims, self._names, hand_out=hand_out)
        self._lanes.joining = rows.write_before_lanes_join
        results = []
        for position, (given, digest) in enumerate(zip(entries, digests, strict=True)):
            entry, key = given, feed(given)
            earlier = here.get(key, [])
            known = position in seen
            # What somebody edited came in once already, and is meant to come in again.
            if entry.parent is None and (earlier or known):
                entry, first = self._duplicates.first(entry, digest, earlier, known=known)
                if first is not None:
                    rows.receipts.append((first.seq,))
                    results.append(first)
                    continue
            recorded = self._new(entry, digest, rows)
            results.append(recorded)
            if entry.control_id:
                here.setdefault(key, []).append(Earlier(digest, entry, recorded))
        rows.write()
        return results

    def _new(self, entry: NewEntry, digest: bytes, rows: "_BatchRows") -> Recorded:
        run = entry.state is State.RECEIVED
        if run and not entry.destinations:
            raise ValueError("an entry that is received needs a destination")
        seq = self._last = self._last + 1
        placed = self._lanes.place(entry.patients, unite=entry.unite, run=run)
        if entry.where_known:
            # Earlier entries of this batch count as well.
            rows.write_before_lanes_join()
            entry = replace(
                entry, destinations=(*entry.destinations, *self._lanes.there(placed.lanes, entry.where_known))
            )
        flags = entry.flags
        if placed.crowded:
            flags = (*flags, CROWDED)
        rows.add(seq, self._sealed(entry, seq), digest, placed.identities, flags)
        if run:
            rows.queue(seq, entry, digest, placed.lanes, flags)
        return Recorded(
            seq=seq,
            duplicate=False,
            acknowledgement=entry.acknowledgement,
            ack_code=entry.ack_code,
            state=entry.state,
            flags=flags,
            destinations=entry.destinations,
        )

    def _sealed(self, entry: NewEntry, seq: int) -> NewEntry:
        if self._sealing is None:
            return entry
        self._sealing.prepare(self._connection, entry.received_at)
        raw = self._sealing.seal(entry.raw, message_at(seq))
        return replace(entry, raw=raw, visit=self._sealing.name(entry.visit))


class _BatchRows:
    """The rows of one batch, written table by table."""

    def __init__(self, connection: Connection, claims: Claims, names: NameLimit, *, hand_out: bool) -> None:
        self._connection = connection
        self._claims = claims
        self._hand_out = hand_out
        self.receipts: list[_Row] = []
        self.entries: list[_Row] = []
        self.payloads: list[_Row] = []
        self.named: list[_Row] = []
        self.queued: list[tuple[str, int, int]] = []
        self.deliveries: list[Claimed] = []
        self.due: dict[tuple[str, int], int] = {}
        self.noted: list[_Row] = []
        self.arrivals = Arrivals(names)

    def add(
        self, seq: int, entry: NewEntry, digest: bytes, identities: tuple[int, ...], flags: tuple[str, ...]
    ) -> None:
        received_at = to_micros(entry.received_at)
        self.entries.append(
            (
                seq, entry.channel, entry.peer, entry.source, entry.control_id, entry.event, entry.version, entry.visit,
                optional_micros(entry.event_at), received_at, entry.state.value, entry.reason,
                json_list(flags), entry.ack_code, entry.ack_outcome.value, digest, fingerprint(digest), entry.mapping,
                entry.batch, entry.parent, json_list(identities),
            )
        )  # fmt: skip
        self.payloads.append((seq, entry.raw, entry.acknowledgement))
        self.named.extend([(identity, seq) for identity in identities])
        self.noted.extend([(flag, seq) for flag in flags])
        self.arrivals.add(seq, received_at, entry.channel, entry.state.value, entry.source, entry.event)

    def queue(self, seq: int, entry: NewEntry, digest: bytes, lanes: tuple[int, ...], flags: tuple[str, ...]) -> None:
        shadow = SHADOW in flags
        for name in entry.destinations:
            mine = (FEED, *lanes) if name in entry.in_feed_order else lanes
            if name in entry.due:
                self.due[name, seq] = to_micros(entry.due[name])
            self.queued.extend([(name, lane, seq) for lane in mine])
            self.deliveries.append(
                Claimed(
                    seq, name, entry.raw, entry.channel, entry.source, entry.control_id, entry.event, entry.received_at,
                    0, 0, None, mine, replay=False, forced=False, digest=digest, shadow=shadow,
                )
            )  # fmt: skip

    def write_before_lanes_join(self) -> None:
        """Write what was added, and hand nothing of this batch out before all of it is in the lanes as they will be."""
        self._hand_out = False
        self.write()

    def write(self) -> None:
        """Write what was added."""
        with together(self._connection):
            for statement, rows in (
                (ENTRY, self.entries),
                (PAYLOAD, self.payloads),
                (NAMED, self.named),
                (COUNT_RECEIPT, self.receipts),
                (NOTE, self.noted),
            ):
                if rows:
                    self._connection.executemany(statement, rows)
                    rows.clear()
            self.arrivals.write(self._connection)
            behind = self._behind() if self.queued else []
            if self.deliveries:
                self._write_deliveries(behind)
        if behind:
            self._try_again(behind)
        self.queued.clear()
        self.deliveries.clear()
        self.due.clear()

    def _write_deliveries(self, behind: list[tuple[str, int, int]]) -> None:
        blocked = {(name, seq) for name, _lane, seq in behind}
        elsewhere = {
            name: self._claims.elsewhere(name, (lane for of, lane, _seq in self.queued if of == name))
            for name in dict.fromkeys([name for name, _lane, _seq in self.queued])
        }
        rows = []
        for one in self.deliveries:
            due_at = self.due.get((one.destination, one.seq))
            if (one.destination, one.seq) in blocked:
                state = State.WAITING
            elif due_at is not None:
                state = State.RECEIVED
            else:
                state = self._begun(one, here=elsewhere.get(one.destination, set()).isdisjoint(one.lanes))
            holder = self._claims.holder if state is State.CLAIMED else ALONE
            crc = of_delivery((one.seq, one.destination, ""))
            rows.append((one.seq, one.destination, json_list(one.lanes), state.value, holder, due_at, crc))
        self._connection.executemany(DELIVERY, rows)

    def _begun(self, delivery: Claimed, *, here: bool) -> State:
        """Return the state in which a delivery that heads its lanes begins; `here`: no other node had them last."""
        if not here or not self._claims.waits(delivery.destination):
            self._claims.notify_peers()
            return State.RECEIVED
        if self._hand_out:
            self._claims.give_new(delivery)
            return State.CLAIMED
        self._claims.mark_runnable()
        return State.RECEIVED

    def _behind(self) -> list[tuple[str, int, int]]:
        """Fill the queue, and return those places in it that have something older ahead."""
        self._connection.executemany(QUEUE, self.queued)
        keys = self._connection.execute(BLOCKED, (json_list(self.queued),)).fetchall()
        return [self.queued[key] for (key,) in keys]

    def _try_again(self, behind: list[tuple[str, int, int]]) -> None:
        """Let what is held for want of demographics ahead of these places run again."""
        places = list({(name, lane) for name, lane, _seq in behind})
        if self._connection.execute(AGAIN, (json_list(places), self.queued[0][2])).fetchall():
            self._claims.mark_runnable()


def newest_entry(connection: Connection) -> int:
    """Return the newest entry's number, 0 where there is none."""
    return int(connection.execute(LAST).fetchone()[0])
