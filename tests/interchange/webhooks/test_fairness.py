"""One receiver that is ill delays no other: what a sound one is owed reaches it while the others fail."""

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
import trustme

from tests.interchange.kit import Running
from tests.interchange.subscriptions.subscribing import create, observation, subscribe
from tests.interchange.webhooks.receiver import SILENT, Receiver, Step, receiving, server_context
from tests.interchange.webhooks.told import rows, until

QUARTER = 15 * 60
# More than there are places for those that failed.
MANY = 40
WAITING = "SELECT count(*) FROM notification WHERE subscription=? AND ended_ms IS NULL"
FAILED = "SELECT count(*) FROM notification_try WHERE status<>200"


@pytest.fixture(params=["down", "silent", "broken", "expired"])
def ill(request: pytest.FixtureRequest, authority: trustme.CA) -> Iterator[str]:
    """The endpoint of a receiver that is down, never answers, answers 500, or has an expired certificate."""
    if request.param == "down":
        yield "https://127.0.0.1:9/hook"
        return
    after = datetime(2020, 1, 1, tzinfo=UTC) if request.param == "expired" else None
    script: dict[str, tuple[Step, ...]] = {"silent": (SILENT,), "broken": (500,)}
    context = server_context(authority.issue_cert("127.0.0.1", not_after=after))
    with receiving(context, *script.get(request.param, ())) as found:
        yield found.url


def test_a_sound_receiver_beside_many_ill_ones(sending: Running, hook: Receiver, ill: str) -> None:
    """Each event of 20 is with the sound receiver while 40 subscriptions wait for an ill one."""
    for _ in range(MANY):
        subscribe(sending, "Observation", channel={"endpoint": ill})
    mine = subscribe(sending, "Observation", channel={"endpoint": hook.url})["id"]
    who = sending.create()["id"]
    made = [create(sending, observation(who))["id"] for _ in range(20)]
    # A silent one is broken off after ten seconds: it is not waited for.
    posts = hook.wait(len(made), 8)
    assert {post.event for post in posts} == {f"Observation/{one}" for one in made}
    until(lambda: rows(sending, WAITING, mine)[0][0], lambda left: left == 0)


@pytest.mark.matrix
def test_a_receiver_that_is_down_for_a_day(sending: Running, hook: Receiver) -> None:
    """While one is down for a day, and its events are tried again and dropped, each event reaches the other at once."""
    down = subscribe(sending, "Observation", channel={"endpoint": "https://127.0.0.1:9/hook"})["id"]
    subscribe(sending, "Observation", channel={"endpoint": hook.url})
    who = sending.create()["id"]
    for hour in range(24):
        create(sending, observation(who))
        hook.wait(hour + 1, 8)
        for _ in range(3600 // QUARTER):
            before = rows(sending, FAILED)[0][0]
            sending.advance(QUARTER)
            if rows(sending, WAITING, down)[0][0] and _is_active(sending, down):
                until(lambda: rows(sending, FAILED)[0][0], lambda count, least=before: count > least)
        sending.tokens.clear()
    assert len(hook.posts) == 24
    seen = sending.ask("GET", f"/fhir/R4/Subscription/{down}").json()
    assert seen["status"] == "off", "21 attempts failed, none succeeded"


def _is_active(service: Running, subscription_id: str) -> bool:
    return bool(rows(service, "SELECT 1 FROM subscription WHERE id=? AND active=1", subscription_id))
