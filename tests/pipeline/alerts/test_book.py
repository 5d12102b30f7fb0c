"""The book: an alert opens once and clears once, whatever happens in between, and over restarts."""

from dataclasses import replace
from datetime import timedelta

from engine.journal.state.alerting import Alert
from engine.pipeline.alerts.book import AlertBook, AlertCondition
from engine.pipeline.alerts.kind import AlertKind
from tests.journal.desk import NOW, Desk

WRONG = AlertCondition(AlertKind.QUEUE_DEPTH, "fhir", wrong=True, detail="10000 wait")
RIGHT = AlertCondition(AlertKind.QUEUE_DEPTH, "fhir", wrong=False)
NEW = AlertCondition(AlertKind.NEW_SOURCE, "adt", wrong=True, detail="entry 7")


def listened(desk: Desk) -> tuple[AlertBook, list[Alert]]:
    """Return a book on the desk's journal, and what is heard from it."""
    book, heard = AlertBook(desk.journal), []
    book.listeners.append(heard.append)
    return book, heard


async def test_it_opens_once_and_clears_once(desk: Desk) -> None:
    """However often it is looked at, two are heard."""
    book, heard = listened(desk)
    for _ in range(3):
        await book.settle([WRONG], NOW)
    for minute in range(1, 4):
        await book.settle([RIGHT], NOW + timedelta(minutes=minute))
    assert [(one.kind, one.subject, one.cleared_at) for one in heard] == [
        ("queue-depth", "fhir", None),
        ("queue-depth", "fhir", NOW + timedelta(minutes=1)),
    ]
    assert book.open() == ()
    assert [one.cleared_at for one in await book.latest(10)] == [NOW + timedelta(minutes=1)]


async def test_what_is_open_is_told_in_one_way(desk: Desk) -> None:
    """The list of what is open and the list of all say the same of it: how it is now, not how it began."""
    book, _ = listened(desk)
    await book.settle([WRONG], NOW)
    await book.settle([replace(WRONG, detail="12000 wait")], NOW)
    assert [one.detail for one in book.open()] == ["12000 wait"]
    assert await book.latest(10) == book.open()


async def test_a_restart_opens_nothing_anew_and_clears_what_is_over(desk: Desk) -> None:
    """The next life knows what was open; what it does not look at stays."""
    first, _ = listened(desk)
    await first.settle([WRONG], NOW)
    book, heard = listened(desk)
    await book.recall()
    assert [one.detail for one in book.open()] == ["10000 wait"]
    await book.settle([WRONG], NOW)
    await book.settle([], NOW)
    assert heard == []
    await book.settle([RIGHT], NOW)
    assert [one.cleared_at for one in heard] == [NOW]


async def test_what_happened_stays_until_somebody_has_seen_it(desk: Desk) -> None:
    """A new source cannot un-happen: acknowledging clears it."""
    book, heard = listened(desk)
    await book.settle([NEW], NOW)
    await book.settle([AlertCondition(AlertKind.NEW_SOURCE, "adt", wrong=False)], NOW)
    (alert,) = book.open()
    done = await book.acknowledge(alert.id, NOW, "root")
    assert done is not None
    assert (done.acknowledged_by, done.cleared_at, book.open()) == ("root", NOW, ())
    assert len(heard) == 2
    assert await book.acknowledge(alert.id, NOW, "root") is None


async def test_acknowledging_a_condition_leaves_it_open(desk: Desk) -> None:
    """Somebody has taken care, and it is still so; the first name stays."""
    book, _ = listened(desk)
    await book.settle([WRONG], NOW)
    (alert,) = book.open()
    await book.acknowledge(alert.id, NOW, "ada")
    await book.acknowledge(alert.id, NOW, "ben")
    assert [(one.acknowledged_by, one.cleared_at) for one in await book.latest(5)] == [("ada", None)]
