"""Requests that take too long: reads are ended, writes go on, and nothing stays open (point C-317)."""

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from engine.interchange.rest.resource import search
from engine.interchange.store.sqlite import connect
from engine.interchange.store.transaction import Transaction
from tests.interchange.kit import Inside, issue, patient

pytestmark = pytest.mark.process

ENDLESS = "WITH RECURSIVE up(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM up) SELECT count(*) FROM up"


def endless(transaction: Transaction, *_given: Any, **_more: Any) -> Any:
    """Read until somebody ends it."""
    return transaction.connection.execute(ENDLESS).fetchone()


def until(told: Callable[[], bool]) -> None:
    """Wait until something is so; AssertionError after a minute."""
    deadline = time.monotonic() + 60
    while not told():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@contextlib.contextmanager
def hasty(inside: Inside) -> Iterator[None]:
    """Let no request take longer than a moment, for as long as nothing is asked that must be answered."""
    service = inside.app.service
    usual = service.configuration
    service.configuration = usual.model_copy(update={"request_timeout_s": 0.2})
    yield
    service.configuration = usual


@pytest.mark.parametrize("query", ["?_lastUpdated=ge2020", "?_id=x"])
def test_a_long_read_is_ended(inside: Inside, monkeypatch: pytest.MonkeyPatch, query: str) -> None:
    """C-317: a read beyond request_timeout_s is 504, in a thread or not, and its connection serves the next."""
    assert inside.ask("GET", "/fhir/R4/Patient").status_code == 200
    with monkeypatch.context() as patched, hasty(inside):
        patched.setattr(search, "find", endless)
        for _ in range(12):  # more than there are threads to read in
            issue(inside.ask("GET", f"/fhir/R4/Patient{query}"), 504, "timeout")
    for path in ("/fhir/R4/Patient", f"/fhir/R4/Patient{query}"):
        assert inside.ask("GET", path).status_code == 200
    with contextlib.closing(connect(inside.database)) as beside:
        until(lambda: beside.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0] == 0)  # nobody reads any more
    assert inside.ask("POST", "/fhir/R4/Patient", json=patient()).status_code == 201


def test_a_write_that_was_handed_over_is_not_said_to_have_failed(
    inside: Inside, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A write that waits beyond the limit is 504, which says that nobody knows, and is kept all the same."""
    assert inside.ask("GET", "/fhir/R4/Patient").status_code == 200
    service = inside.app.service
    begun, go = threading.Event(), threading.Event()

    def hold(_connection: Any) -> bool:
        begun.set()
        return go.wait(60)

    blocking = asyncio.run_coroutine_threadsafe(service.store.write_raw(hold), inside.loop)
    assert begun.wait(60)
    with hasty(inside):
        told = issue(inside.ask("POST", "/fhir/R4/Patient", json=patient()), 504, "timeout")
    assert "not known" in told["diagnostics"]
    go.set()
    assert blocking.result(60)
    until(lambda: inside.ask("GET", "/fhir/R4/Patient?_count=0").json()["total"] == 1)


def test_a_client_that_leaves(inside: Inside) -> None:
    """A client that closes its line while it is answered disturbs nobody."""
    inside.token("physician")
    inside.http.post(f"{inside.url}/_test/slow", json={"path": "/fhir", "seconds": 0.1})
    with pytest.raises(Exception, match="timed out"):
        inside.ask("GET", "/fhir/R4/Patient", timeout=0.02)
    assert inside.ask("GET", "/fhir/R4/Patient").status_code == 200
