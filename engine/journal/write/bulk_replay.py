"""Bulk replays: what one covers, how far it has come, and what became of each entry; functions on the writer's context.

    filling --all entries are there--> running --paused or stopped by somebody--> paused, stopped --resumed--> running
    running --all entries have ended, or wait behind something held--> done

A run takes entries up in journal order, those of one patient together, so that what comes in meanwhile queues behind
all of them. Taking up is one transaction with what it does to the entries: killed anywhere, it goes on with the next.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

import orjson

from engine.database.connection import Connection, Row, by_name, json_list
from engine.errors import RefusedOperationError, UnknownEntryError, UnknownRunError
from engine.journal.entry import NewEntry, State
from engine.journal.moment import from_micros, optional_from_micros, to_micros
from engine.journal.opening import open_reader
from engine.journal.write.entry_lookup import OperationRequest, meant_by
from engine.journal.write.job import WriterContext

_T = TypeVar("_T")

UNDER_WAY: Final = "under way"
REFUSED: Final = "refused"
# In what a run was asked for: why its entries are discarded, in the operator's words.
BECAUSE: Final = "because"
MOST_TOGETHER: Final = 5_000
MOST_REFUSALS: Final = 100

# A new run, bounded by the newest entry of now.
BEGIN: Final = """
INSERT INTO run (kind, by, asked, destination, forced, rate, state, started_at, bound)
VALUES (?, ?, ?, ?, ?, ?, 'filling', ?, (SELECT COALESCE(MAX(seq), 0) FROM entry)) RETURNING id
"""
# Add entries to a run; each is in it once, so that a repeated fill is idempotent.
FILL: Final = (
    "INSERT INTO run_entry (run, seq) SELECT ?, value FROM json_each(?) AS i WHERE true ON CONFLICT DO NOTHING"
)
# All entries are there: the run may start.
FILLED: Final = """
UPDATE run SET state = 'running', total = (SELECT COUNT(*) FROM run_entry WHERE run = ?1) WHERE id = ?1
"""
# Runs whose filling was cut off by the end of the engine.
ABANDONED: Final = "SELECT id FROM run WHERE state = 'filling' AND state IN ('filling', 'running')"
# Drop the entries of a run.
FORGET_ENTRIES: Final = "DELETE FROM run_entry WHERE run = ?"
# Drop a run.
FORGET: Final = "DELETE FROM run WHERE id = ?"
# Runs that were under way when the engine ended.
RUNNING: Final = "SELECT id FROM run WHERE state = 'running' AND state IN ('filling', 'running') ORDER BY id"
# Move a run from one state to another.
SET_STATE: Final = "UPDATE run SET state = ?, ended_at = ? WHERE id = ? AND state = ?"
# What became of a run's entries, kept when they are dropped.
KEEP_COUNTS: Final = "UPDATE run SET counts = ? WHERE id = ?"

# The next entries of a run, in journal order.
NEXT: Final = """
SELECT r.seq FROM run_entry AS r JOIN entry AS e ON e.seq = r.seq
WHERE r.run = ? AND r.outcome = '' ORDER BY r.seq LIMIT ?
"""
# The lanes of entries.
LANES_OF: Final = """
SELECT DISTINCT own.lane FROM json_each(?) AS i JOIN entry AS e ON e.seq = i.value
CROSS JOIN json_each(e.patients) AS mine JOIN lane_of AS own ON own.identity = mine.value
"""
# What a run has left of these lanes (a JSON list).
TOGETHER: Final = """
SELECT DISTINCT r.seq FROM json_each(?) AS i CROSS JOIN lane_of AS l ON l.lane = i.value
CROSS JOIN named_in AS n ON n.identity = l.identity CROSS JOIN run_entry AS r ON r.run = ? AND r.seq = n.seq
WHERE r.outcome = '' ORDER BY r.seq LIMIT ?
"""
# Where the door left entries.
AT_DOOR: Final = """
SELECT e.seq, e.channel, e.state, e.reason FROM json_each(?) AS i JOIN entry AS e ON e.seq = i.value ORDER BY e.seq
"""
# What became of an entry of a run.
MARK: Final = "UPDATE run_entry SET outcome = ? WHERE run = ? AND seq = ?"
# Note how entries of a run have ended where all their deliveries have: the gravest end.
OUTCOMES: Final = """
UPDATE run_entry SET outcome = (SELECT d.state FROM delivery AS d WHERE d.seq = run_entry.seq
  AND (?2 = '' OR d.destination = ?2) ORDER BY CASE d.state WHEN 'held' THEN 0 WHEN 'rejected' THEN 1
  WHEN 'discarded' THEN 2 WHEN 'delivered' THEN 3 ELSE 4 END LIMIT 1)
WHERE run = ?1 AND outcome = 'under way' AND NOT EXISTS (SELECT 1 FROM delivery AS d WHERE d.seq = run_entry.seq
  AND (?2 = '' OR d.destination = ?2) AND d.state IN ('received', 'claimed', 'waiting'))
"""
# How many of a run move by themselves; what waits behind something that is held does not.
MOVING: Final = """
SELECT COUNT(*) FROM run_entry AS r WHERE r.run = ? AND r.outcome = 'under way' AND EXISTS (
  SELECT 1 FROM delivery AS d WHERE d.seq = r.seq AND d.state IN ('received', 'claimed'))
"""
# Entries that still wait when a run ends.
LEFT_WAITING: Final = "UPDATE run_entry SET outcome = 'waiting' WHERE run = ? AND outcome = 'under way'"
# How many entries of a run ended how.
COUNT: Final = """
SELECT CASE WHEN outcome LIKE 'refused%' THEN 'refused' ELSE outcome END AS how, COUNT(*) FROM run_entry
WHERE run = ? GROUP BY how
"""
# The first entries that could not be taken up, and why.
REFUSALS: Final = """
SELECT seq, outcome FROM run_entry WHERE run = ? AND outcome LIKE 'refused%' ORDER BY seq LIMIT ?
"""
# The first entries that ended held, with the reason of those that still are.
HELD_AGAIN: Final = """
SELECT r.seq, COALESCE((SELECT MIN(d.reason) FROM delivery AS d WHERE d.seq = r.seq AND d.state = 'held'), '')
FROM run_entry AS r WHERE r.run = ? AND r.outcome = 'held' ORDER BY r.seq LIMIT ?
"""
# Drop a run's entries but the first refusals, and the first that ended held.
KEEP_REFUSALS: Final = """
DELETE FROM run_entry WHERE run = ?1 AND seq NOT IN (
  SELECT seq FROM run_entry WHERE run = ?1 AND outcome LIKE 'refused%' ORDER BY seq LIMIT ?2) AND seq NOT IN (
  SELECT seq FROM run_entry WHERE run = ?1 AND outcome = 'held' ORDER BY seq LIMIT ?2)
"""
# Runs, each with all that is known of it.
_RUN: Final = """
SELECT id, kind, by, asked, destination, forced, rate, state, started_at, ended_at, total, bound, counts FROM run
"""
# One, by its number.
SHOW: Final = f"{_RUN} WHERE id = ?"
# The newest.
LIST: Final = f"{_RUN} ORDER BY id DESC LIMIT ?"


class RunKind(StrEnum):
    """What a run does with its entries."""

    REPLAY = "replay"
    RELEASE = "release"
    RETRY = "retry"
    DISCARD = "discard"


class RunState(StrEnum):
    """The state of a run; both PAUSED and STOPPED can be resumed, and only STOPPED says that it has ended."""

    FILLING = "filling"
    RUNNING = "running"
    PAUSED = "paused"
    STOPPED = "stopped"
    DONE = "done"


@dataclass(frozen=True, slots=True, repr=False)
class Run:
    """One bulk run; `counts` by outcome: those taken up, `under way`, `refused`, delivered, held ...

    `asked` is what was asked for, `rate` entries a second, `refusals` pairs of an entry and why, the first 100, `bound`
    the newest entry when it began. `again`: those that ended held, the first 100, each with the reason if it still is.
    """

    number: int
    kind: RunKind
    by: str
    asked: Mapping[str, Any]
    destination: str
    force: bool
    rate: float
    state: RunState
    started_at: datetime
    ended_at: datetime | None
    total: int
    counts: Mapping[str, int]
    refusals: tuple[tuple[int, str], ...] = ()
    bound: int = 0
    again: tuple[tuple[int, str], ...] = ()

    @property
    def position(self) -> int:
        """How many entries were taken up."""
        return sum(self.counts.values())

    @property
    def done(self) -> int:
        """How many entries have ended, delivered or not."""
        return self.position - self.counts.get(UNDER_WAY, 0)


class Next(NamedTuple):
    """An entry that a run takes up next, and where the door left it (`received` where it was taken in)."""

    seq: int
    channel: str
    state: str
    reason: str


class ReplayItem(NamedTuple):
    """What is to be done with one entry: replayed or released, taken in as judged anew, or refused, and why.

    `in_feed_order`: the destinations that get entries in the order in which they came in.
    """

    seq: int
    give: tuple[str, ...] = ()
    judged: NewEntry | None = None
    refusal: str = ""
    where_known: tuple[str, ...] = ()
    in_feed_order: frozenset[str] = frozenset()


def begin(connection: Connection, run: Run) -> int:
    """Begin a run without entries; return its number. It does nothing until it is `filled`."""
    values = (run.kind.value, run.by, orjson.dumps(dict(run.asked)).decode(), run.destination, int(run.force), run.rate)
    return int(connection.execute(BEGIN, (*values, to_micros(run.started_at))).fetchone()[0])


def fill(connection: Connection, run: int, seqs: Sequence[int]) -> None:
    """Add entries to a run that fills."""
    connection.execute(FILL, (run, json_list(seqs)))


def filled(connection: Connection, run: int) -> None:
    """Let a run go that has all its entries."""
    connection.execute(FILLED, (run,))


def recall(connection: Connection) -> tuple[int, ...]:
    """Return the runs that were running when the engine ended; forget those that were never filled."""
    for (run,) in connection.execute(ABANDONED).fetchall():
        connection.execute(FORGET_ENTRIES, (run,))
        connection.execute(FORGET, (run,))
    return running(connection)


def running(connection: Connection) -> tuple[int, ...]:
    """Return the runs that are running."""
    return tuple(run for (run,) in connection.execute(RUNNING).fetchall())


def upcoming(connection: Connection, run: int, most: int) -> tuple[Next, ...]:
    """Return the next entries of a run, up to `most` and whatever else it has of their patients, in journal order."""
    seqs = {seq for (seq,) in connection.execute(NEXT, (run, most)).fetchall()}
    lanes: set[int] = set()
    while len(seqs) < MOST_TOGETHER:
        found = {lane for (lane,) in connection.execute(LANES_OF, (json_list(sorted(seqs)),)).fetchall()} - lanes
        if not found:
            break
        lanes |= found
        rows = connection.execute(TOGETHER, (json_list(sorted(found)), run, MOST_TOGETHER)).fetchall()
        seqs |= {seq for (seq,) in rows}
    return tuple(Next(**dict(row)) for row in by_name(connection, AT_DOOR, (json_list(sorted(seqs)),)))


def standing(connection: Connection, seq: int) -> Next:
    """Return where the door left an entry; UnknownEntryError where there is none."""
    row = by_name(connection, AT_DOOR, (json_list([seq]),)).fetchone()
    if row is None:
        raise UnknownEntryError(f"there is no entry {seq}")
    return Next(**dict(row))


def take_up(context: WriterContext, run: Run, items: Sequence[ReplayItem], at: datetime) -> None:
    """Do what a run does with entries, and note of each that it is under way or why it was refused.

    Those of a patient of whom something newer is being delivered just now are left for the next time.
    """
    asked = OperationRequest(run.by, at, run.number, force=run.force, bound=run.bound)
    busy = {item.seq for item in items if not item.refusal and context.operations.lookup.is_busy(item.seq)}
    marks = [(_taken(context, run, item, asked), run.number, item.seq) for item in items if item.seq not in busy]
    context.connection.executemany(MARK, marks)


def _taken(context: WriterContext, run: Run, item: ReplayItem, asked: OperationRequest) -> str:
    destinations = (run.destination,) if run.destination else ()
    if item.refusal:
        return f"{REFUSED}: {item.refusal}"
    try:
        if item.judged is not None:
            context.operations.admit(item.seq, item.judged, asked._replace(force=False))
        elif run.kind is RunKind.RELEASE:
            context.operations.release(item.seq, destinations, asked)
        elif run.kind is RunKind.RETRY:
            context.operations.retry(item.seq, asked)
        elif run.kind is RunKind.DISCARD:
            context.operations.discard(item.seq, str(run.asked.get(BECAUSE, "")), by=run.by)
            return State.DISCARDED
        else:
            asked = asked._replace(in_feed_order=item.in_feed_order)
            context.operations.replay(item.seq, destinations, asked, item.give, item.where_known, meant_by(run.asked))
    except RefusedOperationError as error:
        return f"{REFUSED}: {error}"
    return UNDER_WAY


def settle(connection: Connection, run: Run) -> int:
    """Note how entries of a run have ended; return how many still move by themselves."""
    connection.execute(OUTCOMES, (run.number, run.destination))
    return moving(connection, run)


def moving(connection: Connection, run: Run) -> int:
    """Return how many entries of a run move by themselves; what waits behind something held does not."""
    return int(connection.execute(MOVING, (run.number,)).fetchone()[0])


def pause(connection: Connection, run: int) -> None:
    """Pause a run that is running, until somebody resumes it; what it took up goes on."""
    connection.execute(SET_STATE, (RunState.PAUSED.value, None, run, RunState.RUNNING.value))


def stop(connection: Connection, run: int, at: datetime) -> None:
    """Stop a run that is running or paused; what it took up goes on."""
    for before in (RunState.RUNNING, RunState.PAUSED):
        connection.execute(SET_STATE, (RunState.STOPPED.value, to_micros(at), run, before.value))


def resume(connection: Connection, run: int) -> bool:
    """Let a run that was paused or stopped go on; say whether it was."""
    before = (RunState.PAUSED, RunState.STOPPED)
    return any(
        connection.execute(SET_STATE, (RunState.RUNNING.value, None, run, state.value)).rowcount == 1
        for state in before
    )


def end(connection: Connection, run: int, at: datetime) -> None:
    """End a run that has taken up all: its counts are kept and its first refusals, the other entries are forgotten."""
    connection.execute(LEFT_WAITING, (run,))
    counts = _counts(connection, run)
    connection.execute(KEEP_COUNTS, (orjson.dumps(counts).decode(), run))
    connection.execute(KEEP_REFUSALS, (run, MOST_REFUSALS))
    connection.execute(SET_STATE, (RunState.DONE.value, to_micros(at), run, RunState.RUNNING.value))


def look(folder: Path, work: Callable[[Connection], _T]) -> _T:
    """Call work on a connection of its own that only reads: counting a large run takes its time."""
    with closing(open_reader(folder)) as connection:
        return work(connection)


def show(connection: Connection, run: int) -> Run:
    """Return a run; UnknownRunError where there is none."""
    row = by_name(connection, SHOW, (run,)).fetchone()
    if row is None:
        raise UnknownRunError(f"there is no run {run}: `adt-engine messages replays` lists them")
    return _run(connection, row)


def listed(connection: Connection, most: int) -> tuple[Run, ...]:
    """Return the newest runs, the newest first."""
    return tuple(_run(connection, row) for row in by_name(connection, LIST, (most,)))


def _run(connection: Connection, row: Row) -> Run:
    number, state = row["id"], RunState(row["state"])
    counts = orjson.loads(row["counts"]) if state is RunState.DONE else _counts(connection, number)
    refusals = connection.execute(REFUSALS, (number, MOST_REFUSALS)).fetchall()
    return Run(
        number, RunKind(row["kind"]), row["by"], orjson.loads(row["asked"]), row["destination"], bool(row["forced"]),
        row["rate"], state, from_micros(row["started_at"]), optional_from_micros(row["ended_at"]), row["total"], counts,
        tuple((seq, outcome.partition(": ")[2]) for seq, outcome in refusals), row["bound"],
        tuple((seq, reason) for seq, reason in connection.execute(HELD_AGAIN, (number, MOST_REFUSALS)).fetchall()),
    )  # fmt: skip


def _counts(connection: Connection, run: int) -> dict[str, int]:
    return {how: count for how, count in connection.execute(COUNT, (run,)).fetchall() if how}
