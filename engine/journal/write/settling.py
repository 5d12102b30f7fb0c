"""Settling: intents before each write, outcomes after it, and the end of a delivery, which frees its lanes."""

from dataclasses import replace
from datetime import datetime
from typing import Any, Final

import orjson

from engine.database.connection import Connection, json_list, together
from engine.errors import ForbiddenMoveError, UnknownEntryError
from engine.http.request import HttpRequest
from engine.journal.claim.claiming import Claims, Out
from engine.journal.entry import SUPERSEDED, SUPERSEDED_BY, UNFINISHED, RequestOutcome, Settlement, State, check_move
from engine.journal.file.sealing import Sealing, answer_at, plan_at, request_at
from engine.journal.moment import optional_micros, to_micros
from engine.journal.row_digest import of_attempt, of_delivery
from engine.journal.state import way_back
from engine.journal.state.counters import NOTE, count_ends, notes_of
from engine.journal.state.follow_ups import promise
from engine.journal.state.memory import remember

# The newest attempt's number.
LAST: Final = "SELECT COALESCE(MAX(id), 0) FROM attempt"
# A request that is about to be sent: written first, so that a kill after it is known.
INTEND: Final = """
INSERT INTO attempt (id, seq, destination, number, method, url, query, headers, body, at, crc)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
# The attempt that an answer belongs to.
ATTEMPT: Final = "SELECT id FROM attempt WHERE seq = ? AND destination = ? AND number = ?"
# Where a delivery of an entry stands, and the newest number of its attempts.
DELIVERY: Final = """
SELECT state, (SELECT COALESCE(MAX(number), 0) FROM attempt AS a WHERE a.seq = d.seq AND a.destination = d.destination)
FROM delivery AS d WHERE seq = ? AND destination = ?
"""
# What came of a request.
ANSWER: Final = """
INSERT INTO answer (attempt, status, codes, failure, milliseconds, response) VALUES (?, ?, ?, ?, ?, ?)
"""
# What a later attempt made clear: the intent had no answer of its own.
UNANSWERED: Final = """
INSERT INTO answer (attempt, status, codes, failure, milliseconds, response)
SELECT id, 0, '[]', 'ambiguous', 0, x'' FROM attempt AS a WHERE seq = ? AND destination = ?
AND NOT EXISTS (SELECT 1 FROM answer WHERE attempt = a.id)
"""
# How a delivery ended, or when it is tried again.
SETTLE: Final = """
UPDATE delivery SET state = ?, reason = ?, notes = ?, due_at = ?, settled_at = ?, mapping = ?, crc = ?,
  tries = tries + ?
WHERE seq = ? AND destination = ?
"""
# The plan of what was not delivered, the newest one.
PLAN: Final = """
INSERT INTO plan (seq, destination, content) VALUES (?, ?, ?)
ON CONFLICT (seq, destination) DO UPDATE SET content = excluded.content
"""
# Leave the queue of a lane.
LEAVE: Final = "DELETE FROM queue WHERE destination = ? AND lane = ? AND seq = ?"
# Whether an older delivery is ahead in a lane.
IS_BLOCKED: Final = """
SELECT EXISTS (SELECT 1 FROM json_each(?) AS mine WHERE EXISTS (
  SELECT 1 FROM queue AS q WHERE q.destination = ? AND q.lane = mine.value AND q.seq < ? LIMIT 1 OFFSET 0))
"""
# Which of the lanes at hand (a JSON list) still hold something.
STILL_HELD: Final = """
SELECT i.key FROM json_each(?) AS i
WHERE EXISTS (SELECT 1 FROM queue WHERE destination = ? AND lane = i.value LIMIT 1 OFFSET 0)
"""
# The next in a lane may run if it heads its other lanes too.
PROMOTE: Final = """
UPDATE delivery SET state = 'received'
WHERE destination = ?1 AND seq = (SELECT MIN(seq) FROM queue WHERE destination = ?1 AND lane = ?2)
AND state = 'waiting' AND NOT EXISTS (SELECT 1 FROM json_each(delivery.lanes) AS mine WHERE EXISTS (
  SELECT 1 FROM queue AS q WHERE q.destination = ?1 AND q.lane = mine.value AND q.seq < delivery.seq LIMIT 1 OFFSET 0))
RETURNING 1
"""

_Row = tuple[Any, ...]


class Settling:
    """Writes intents and settlements; lives in the writer thread, inside its transactions."""

    def __init__(self, connection: Connection, claims: Claims, sealing: Sealing | None = None) -> None:
        self._connection = connection
        self._sealing = sealing
        self._claims = claims
        self._attempts: dict[tuple[int, str, int], int] = {}
        self.catch_up()

    def catch_up(self) -> None:
        """Read the newest attempt's number anew: another node may have made some."""
        self._last: int = self._connection.execute(LAST).fetchone()[0]

    def intend(self, intents: list[tuple[int, str, HttpRequest]]) -> None:
        """Write intents; an intent for what is not claimed is a ForbiddenMoveError."""
        rows = []
        for seq, destination, intent in intents:
            if not self._claims.is_out(seq, destination):
                raise ForbiddenMoveError(f"entry {seq} is not claimed for {destination}")
            rows.append(self._request(seq, destination, intent))
            self._attempts[seq, destination, intent.number] = self._last
        self._connection.executemany(INTEND, rows)

    def add_answer(self, seq: int, destination: str, outcome: RequestOutcome, at: datetime) -> bool:
        """Add an answer that came after a delivery had ended, with the `request` of its outcome; False: it is gone.

        It gets the next number that is free: that of an attempt which is under way is kept for it.
        """
        found = self._connection.execute(DELIVERY, (seq, destination)).fetchone()
        if outcome.request is None or found is None:
            return False
        state, newest = found
        under_way = state == State.CLAIMED or self._claims.is_out(seq, destination)
        request = replace(outcome.request, number=newest + 1 + under_way)
        self._write(INTEND, [self._request(seq, destination, request)])
        self._write(ANSWER, [self._answer(self._last, outcome, at)])
        return True

    def _request(self, seq: int, destination: str, intent: HttpRequest) -> _Row:
        """Return a request as a row, with the next number of an attempt."""
        self._last += 1
        url, _, asked = intent.url.partition("?")
        listed, query, body = orjson.dumps(intent.headers), asked.encode(), intent.body
        headers = listed.decode()
        if self._sealing is not None:
            self._sealing.prepare(self._connection, intent.at)
            place = request_at(seq, destination, intent.number)
            headers = self._sealing.seal_text(listed, place)
            query, body = self._sealing.seal(query, place), self._sealing.seal(body, place)
        at = to_micros(intent.at)
        row = (self._last, seq, destination, intent.number, intent.method, url, query, headers, body, at)
        return (*row, of_attempt(row))

    def settle(self, given: list[Settlement]) -> list[int]:
        """Write settlements; return for each how many deliveries became runnable by it.

        What a delivery supersedes ends with it, in the one transaction: alone, either would lose what the other says.
        """
        settlements = given + [one for delivered in given for one in superseded_by(delivered)]
        requests: list[_Row] = []
        answers: list[_Row] = []
        ends: list[_Row] = []
        freed: dict[str, list[tuple[int, int, int]]] = {}
        lanes_of = []
        unanswered: list[_Row] = []
        for position, settlement in enumerate(settlements):
            check_move(State.CLAIMED, settlement.state)
            out = self._claims.returned(settlement.seq, settlement.destination)
            lanes_of.append(out.lanes)
            answers.extend(self._answers(settlement, requests))
            ends.append(self._end(settlement, out))
            if out.ambiguous and settlement.state is not State.RECEIVED:
                unanswered.append((settlement.seq, settlement.destination))
            if settlement.state not in UNFINISHED or (settlement.state is State.HELD and not settlement.keep_lane):
                lanes = freed.setdefault(settlement.destination, [])
                lanes.extend((lane, settlement.seq, position) for lane in out.lanes)
        with together(self._connection):
            self._write(INTEND, requests)
            self._write(ANSWER, answers)
            self._write(UNANSWERED, unanswered)
            self._write(PLAN, [(one.seq, one.destination, self._plan(one)) for one in settlements if one.plan])
            self._write(SETTLE, ends)
            self._write(NOTE, notes_of(given))
            count_ends(self._connection, settlements)
            remember(self._connection, self._sealing, settlements, lanes_of)
            promise(self._connection, settlements)
            way_back.remember(self._connection, settlements)
        runnable = self._free(freed, len(settlements))
        if any(runnable) or any(one.state is State.RECEIVED for one in settlements):
            self._claims.mark_runnable()
        return runnable[: len(given)]

    def _write(self, statement: str, rows: list[_Row]) -> None:
        if rows:
            self._connection.executemany(statement, rows)

    def _answers(self, settlement: Settlement, requests: list[_Row]) -> list[_Row]:
        """Return what came of the attempts of a settlement; `requests` gets those that were not written before."""
        rows: list[_Row] = []
        for outcome in settlement.outcomes:
            if outcome.request is None:
                attempt = self._attempt(settlement, outcome.number)
            else:
                requests.append(self._request(settlement.seq, settlement.destination, outcome.request))
                attempt = self._last
            rows.append(self._answer(attempt, outcome, settlement.at))
        return rows

    def _answer(self, attempt: int, outcome: RequestOutcome, at: datetime) -> _Row:
        body = outcome.body
        if self._sealing is not None:
            self._sealing.prepare(self._connection, at)
            body = self._sealing.seal(body, answer_at(attempt))
        codes = json_list(outcome.codes)
        return attempt, outcome.status, codes, str(outcome.failure), outcome.milliseconds, body

    def _plan(self, settlement: Settlement) -> bytes:
        if self._sealing is None:
            return settlement.plan
        self._sealing.prepare(self._connection, settlement.at)
        return self._sealing.seal(settlement.plan, plan_at(settlement.seq, settlement.destination))

    def _attempt(self, settlement: Settlement, number: int) -> int:
        key = (settlement.seq, settlement.destination, number)
        attempt = self._attempts.pop(key, None)
        if attempt is not None:
            return attempt
        row = self._connection.execute(ATTEMPT, key).fetchone()
        if row is None:
            raise UnknownEntryError(f"entry {settlement.seq} has no attempt {number} at {settlement.destination}")
        return int(row[0])

    def _end(self, settlement: Settlement, out: Out) -> _Row:
        seq, destination, state = settlement.seq, settlement.destination, settlement.state
        again = state is State.RECEIVED
        if again and out.lanes:
            lanes = json_list(out.lanes)
            if self._connection.execute(IS_BLOCKED, (lanes, destination, seq)).fetchone()[0]:
                state = State.WAITING
        return (
            state.value, settlement.reason, json_list(settlement.notes), optional_micros(settlement.retry_at),
            to_micros(settlement.at), settlement.mapping, of_delivery((seq, destination, settlement.mapping)),
            1 if again else 0, seq, destination,
        )  # fmt: skip

    def _free(self, freed: dict[str, list[tuple[int, int, int]]], count: int) -> list[int]:
        """Take deliveries out of their lanes and let the next ones run; return how many, by settlement."""
        runnable = [0] * count
        for destination, places in freed.items():
            if not places:
                continue
            self._connection.executemany(LEAVE, [(destination, lane, seq) for lane, seq, _position in places])
            lanes = json_list([lane for lane, _seq, _position in places])
            for (key,) in self._connection.execute(STILL_HELD, (lanes, destination)).fetchall():
                lane, _seq, position = places[key]
                runnable[position] += len(self._connection.execute(PROMOTE, (destination, lane)).fetchall())
        return runnable


def superseded_by(delivered: Settlement) -> list[Settlement]:
    """Return how the deliveries end that one superseded."""
    note = f"{SUPERSEDED_BY} {delivered.seq}"
    return [
        Settlement(
            seq, delivered.destination, State.FILTERED, delivered.at, SUPERSEDED, (note,), mapping=delivered.mapping,
            source=delivered.source,
        )
        for seq in delivered.superseded
    ]  # fmt: skip


def leave(connection: Connection, seq: int, destination: str, lanes: list[int]) -> int:
    """Take a delivery out of its lanes; return how many others may run because of it."""
    runnable = 0
    for lane in lanes:
        connection.execute(LEAVE, (destination, lane, seq))
    for lane in lanes:
        runnable += len(connection.execute(PROMOTE, (destination, lane)).fetchall())
    return runnable
