"""Claiming: deliveries that may run now leave in journal order, each heading all its lanes."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

import orjson

from engine.database.connection import Connection, Row, by_name, json_list
from engine.errors import ForbiddenMoveError
from engine.http.request import HttpRequest
from engine.journal.claim.holders import ALONE, Holders
from engine.journal.entry import FEED, Claimed
from engine.journal.file.sealing import Sealing, message_at, request_at
from engine.journal.moment import from_micros, to_micros

# What is held for one of these waits for a person's decision, which a release is.
BY_RELEASE: Final = frozenset({"merge-conflict", "overlay-suspected", "visit-reused", "outcome-unknown"})
# In `replayed`: what a release decided.
ACT: Final = "decided"
# What somebody has decided of a delivery.
DECIDED: Final = "SELECT DISTINCT reason FROM replayed WHERE seq = ? AND destination = ? AND act = ?"


def by_release(reason: str, notes: tuple[str, ...]) -> tuple[str, ...]:
    """Return what a release decides of a delivery that is held: its reason, at the places that its notes name."""
    if reason not in BY_RELEASE:
        return ()
    return tuple(note for note in notes if note.startswith(f"{reason} ")) or (reason,)


def decided_of(connection: Connection, seq: int, destination: str) -> frozenset[str]:
    """Return what somebody has decided of a delivery."""
    rows = connection.execute(DECIDED, (seq, destination, ACT)).fetchall()
    return frozenset(reason for (reason,) in rows)


def with_unfinished(query: str) -> str:
    """Return a query that may read `name`: the destinations that hold something, each one step in the index."""
    return f"""
WITH RECURSIVE name (destination) AS (
  SELECT MIN(destination) FROM delivery WHERE state <> 'delivered'
  UNION ALL
  SELECT (SELECT MIN(d.destination) FROM delivery AS d
    WHERE d.destination > name.destination AND d.state <> 'delivered')
  FROM name WHERE name.destination IS NOT NULL)
{query}"""  # noqa: S608 - constants


# The query that hands out work, in normal running and after a kill. Its rows are read by position: every delivery comes
# this way, and fifteen names would double what reading a row costs.
CLAIM: Final = """
SELECT d.seq, d.lanes, d.tries, d.replay, d.forced, d.settled_by <> '', e.channel, e.source, e.control_id, e.event,
  e.received_at, p.raw, e.sha256, instr(e.flags, '"shadow"'),
  (SELECT MAX(number) FROM attempt AS a WHERE a.seq = d.seq AND a.destination = d.destination)
FROM delivery AS d JOIN entry AS e ON e.seq = d.seq JOIN payload AS p ON p.seq = d.seq
WHERE d.destination = ?1 AND d.state = 'received' AND d.state <> 'delivered' AND (d.due_at IS NULL OR d.due_at <= ?2)
AND d.seq > ?4
ORDER BY d.seq LIMIT ?3
"""
# The index of the time of receipt in such a row.
RECEIVED_AT: Final = 10
# The states of what may be taken in the order of the feed: `waiting` is behind what is taken with it.
RUNNABLE: Final = frozenset({"received", "waiting"})
# How long a delivery is left to the node that had its lanes last, and how many such are looked at in one go.
PATIENCE: Final = timedelta(seconds=1)
MOST_LEFT: Final = 256
# For probes: the same, of those tried least. Chosen first, so that no bodies are sorted.
LEAST_TRIED: Final = CLAIM.replace(
    "AND d.seq > ?4\nORDER BY d.seq LIMIT ?3",
    """AND d.seq IN (SELECT seq FROM delivery
    WHERE destination = ?1 AND state = 'received' AND state <> 'delivered' AND (due_at IS NULL OR due_at <= ?2)
    ORDER BY tries, seq LIMIT ?3)
ORDER BY d.tries, d.seq""",
)
# Of what a destination gets in the order of the feed, the first: its state, when it is due, and whether something
# older of its patients is ahead that is in no such order.
RUN: Final = """
SELECT q.seq, d.state, d.due_at, EXISTS (SELECT 1 FROM json_each(d.lanes) AS mine WHERE mine.value <> 0 AND EXISTS (
  SELECT 1 FROM queue AS o WHERE o.destination = q.destination AND o.lane = mine.value AND o.seq < q.seq
  AND NOT EXISTS (SELECT 1 FROM queue AS f
    WHERE f.destination = q.destination AND f.lane = 0 AND f.seq = o.seq LIMIT 1 OFFSET 0)
  LIMIT 1 OFFSET 0))
FROM queue AS q JOIN delivery AS d ON d.seq = q.seq AND d.destination = q.destination
WHERE q.destination = ? AND q.lane = 0 ORDER BY q.seq LIMIT ?
"""
# What may run of a destination that gets the rest in the order of the feed, and is in no such order itself: it came, or
# was delivered first, when the destination had another one.
OUTSIDE: Final = CLAIM.replace(
    "AND d.seq > ?4",
    """AND d.seq > ?4 AND NOT EXISTS (SELECT 1 FROM queue AS f
    WHERE f.destination = ?1 AND f.lane = 0 AND f.seq = d.seq LIMIT 1 OFFSET 0)""",
)
# The same work as of CLAIM, by numbers: each of it goes out with what is ahead of it.
CLAIM_RUN: Final = CLAIM.replace(
    """AND d.state = 'received' AND d.state <> 'delivered' AND (d.due_at IS NULL OR d.due_at <= ?2)
AND d.seq > ?4
ORDER BY d.seq LIMIT ?3""",
    "AND d.seq IN (SELECT value FROM json_each(?2)) ORDER BY d.seq",
)
# What waits behind a delivery in its one lane, oldest first, with its state and whether it has a time.
BEHIND: Final = CLAIM_RUN.replace(
    "\nFROM delivery AS d", ",\n  d.state, d.due_at IS NOT NULL\nFROM delivery AS d"
).replace(
    "(SELECT value FROM json_each(?2)) ORDER BY d.seq",
    "(SELECT seq FROM queue WHERE destination = ?1 AND lane = ?2 AND seq > ?3 ORDER BY seq LIMIT ?4) ORDER BY d.seq",
)
# Take such deliveries for one worker, which sends them one after the other.
TAKE_RUN: Final = """
UPDATE delivery SET state = 'claimed', holder = ?
WHERE destination = ? AND seq IN (SELECT value FROM json_each(?)) AND state IN ('received', 'waiting')
"""
# Take deliveries for a worker; another node's claim that came first holds.
TAKE: Final = """
UPDATE delivery SET state = 'claimed', holder = ?
WHERE destination = ? AND seq IN (SELECT value FROM json_each(?)) AND state = 'received'
"""
# Let go of what was taken and not begun, or not ended when the engine died: it waits where an older one is ahead.
GIVE_BACK: Final = """
UPDATE delivery SET state = CASE WHEN EXISTS (SELECT 1 FROM json_each(delivery.lanes) AS mine WHERE EXISTS (
    SELECT 1 FROM queue AS q
    WHERE q.destination = delivery.destination AND q.lane = mine.value AND q.seq < delivery.seq LIMIT 1 OFFSET 0))
  THEN 'waiting' ELSE 'received' END
WHERE destination = ? AND state = 'claimed' AND state <> 'delivered'
"""
# What a node that is no more had taken goes back.
GIVE_UP: Final = f"{GIVE_BACK}AND holder IN (SELECT value FROM json_each(?))"  # noqa: S608 - constants
# The destinations that hold something not delivered.
DESTINATIONS: Final = with_unfinished("SELECT destination FROM name WHERE destination IS NOT NULL")
# What was claimed ahead and never begun goes back to where it was.
GIVE_SOME_BACK: Final = f"{GIVE_BACK}AND seq IN (SELECT value FROM json_each(?))"  # noqa: S608 - constants
# The newest request of a delivery whose answer is not known: it may have been applied.
OPEN_INTENT: Final = """
SELECT number, method, url, query, headers, body, at FROM attempt AS a WHERE seq = ? AND destination = ?
AND NOT EXISTS (SELECT 1 FROM answer WHERE attempt = a.id) ORDER BY number DESC LIMIT 1
"""
# When the next retry of a destination falls due.
NEXT_DUE: Final = """
SELECT MIN(due_at) FROM delivery WHERE destination = ? AND due_at IS NOT NULL AND state = 'received'
"""


class Out(NamedTuple):
    """A delivery that is claimed: its lanes as they are now, and whether it was claimed with an open intent."""

    lanes: tuple[int, ...]
    ambiguous: bool


class PrefetchRequest(NamedTuple):
    """How many deliveries due by `now` a destination still wants to claim ahead; `run`: one after the other."""

    limit: int
    now: datetime
    run: bool


class Prefetch(NamedTuple):
    """Deliveries that a destination claims ahead, and how many more it will still be given."""

    destination: str
    claims: tuple[Claimed, ...]
    left: int


class WaitingDelivery(NamedTuple):
    """A delivery behind another one of its lane, as it would be claimed; `timed`: it has a time that it waits for."""

    claimed: Claimed
    state: str
    timed: bool


class Claims:
    """Hands deliveries out and knows which are out; lives in the writer thread.

    A destination that asked for more than there was gets the rest as it comes (`supply`), without asking again.

    What is out is known here for certain; the state in the file serves readers, and may be behind after a rollback.
    Normally the head of its lanes is alone in them. After lanes were united, or something older is replayed, a later
    delivery may still be out: then the head waits for it here.
    """

    def __init__(self, connection: Connection, sealing: Sealing | None = None, holder: int = ALONE) -> None:
        self._connection = connection
        self._sealing = sealing
        self._holders = Holders(connection, holder)
        self.holder = holder
        self._out: dict[str, dict[int, Out]] = {}
        self._undo: list[tuple[str, int, Out | None]] = []
        self._demand: dict[str, PrefetchRequest] = {}
        self._demand_before: dict[str, PrefetchRequest] = {}
        self._new: dict[str, list[Claimed]] = {}
        self._has_runnable = False
        self._peers_may_run = False
        self._passed_over: set[str] = set()

    def confirmed(self) -> None:
        """Note that a batch has been carried out."""
        self._undo.clear()
        self._demand_before = self._demand

    def withdrawn(self) -> None:
        """Go back to what was so before the batch."""
        while self._undo:
            destination, seq, before = self._undo.pop()
            if before is None:
                self._out[destination].pop(seq, None)
            else:
                self._out[destination][seq] = before
        self._demand = self._demand_before
        self._new = {}
        self._has_runnable = True

    def recover(self, holders: Sequence[int] = (ALONE,)) -> int:
        """Take back what processes that are no more had claimed, and return how much.

        What they had under way is found by its open intents.
        """
        gone, count = json_list(holders), 0
        for (destination,) in self._connection.execute(DESTINATIONS).fetchall():
            count += self._connection.execute(GIVE_UP, (destination, gone)).rowcount
        self._has_runnable = self._has_runnable or bool(count)
        self._holders.forget()
        return count

    def catch_up(self) -> None:
        """Read the lanes of what is out anew: another node has united some."""
        for destination, out in self._out.items():
            for seq, lanes in self._holders.own(destination).items() if out else ():
                if seq in out:
                    out[seq] = out[seq]._replace(lanes=lanes)

    def ask(self, destination: str, limit: int, now: datetime, *, run: bool = False) -> Prefetch:
        """Return up to `limit` deliveries that may run now; the rest is supplied once it may run. As `claim`."""
        found = self.claim(destination, limit, now, run=run)
        return self._supplied(destination, found, PrefetchRequest(limit, now, run))

    def supply(self) -> list[Prefetch]:
        """Return what may run now of what was asked for before."""
        new, self._new = self._new, {}
        has_runnable, self._has_runnable = self._has_runnable, False
        supplied = []
        for name, one in self._demand.items():
            claims = self._holders.had(name, tuple(new.get(name, ())))
            if has_runnable and len(claims) < one.limit:
                claims += self.claim(name, one.limit - len(claims), one.now, run=one.run)
            if claims:
                supplied.append(self._supplied(name, claims, one))
        return supplied

    @property
    def is_asked(self) -> bool:
        """Whether any destination waits for something to come."""
        return any(one.limit > 0 for one in self._demand.values())

    def notify_local(self) -> None:
        """Note that a delivery left by another node may run here now."""
        self._has_runnable = True

    def mark_runnable(self) -> None:
        """Note that a delivery may run now, here or at another node."""
        self._has_runnable = self._peers_may_run = True

    def notify_peers(self) -> None:
        """Note that a delivery may run for which no destination of this node waits."""
        self._peers_may_run = True

    def offers(self) -> bool:
        """Return and reset whether other nodes have a delivery to take."""
        peers_may_run, self._peers_may_run = self._peers_may_run, False
        return peers_may_run

    def forget(self) -> None:
        """Read anew who had which lane last: other nodes may have changed it, or what this one wrote was undone."""
        self._holders.forget()

    def elsewhere(self, destination: str, lanes: Iterable[int]) -> set[int]:
        """Return those of some lanes that another node had last which is still there: it goes first."""
        return self._holders.elsewhere(destination, lanes)

    def waits(self, destination: str) -> bool:
        """Say whether a destination waits for the next delivery that comes."""
        demand = self._demand.get(destination)
        return demand is not None and len(self._new.get(destination, ())) < demand.limit

    def give_new(self, claim: Claimed) -> None:
        """Note that a destination that waits for it gets a delivery which is about to be written as claimed."""
        self._new.setdefault(claim.destination, []).append(claim)
        self._note_out(claim)

    def _note_out(self, claim: Claimed) -> None:
        self._undo.append((claim.destination, claim.seq, None))
        self._out.setdefault(claim.destination, {})[claim.seq] = Out(claim.lanes, claim.open_intent is not None)

    def _supplied(self, destination: str, claims: tuple[Claimed, ...], demand: PrefetchRequest) -> Prefetch:
        left = demand.limit - len(claims)
        self._demand = self._demand | {destination: demand._replace(limit=left)}
        return Prefetch(destination, claims, left)

    def claim(
        self, destination: str, limit: int, now: datetime, *, least_tried: bool = False, run: bool = False
    ) -> tuple[Claimed, ...]:
        """Return up to `limit` deliveries that may run now, oldest first, or those tried least.

        `run`: those of the lane FEED from its head on, as one process may send them: one after the other, and none
        while another node has something of the destination out.
        """
        if not run:
            return self._heads(destination, limit, now, least_tried=least_tried)
        if self._holders.taken(destination):
            return ()
        claims = self._heads(destination, limit, now, outside=True)
        return claims + self._run(destination, limit - len(claims), now)

    def _heads(
        self, destination: str, limit: int, now: datetime, *, least_tried: bool = False, outside: bool = False
    ) -> tuple[Claimed, ...]:
        """Return what heads all its lanes; `outside`: of what is not in the lane FEED."""
        out = self._out.setdefault(destination, {})
        busy = {lane for one in out.values() for lane in one.lanes}
        busy.update(lane for lanes in self._holders.taken(destination).values() for lane in lanes)
        claims: list[Claimed] = []
        left: list[Claimed] = []
        self._passed_over.discard(destination)
        query = OUTSIDE if outside else CLAIM
        for page in self._pages(query, destination, limit, limit + len(out), to_micros(now), least_tried=least_tried):
            found = [(row, tuple(orjson.loads(row[1]))) for row in page]
            elsewhere = self._holders.elsewhere(destination, (lane for _, lanes in found for lane in lanes))
            for row, lanes in found:
                if row[0] in out or not busy.isdisjoint(lanes):
                    self._passed_over.add(destination)
                elif elsewhere.isdisjoint(lanes):
                    claims.append(self._claimed(destination, row, lanes))
                elif row[RECEIVED_AT] < to_micros(now - PATIENCE):
                    left.append(self._claimed(destination, row, lanes))
                if len(claims) >= limit:
                    break
            if len(claims) >= limit or len(left) >= MOST_LEFT:
                break
        claims += left[: limit - len(claims)]
        if claims:
            for claim in claims:
                self._note_out(claim)
            wanted = json_list([claim.seq for claim in claims])
            self._connection.execute(TAKE, (self.holder, destination, wanted))
        return self._holders.had(destination, tuple(claims))

    def _run(self, destination: str, limit: int, now: datetime) -> tuple[Claimed, ...]:
        """Return what follows in the lane FEED up to what waits for its time, is held, or is another node's."""
        out = self._out.setdefault(destination, {})
        seqs: list[int] = []
        due = to_micros(now)
        for seq, state, due_at, is_behind in self._connection.execute(RUN, (destination, limit + len(out))).fetchall():
            if seq in out:
                continue
            if state not in RUNNABLE or (due_at is not None and due_at > due) or is_behind or len(seqs) >= limit:
                break
            seqs.append(seq)
        if not seqs:
            return ()
        wanted = json_list(seqs)
        rows = self._connection.execute(CLAIM_RUN, (destination, wanted)).fetchall()
        left = self._holders.elsewhere(destination, (FEED,))
        if left and rows[0][RECEIVED_AT] >= to_micros(now - PATIENCE):
            return ()
        claims = tuple(self._claimed(destination, row, tuple(orjson.loads(row[1]))) for row in rows)
        for claim in claims:
            self._note_out(claim)
        self._connection.execute(TAKE_RUN, (self.holder, destination, wanted))
        return self._holders.had(destination, claims)

    def _pages(
        self, query: str, destination: str, wanted: int, most: int, now: int, *, least_tried: bool
    ) -> Iterator[list[tuple[Any, ...]]]:
        """Yield what may run: as many as are wanted, then more and more, as a database may send all it is asked for."""
        if least_tried:
            yield self._connection.execute(LEAST_TRIED, (destination, now, most)).fetchall()
            return
        after, count = 0, wanted
        while True:
            rows = self._connection.execute(query, (destination, now, count, after)).fetchall()
            yield rows
            if len(rows) < count:
                return
            after, count = rows[-1][0], count * 4

    def _claimed(self, destination: str, row: tuple[Any, ...], lanes: tuple[int, ...]) -> Claimed:
        (
            seq, _lanes, tries, replay, forced, released, channel, source, control_id, event, received_at, raw, digest,
            shadow, made,
        ) = row  # fmt: skip
        intent = self._open_intent(seq, destination) if made else None
        if self._sealing is not None:
            raw = self._sealing.legible(raw, message_at(seq))
        return Claimed(
            seq, destination, raw, channel, source, control_id, event, from_micros(received_at), made or 0, tries,
            intent, lanes, bool(replay), bool(forced), bool(released), digest, bool(shadow),
            decided=decided_of(self._connection, seq, destination) if released else frozenset(),
        )  # fmt: skip

    def _open_intent(self, seq: int, destination: str) -> HttpRequest | None:
        row = by_name(self._connection, OPEN_INTENT, (seq, destination)).fetchone()
        return None if row is None else request_of(self._sealing, seq, destination, row)

    def is_out(self, seq: int, destination: str) -> bool:
        """Say whether a delivery is claimed and not yet settled."""
        return seq in self._out.get(destination, {})

    def goes_ahead(self, seq: int, destination: str, lanes: Sequence[int]) -> bool:
        """Say whether something newer than an entry is out in one of these lanes, at this node or another."""
        mine = set(lanes)
        out = {other: one.lanes for other, one in self._out.get(destination, {}).items()}
        out |= self._holders.taken(destination)
        return any(other > seq and not mine.isdisjoint(theirs) for other, theirs in out.items())

    def returned(self, seq: int, destination: str) -> Out:
        """Note that a delivery is settled; ForbiddenMoveError where it is not claimed."""
        out = self._out.get(destination, {}).pop(seq, None)
        if out is None:
            raise ForbiddenMoveError(f"entry {seq} is not claimed for {destination}")
        self._undo.append((destination, seq, out))
        if destination in self._passed_over:
            self._has_runnable = True
        return out

    def behind(self, head: Claimed, most: int) -> tuple[WaitingDelivery, ...]:
        """Return what waits behind a claimed delivery in its one lane, oldest first, at most so many."""
        asked = head.destination, head.lanes[0], head.seq, most
        rows = self._connection.execute(BEHIND, asked).fetchall()
        found = [(self._claimed(head.destination, row[:-2], tuple(orjson.loads(row[1]))), row[-2:]) for row in rows]
        return tuple(WaitingDelivery(claimed, state, bool(timed)) for claimed, (state, timed) in found)

    def claim_behind(self, head: Claimed, wanted: Sequence[Claimed]) -> tuple[Claimed, ...]:
        """Claim what comes next in a lane, for the worker that has its head; nothing if the lane is another by now."""
        out = self._out.get(head.destination, {})
        now = self.behind(head, len(wanted)) if out[head.seq].lanes == head.lanes else ()
        same = [(one.claimed.seq, one.claimed.lanes) for one in now if one.state == "waiting"]
        if same != [(one.seq, head.lanes) for one in wanted]:
            return ()
        for claim in wanted:
            self._note_out(claim)
        seqs = json_list([claim.seq for claim in wanted])
        self._connection.execute(TAKE_RUN, (self.holder, head.destination, seqs))
        return tuple(replace(claim, foreign=head.foreign) for claim in wanted)

    def give_back(self, destination: str, seqs: Sequence[int]) -> None:
        """Note that deliveries which were claimed are not begun and no longer out; none is supplied until asked for."""
        self._demand = {name: one for name, one in self._demand.items() if name != destination}
        self.put_back(destination, seqs)

    def put_back(self, destination: str, seqs: Sequence[int]) -> None:
        """Note that deliveries which were claimed are no longer out."""
        for seq in seqs:
            self.returned(seq, destination)
        self._connection.execute(GIVE_SOME_BACK, (destination, json_list(seqs)))

    def joined(self, gone: frozenset[int], into: int) -> None:
        """Note that lanes went into another one."""
        self._holders.united(into)
        for destination, out in self._out.items():
            for seq, one in out.items():
                if not gone.isdisjoint(one.lanes):
                    self._undo.append((destination, seq, one))
                    lanes = tuple(sorted({into if each in gone else each for each in one.lanes}))
                    out[seq] = Out(lanes, one.ambiguous)

    def next_due(self, destination: str) -> datetime | None:
        """Return when the next retry of a destination falls due; None where none is waited for."""
        due = self._connection.execute(NEXT_DUE, (destination,)).fetchone()[0]
        return None if due is None else from_micros(due)


def request_of(sealing: Sealing | None, seq: int, destination: str, row: Row) -> HttpRequest:
    """Return a request of an entry from its row in `attempt`; what the disk changed is left empty."""
    query, headers, body = row["query"], row["headers"], row["body"]
    if sealing is not None:
        place = request_at(seq, destination, row["number"])
        headers = sealing.legible_text(headers, place)
        query, body = sealing.legible(query, place), sealing.legible(body, place)
    asked = f"?{bytes(query).decode()}" if query else ""
    listed = tuple((name, value) for name, value in orjson.loads(headers or b"[]"))
    return HttpRequest(row["number"], row["method"], row["url"] + asked, listed, body, from_micros(row["at"]))
