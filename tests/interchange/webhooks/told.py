"""What the service has kept of deliveries, read from its own tables once it stands there."""

import time
from collections.abc import Callable
from contextlib import closing
from typing import Any, TypeVar

from engine.interchange.store.place import open_known
from tests.interchange.kit import Running

T = TypeVar("T")
PATIENCE_SECONDS = 30
OUTCOMES = "SELECT outcome FROM notification WHERE subscription=? ORDER BY number"
TRIES = (
    "SELECT t.status, t.reason FROM notification_try AS t JOIN notification AS n ON n.number=t.number"
    " WHERE n.subscription=? ORDER BY t.began_ms, t.number, t.attempt"
)


def settled(service: Running, subscription_id: str) -> list[str]:
    """Return how the events of a subscription ended, once all have."""
    found = until(lambda: rows(service, OUTCOMES, subscription_id), lambda found: all(one[0] for one in found))
    return [one[0] for one in found]


def tries(service: Running, subscription_id: str, count: int) -> list[tuple[int, str]]:
    """Return status and reason of each time that an event of a subscription was sent, once there are so many."""
    return until(lambda: rows(service, TRIES, subscription_id), lambda found: len(found) >= count)


def until(look: Callable[[], T], done: Callable[[T], bool]) -> T:
    """Look until it is so, and return what was seen; AssertionError where it does not become so."""
    end = time.monotonic() + PATIENCE_SECONDS
    while not done(found := look()):
        assert time.monotonic() < end, found
        time.sleep(0.02)
    return found


def rows(service: Running, query: str, *arguments: Any) -> list[Any]:
    """Return what a query finds in a service's database."""
    with closing(open_known(service.database)) as connection:
        return connection.execute(query, arguments).fetchall()
