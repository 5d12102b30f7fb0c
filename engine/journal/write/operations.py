"""What operators do with entries: replay, release, retry, discard; each within the order of the lanes."""

from collections.abc import Callable
from typing import Final

import orjson

from engine.database.connection import Connection, json_list
from engine.errors import ForbiddenMoveError
from engine.journal.claim import claiming
from engine.journal.claim.claiming import Claims
from engine.journal.claim.lanes import DEMOTE, ENTER, Lanes
from engine.journal.entry import FEED, FROM_SHADOW, SHADOW, UNFINISHED, NewEntry, Recorded, State, check_move
from engine.journal.file.sealing import Sealing, edit_at
from engine.journal.moment import optional_micros
from engine.journal.state.counters import NOTE as NOTED
from engine.journal.write.entry_lookup import DeliveryState, EntryLookup, EntryState, OperationRequest
from engine.journal.write.recording import NAMED_AGAIN, Recording
from engine.journal.write.settling import IS_BLOCKED, leave

# Let a delivery run again, in its old place.
AGAIN: Final = """
UPDATE delivery SET state = ?, reason = '', due_at = NULL, lanes = ?, replay = ?, forced = ?, settled_by = ?
WHERE seq = ? AND destination = ?
"""
# Give an entry to a destination that never had it.
GIVE: Final = """
INSERT INTO delivery (state, lanes, replay, forced, settled_by, seq, destination) VALUES (?, ?, 1, ?, ?, ?, ?)
"""
# Try at once what waits for its next try.
DUE_NOW: Final = "UPDATE delivery SET due_at = NULL, settled_by = ? WHERE seq = ? AND destination = ?"
# The next try of all that waits for one at a destination is due at once.
ALL_DUE_NOW: Final = """
UPDATE delivery SET due_at = NULL WHERE destination = ? AND due_at IS NOT NULL AND state = 'received'
"""
# End a delivery without delivering it.
DISCARD: Final = """
UPDATE delivery SET state = 'discarded', reason = ?, settled_by = ?, due_at = NULL WHERE seq = ? AND destination = ?
"""
# End an entry that the door held.
DISCARD_AT_DOOR: Final = "UPDATE entry SET state = 'discarded', reason = ?, settled_by = ? WHERE seq = ?"
# Take in what the door refused, held or filtered, as it was judged anew.
ADMIT: Final = """
UPDATE entry SET state = 'received', reason = '', event = ?, flags = ?, event_at = ?, visit = ?, patients = ?,
  mapping = ?, settled_by = ? WHERE seq = ?
"""
# An entry that came in shadow is delivered from now on.
LET_OUT: Final = "UPDATE entry SET flags = ? WHERE seq = ?"
# Who let a delivery run again, and how it stood before.
NOTE: Final = """
INSERT INTO replayed (seq, destination, act, by, at, run, forced, state, reason, mapping)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
# What an entry was edited from, by whom, and what differs.
EDIT: Final = "INSERT INTO edit (seq, parent, by, at, changes) VALUES (?, ?, ?, ?, ?)"

# What was held for one of these is held again unless somebody says that it may go on all the same.
LET_GO: Final = frozenset({"stale", "merge-limit"})
JUDGED_ANEW: Final = "judged-anew"


class OperatorActions:
    """Carries out operators' operations on entries; lives in the writer thread, inside its transactions.

    An operation that raises has changed nothing: everything is checked before the first write, by `lookup`.
    """

    def __init__(
        self,
        connection: Connection,
        lanes: Lanes,
        claims: Claims,
        recording: Recording,
        sealing: Sealing | None = None,
    ) -> None:
        self._connection = connection
        self._sealing = sealing
        self._lanes = lanes
        self._recording = recording
        self.lookup = EntryLookup(connection, lanes, claims)

    def replay(
        self,
        seq: int,
        destinations: tuple[str, ...],
        asked: OperationRequest,
        give: tuple[str, ...] = (),
        where_known: tuple[str, ...] = (),
        meant: Callable[[DeliveryState], bool] | None = None,
    ) -> int:
        """Deliver an entry again in its old place; return at how many destinations.

        All where it is at its end or held, and that are `meant`, if none is named. `give`: destinations to which it is
        given where it was not before; so is it to those of `where_known` that have one of its patients. What came in
        shadow is delivered from now on. ForbiddenMoveError: it is under way everywhere or was never given to such a
        destination, something newer was applied to a lane of it without `force`, or it is still tried in shadow.
        UnknownEntryError: no such entry.
        """
        entry = self.lookup.entry(seq)
        rows = self.lookup.deliveries(seq, entry, asked.in_feed_order)
        given = {row.destination for row in rows}
        lanes = list(self._lanes.of(entry.patients))
        give = (*give, *self._lanes.there(lanes, where_known))
        fresh = [name for name in destinations if name in give and name not in given]
        if rows and fresh and all(row.state in {State.DISCARDED, State.FILTERED} for row in rows):
            raise ForbiddenMoveError(
                f"entry {seq} was {rows[0].state} elsewhere: it is not for other destinations either"
            )
        named = [row for row in rows if row.destination in destinations]
        if not destinations:
            ended = [row for row in rows if row.state not in UNFINISHED or row.state is State.HELD]
            named = [row for row in ended if meant is None or meant(row)] or ([] if ended else rows)
            if not named:
                raise ForbiddenMoveError(f"entry {seq} is no longer in the state in which it was chosen")
        if not named and not (rows and fresh):
            raise ForbiddenMoveError(
                f"entry {seq} was not given to any such destination, or its channel's filters send it elsewhere: "
                "send its message anew"
            )
        newer = [self.lookup.check(seq, row, asked) for row in named]
        over = [self.lookup.overtakes(seq, name, lanes, asked) for name in fresh]
        self._let_out(seq, entry, rows)
        for row, forced in zip(named, newer, strict=True):
            self._again(seq, row, asked, "replay", replay=True, forced=forced)
        for name, forced in zip(fresh, over, strict=True):
            mine = [FEED, *lanes] if name in asked.in_feed_order else lanes
            self._give(seq, name, mine, asked, forced=forced)
            self._note(seq, name, "given", asked, forced=forced)
        return len(named) + len(fresh)

    def release(self, seq: int, destinations: tuple[str, ...], asked: OperationRequest) -> int:
        """Let what is held be tried again; return at how many destinations.

        ForbiddenMoveError: nothing is held, or the lane went on (`on_held: continue`) and something newer was applied.
        """
        rows = self.lookup.deliveries(seq, self.lookup.entry(seq))
        held = [row for row in rows if row.state is State.HELD and row.destination in (destinations or row.destination)]
        if not held:
            raise ForbiddenMoveError(f"entry {seq} is not held")
        self._release(seq, held, asked)
        return len(held)

    def retry(self, seq: int, asked: OperationRequest) -> int:
        """Try at once what waits for its next try, or is held; ForbiddenMoveError where there is no such thing.

        It decides nothing: what waits for a person's decision is held again.
        """
        rows = self.lookup.deliveries(seq, self.lookup.entry(seq))
        held = [row for row in rows if row.state is State.HELD]
        due = [row for row in rows if row.state is State.RECEIVED and row.due]
        if not held and not due:
            raise ForbiddenMoveError(f"entry {seq} neither waits for its next try nor is held")
        self._release(seq, held, asked, "retry")
        for row in due:
            self._connection.execute(DUE_NOW, (asked.by, seq, row.destination))
        return len(held) + len(due)

    def retry_all(self, destination: str) -> int:
        """Let all that waits for its next try at a destination be tried at once; return how many deliveries."""
        return self._connection.execute(ALL_DUE_NOW, (destination,)).rowcount

    def discard(self, seq: int, reason: str, *, by: str) -> int:
        """End what is unfinished of an entry, for good; return how many others may run because of it.

        ForbiddenMoveError: nothing is unfinished, or it is being delivered at this moment.
        """
        entry = self.lookup.entry(seq)
        if entry.state is State.HELD:
            self._connection.execute(DISCARD_AT_DOOR, (reason, by, seq))
            return 0
        rows = [row for row in self.lookup.rows(seq) if row.state in UNFINISHED]
        if not rows:
            raise ForbiddenMoveError(f"entry {seq} has nothing unfinished to discard")
        runnable = 0
        for row in rows:
            check_move(row.state, State.DISCARDED)
            self._connection.execute(DISCARD, (reason, by, seq, row.destination))
            runnable += leave(self._connection, seq, row.destination, row.lanes)
        return runnable

    def admit(self, seq: int, judged: NewEntry, asked: OperationRequest) -> int:
        """Take in what the door refused, held or filtered, in its old place, as it was judged anew.

        ForbiddenMoveError: it has deliveries, or something newer was applied for one of its patients without `force`.
        """
        entry = self.lookup.entry(seq)
        if entry.state is State.RECEIVED or self.lookup.rows(seq):
            raise ForbiddenMoveError(f"entry {seq} was taken in already: replay it")
        judged = self.lookup.reaching(judged)
        forced = self.lookup.overtaken(seq, judged, asked)
        placed = self._lanes.place(judged.patients, unite=judged.unite, run=True)
        flags = tuple(dict.fromkeys((*judged.flags, JUDGED_ANEW)))
        self._connection.execute(
            ADMIT,
            (
                judged.event, json_list(flags), optional_micros(judged.event_at), self._name(judged.visit),
                json_list(placed.identities), judged.mapping, asked.by, seq,
            ),
        )  # fmt: skip
        self._connection.executemany(NAMED_AGAIN, [(identity, seq) for identity in placed.identities])
        for name in judged.destinations:
            lanes = (FEED, *placed.lanes) if name in judged.in_feed_order else placed.lanes
            self._give(seq, name, list(lanes), asked, forced=forced)
        self._note(seq, "", JUDGED_ANEW, asked, entry, forced=forced)
        return len(judged.destinations)

    def edit(self, seq: int, edited: NewEntry, changes: bytes, asked: OperationRequest, discard: str = "") -> Recorded:
        """Record what an entry was edited to as an entry of its own, behind all that is there.

        `changes`: what differs, as JSON. `discard`: why the original ends, where it is unfinished; empty leaves it.
        ForbiddenMoveError: something newer was applied for one of its patients without `force`; the original is being
        delivered at this moment and is to be discarded.
        """
        state = self.lookup.entry(seq).state
        unfinished = state is State.HELD or any(row.state in UNFINISHED for row in self.lookup.rows(seq))
        self.lookup.overtaken(seq, edited, asked)
        if discard and unfinished:
            self.discard(seq, discard, by=asked.by)
        recorded = self._recording.record([edited])[0]
        kept = changes.decode()
        if self._sealing is not None:
            kept = self._sealing.seal_text(changes, edit_at(recorded.seq))
        self._connection.execute(EDIT, (recorded.seq, seq, asked.by, optional_micros(asked.at), kept))
        return recorded

    def _name(self, visit: str) -> str:
        return visit if self._sealing is None else self._sealing.name(visit)

    def _release(self, seq: int, held: list[DeliveryState], asked: OperationRequest, act: str = "release") -> None:
        newer = [self.lookup.check(seq, row, asked) or row.reason in LET_GO for row in held]
        for row, forced in zip(held, newer, strict=True):
            self._again(seq, row, asked, act, replay=False, forced=forced)
            for decided in claiming.by_release(row.reason, row.notes) if act == "release" else ():
                self._note(seq, row.destination, claiming.ACT, asked, row._replace(reason=decided), forced=forced)

    def _let_out(self, seq: int, entry: EntryState, rows: list[DeliveryState]) -> None:
        """Let what came in shadow be delivered; ForbiddenMoveError while a destination still tries it."""
        flags = orjson.loads(entry.flags)
        if SHADOW not in flags:
            return
        tried = [row.destination for row in rows if row.state in UNFINISHED and row.state is not State.HELD]
        if tried:
            raise ForbiddenMoveError(
                f"entry {seq} came in shadow and is still tried at {', '.join(tried)}: wait for its end there, or "
                "discard it"
            )
        out = [FROM_SHADOW if flag == SHADOW else flag for flag in flags]
        self._connection.execute(LET_OUT, (json_list(out), seq))
        self._connection.execute(NOTED, (FROM_SHADOW, seq))

    def _again(
        self, seq: int, row: DeliveryState, asked: OperationRequest, act: str, *, replay: bool, forced: bool
    ) -> None:
        text = json_list(row.lanes)
        after = self._enter(seq, row.destination, row.lanes, text)
        values = (after.value, text, int(replay), int(forced), asked.by, seq, row.destination)
        self._connection.execute(AGAIN, values)
        self._demote(row.destination, row.lanes)
        self._note(seq, row.destination, act, asked, row, forced=forced)

    def _give(self, seq: int, destination: str, lanes: list[int], asked: OperationRequest, *, forced: bool) -> None:
        text = json_list(lanes)
        after = self._enter(seq, destination, lanes, text)
        self._connection.execute(GIVE, (after.value, text, int(forced), asked.by, seq, destination))
        self._demote(destination, lanes)

    def _enter(self, seq: int, destination: str, lanes: list[int], text: str) -> State:
        blocked = self._connection.execute(IS_BLOCKED, (text, destination, seq)).fetchone()[0]
        for lane in lanes:
            self._connection.execute(ENTER, (destination, lane, seq))
        return State.WAITING if blocked else State.RECEIVED

    def _demote(self, destination: str, lanes: list[int]) -> None:
        for lane in lanes:
            self._connection.execute(DEMOTE, (destination, destination, lane, destination, lane))

    def _note(
        self, seq: int, destination: str, act: str, asked: OperationRequest,
        before: DeliveryState | EntryState | None = None, *, forced: bool,
    ) -> None:  # fmt: skip
        state, reason, mapping = (before.state.value, before.reason, before.mapping) if before else ("", "", "")
        at = optional_micros(asked.at)
        values = (seq, destination, act, asked.by, at, asked.run, int(forced), state, reason, mapping)
        self._connection.execute(NOTE, values)
