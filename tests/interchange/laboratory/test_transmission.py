"""Orders on their way, as they are kept: every move that the table allows and no other, and queries by an index."""

import asyncio
import itertools
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

import pytest

from engine.interchange.store import transmission
from engine.interchange.store.store import Store
from engine.interchange.store.transaction import Transaction
from engine.interchange.store.transmission import Sent, TransmissionOutcome, TransmissionStatus, Try

T = TypeVar("T")

START = datetime(2026, 1, 1, tzinfo=UTC)
# Written by hand, beside the table in the code.
ALLOWED = {
    "waiting": "sending held accepted refused withdrawn",
    "sending": "waiting held accepted refused",
    "held": "waiting accepted withdrawn",
    "accepted": "refused",
    "refused": "withdrawn",
    "withdrawn": "",
}
# A way to each standing from `waiting`.
WAYS = {
    "waiting": "",
    "sending": "sending",
    "held": "sending held",
    "accepted": "sending accepted",
    "refused": "sending refused",
    "withdrawn": "withdrawn",
}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """A store whose clock goes a second on with each look at it."""
    ticks = itertools.count()
    found = Store(tmp_path / "s.db", ["t", "u"], lambda: START + timedelta(seconds=next(ticks)), {})
    yield found
    found.close()


def write(store: Store, work: Callable[[Transaction], T], tenant: str = "t") -> T:
    """Do a write."""
    return asyncio.run(store.write(tenant, work))


def placed(store: Store, order: str = "o", laboratory: str = "lab", tenant: str = "t") -> Sent:
    """Return an order that waits."""
    write(store, lambda transaction: transmission.enqueue(transaction, order, laboratory), tenant)
    return found(store, order, tenant)


def found(store: Store, order: str = "o", tenant: str = "t") -> Sent:
    """Return an order as it is kept."""
    one = store.read(tenant, lambda transaction: transmission.find_sent(transaction, order))
    assert one is not None
    return one


def moved(store: Store, to: str) -> Sent | None:
    """Move the order."""
    now = found(store)
    if to == "sending":
        return write(store, lambda transaction: transmission.begin(transaction, now, "C1"))
    return write(store, lambda transaction: transmission.move(transaction, now, TransmissionStatus(to), "why"))


@pytest.mark.parametrize(("start", "to"), [*itertools.product(ALLOWED, ALLOWED)])
def test_every_move(store: Store, start: str, to: str) -> None:
    """An order goes where the table lets it go; else nothing changes."""
    placed(store)
    for step in WAYS[start].split():
        assert moved(store, step) is not None
    before = found(store)
    assert before.standing == start
    after = moved(store, to)
    if to not in ALLOWED[start].split():
        assert after is None
        assert found(store) == before
        return
    assert after == found(store)
    assert after.standing == to
    assert (after.ended_ms is not None) == (to in {"accepted", "refused", "withdrawn"})
    assert after.tries == before.tries + (to == "sending")
    assert after.reason == ("" if to == "sending" else "why")


def test_a_move_of_what_has_moved_does_nothing(store: Store) -> None:
    """Who looked before another one moved the order moves it no more."""
    first = placed(store)
    assert write(store, lambda transaction: transmission.begin(transaction, first, "C1")) is not None
    assert write(store, lambda transaction: transmission.begin(transaction, first, "C1")) is None
    assert write(store, lambda transaction: transmission.move(transaction, first, TransmissionStatus.WITHDRAWN)) is None


@pytest.mark.parametrize(
    ("way", "outcome", "withdrawn"),
    [
        ("", None, True),
        ("sending", None, False),
        ("sending held", TransmissionOutcome.UNKNOWN, False),
        ("sending held", TransmissionOutcome.UNREACHABLE, True),
        ("sending held waiting", TransmissionOutcome.UNKNOWN, False),
        ("sending waiting", TransmissionOutcome.NEVER_HAD_IT, True),
        ("sending accepted", TransmissionOutcome.ACCEPTED, False),
        ("sending refused", TransmissionOutcome.REFUSED, True),
    ],
)
def test_what_the_laboratory_may_have_is_not_withdrawn(
    store: Store, way: str, outcome: TransmissionOutcome | None, *, withdrawn: bool
) -> None:
    """Only where it is certain that the laboratory has nothing of it, or has refused it."""
    placed(store)
    for step in way.split():
        moved(store, step)
    if outcome is not None:
        write(store, lambda transaction: transmission.tried(transaction, found(store), outcome, ""))
    before = found(store).standing
    assert write(store, lambda transaction: transmission.withdraw(transaction, "o")) is withdrawn
    assert found(store).standing == ("withdrawn" if withdrawn else before)
    assert write(store, lambda transaction: transmission.withdraw(transaction, "o")) is withdrawn
    assert write(store, lambda transaction: transmission.withdraw(transaction, "never placed")) is True


def test_an_order_that_was_refused_begins_a_new_attempt(store: Store) -> None:
    """It waits behind what was placed meanwhile, and keeps what came of the first; others are not placed twice."""
    placed(store)
    for step in ("sending", "refused"):
        moved(store, step)
    write(store, lambda transaction: transmission.tried(transaction, found(store), TransmissionOutcome.REFUSED, "AE"))
    placed(store, "other")
    again = placed(store)
    assert (again.attempt, again.tries, again.standing) == (2, 1, "waiting")
    assert [one.order_id for one in transmission.in_standing(store.reader(), TransmissionStatus.WAITING)] == [
        "other",
        "o",
    ]
    assert [one.reason for one in transmission.tries_of(store.reader(), again)] == ["AE"]
    with pytest.raises(Exception, match="UNIQUE"):
        placed(store)


def test_what_did_not_leave_is_told_once(store: Store) -> None:
    """A laboratory that cannot be reached for a day leaves one row, not hundreds; how often it was tried is counted."""
    placed(store)
    for _ in range(5):
        moved(store, "sending")
        write(
            store,
            lambda transaction: transmission.tried(transaction, found(store), TransmissionOutcome.UNREACHABLE, "down"),
        )
        moved(store, "waiting")
    one = found(store)
    assert one.tries == 5
    [told] = transmission.tries_of(store.reader(), one)
    assert told == Try(5, "C1", told.began_ms, told.ended_ms, "unreachable", "down")
    assert told.ended_ms is not None


def test_heads_are_the_first_of_each_laboratory(store: Store) -> None:
    """What was placed first, of each tenant and laboratory; a laboratory of the same name is another's of its own."""
    for order, laboratory, tenant in (("a", "l", "t"), ("b", "l", "t"), ("c", "m", "t"), ("d", "l", "u")):
        placed(store, order, laboratory, tenant)
    assert {(one.tenant, one.order_id) for one in transmission.heads(store.reader())} == {
        ("t", "a"),
        ("t", "c"),
        ("u", "d"),
    }
    first = transmission.next_waiting(store.reader(), "t", "l")
    assert first is not None
    assert first.order_id == "a"
    assert transmission.next_waiting(store.reader(), "u", "m") is None
    assert [(count.standing, count.number) for count in transmission.counts(store.reader())] == [("waiting", 4)]


@pytest.mark.parametrize(
    ("sql", "arguments"),
    [
        (transmission.OF_ORDER, (1, "o")),
        (transmission.OF_ID, ("o",)),
        (transmission.BY_NUMBER, (1,)),
        (transmission.IN_STANDING, ("held",)),
        (transmission.FIRST, ()),
        (transmission.NEXT, ("t", "lab")),
        (transmission.RESULTS_DUE, (1, 1)),
        (transmission.COUNTS, ()),
        (transmission.MOVE, ("held", "", 1, 0, None, None, 1, "sending", 1)),
        (transmission.FORMER, (1, "o")),
        (transmission.TRIES, ("t", "o")),
        (transmission.DOUBT, (1, "o")),
    ],
)
def test_queries_use_an_index(store: Store, sql: str, arguments: tuple[Any, ...]) -> None:
    """Each finds its rows by an index: the orders that have ended are many."""
    steps = [row[3] for row in store.reader().execute(f"EXPLAIN QUERY PLAN {sql}", arguments)]
    large = ("SCAN t", "SCAN transmission", "SCAN transmission_try")
    assert [step for step in steps if step in large] == []
