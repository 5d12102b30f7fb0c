"""Settling: intents before each write, outcomes after it, and the end of a delivery, which frees its lanes."""

from typing import Final

import orjson

from engine.errors import ForbiddenMoveError
from engine.journal.claiming import Claims
from engine.journal.database import Connection
from engine.journal.entry import UNFINISHED, Intent, Settlement, State, check_move
from engine.journal.memory import remember
from engine.journal.moment import optional_micros, to_micros

INTEND: Final = """
INSERT INTO attempt (seq, destination, number, method, url, headers, body, at) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
"""
ANSWER: Final = """
UPDATE attempt SET status = ?, codes = ?, failure = ?, milliseconds = ?, response = ?
WHERE seq = ? AND destination = ? AND number = ?
"""
# What a later attempt made clear: the intent had no answer of its own.
UNANSWERED: Final = """
UPDATE attempt SET status = 0, codes = '[]', failure = 'ambiguous', milliseconds = 0, response = x''
WHERE seq = ? AND destination = ? AND status IS NULL
"""
LANES: Final = "SELECT lanes FROM delivery WHERE seq = ? AND destination = ? AND state = 'claimed'"
SETTLE: Final = """
UPDATE delivery SET state = ?, reason = ?, notes = ?, due_at = ?, settled_at = ?, mapping = ?, tries = tries + ?
WHERE seq = ? AND destination = ?
"""
PLAN: Final = """
INSERT INTO plan (seq, destination, content) VALUES (?, ?, ?)
ON CONFLICT (seq, destination) DO UPDATE SET content = excluded.content
"""
LEAVE: Final = "DELETE FROM queue WHERE destination = ? AND lane = ? AND seq = ?"
IS_BLOCKED: Final = """
SELECT EXISTS (SELECT 1 FROM json_each(?) AS mine CROSS JOIN queue AS q
  WHERE q.destination = ? AND q.lane = mine.value AND q.seq < ?)
"""
# The next in a lane may run if it heads its other lanes too.
PROMOTE: Final = """
UPDATE delivery SET state = 'received'
WHERE destination = ?1 AND seq = (SELECT MIN(seq) FROM queue WHERE destination = ?1 AND lane = ?2)
AND state = 'waiting' AND NOT EXISTS (
  SELECT 1 FROM json_each(delivery.lanes) AS mine CROSS JOIN queue AS q
  WHERE q.destination = ?1 AND q.lane = mine.value AND q.seq < delivery.seq)
"""


class Settling:
    """Writes intents and settlements; lives in the writer thread, inside its transactions."""

    def __init__(self, connection: Connection, claims: Claims) -> None:
        self._connection = connection
        self._claims = claims

    def intend(self, intents: list[tuple[int, str, Intent]]) -> None:
        """Write intents; an intent for what is not claimed is a ForbiddenMoveError."""
        for seq, destination, _intent in intents:
            self._must_be_out(seq, destination)
        self._connection.executemany(INTEND, [_row(*intent) for intent in intents])

    def settle(self, settlements: list[Settlement]) -> list[int]:
        """Write settlements; return for each how many deliveries became runnable by it."""
        self._answer(settlements)
        plans = [(one.seq, one.destination, one.plan) for one in settlements if one.plan]
        if plans:
            self._connection.executemany(PLAN, plans)
        return [self._settle(settlement) for settlement in settlements]

    def _answer(self, settlements: list[Settlement]) -> None:
        for settlement in settlements:
            check_move(State.CLAIMED, settlement.state)
            self._must_be_out(settlement.seq, settlement.destination)
        answers = [
            (
                outcome.status, orjson.dumps(outcome.codes).decode(), outcome.failure, outcome.milliseconds,
                outcome.body, settlement.seq, settlement.destination, outcome.number,
            )
            for settlement in settlements
            for outcome in settlement.outcomes
        ]  # fmt: skip
        if answers:
            self._connection.executemany(ANSWER, answers)

    def _settle(self, settlement: Settlement) -> int:
        seq, destination = settlement.seq, settlement.destination
        execute = self._connection.execute
        row = execute(LANES, (seq, destination)).fetchone()
        if row is None:
            raise ForbiddenMoveError(f"entry {seq} is not claimed for {destination}")
        lanes: list[int] = orjson.loads(row[0])
        state = settlement.state
        again = state is State.RECEIVED
        if again and lanes and execute(IS_BLOCKED, (row[0], destination, seq)).fetchone()[0]:
            state = State.WAITING
        execute(SETTLE, (
            state, settlement.reason, orjson.dumps(settlement.notes).decode(), optional_micros(settlement.retry_at),
            to_micros(settlement.at), settlement.mapping, 1 if again else 0, seq, destination,
        ))  # fmt: skip
        if self._claims.is_ambiguous(seq, destination) and not again:
            execute(UNANSWERED, (seq, destination))
        remember(self._connection, settlement, lanes)
        self._claims.returned(seq, destination)
        if state in UNFINISHED and (state is not State.HELD or settlement.keep_lane):
            return 0
        return leave(self._connection, seq, destination, lanes)

    def _must_be_out(self, seq: int, destination: str) -> None:
        if not self._claims.is_out(seq, destination):
            raise ForbiddenMoveError(f"entry {seq} is not claimed for {destination}")


def leave(connection: Connection, seq: int, destination: str, lanes: list[int]) -> int:
    """Take a delivery out of its lanes; return how many others may run because of it."""
    runnable = 0
    for lane in lanes:
        connection.execute(LEAVE, (destination, lane, seq))
    for lane in lanes:
        runnable += connection.execute(PROMOTE, (destination, lane)).rowcount
    return runnable


def _row(seq: int, destination: str, intent: Intent) -> tuple[object, ...]:
    headers = orjson.dumps(intent.headers).decode()
    return seq, destination, intent.number, intent.method, intent.url, headers, intent.body, to_micros(intent.at)
