"""A destination that misbehaves: other patients flow, nothing is lost, and the journal says what happened."""

from collections.abc import Callable

import pytest

from tests.crash.checker import History, Judgement, judge
from tests.flow.feed import FeedMessage, make_feed
from tests.flow.proxy import PATIENT, Call, Fault
from tests.flow.rig import Rig, Row
from tests.flow.sender import Sender

MESSAGES, MERGES, CONNECTIONS = 120, 6, 8
PAUSED_SECONDS = 25.0  # a breaker pauses for some seconds; what forgets to look again takes longer


async def _run(rig: Rig, feed: list[FeedMessage], script: Callable[[Call], Fault | None]) -> Sender:
    """Send a whole feed while the proxy misbehaves."""
    rig.proxy.script = script
    await rig.engine.start()
    sender = rig.sender(feed, CONNECTIONS)
    await sender.run()
    return sender


async def _judged(rig: Rig, sender: Sender, *held: str) -> Judgement:
    """Stop the engine and judge the run."""
    assert await rig.engine.stop() == 0
    patients = await rig.patients()
    history = History(
        sender.log,
        rig.rows(),
        rig.attempts(),
        rig.proxy.calls,
        patients,
        rig.proxy.faults,
        1,
        frozenset(held),
        await rig.visits(patients),
    )
    return judge(history)


def _every(nth: int, fault: Fault, method: str = "") -> Callable[[Call], Fault | None]:
    """Return a script by which every nth write goes wrong, but none twice in a row: rounds are bounded, then held."""
    count = 0
    struck: set[tuple[str, bytes]] = set()

    def script(call: Call) -> Fault | None:
        nonlocal count
        if not call.writes or call.method != (method or call.method):
            return None
        count += 1
        write = (call.path, call.body if call.method == "POST" else b"")
        if count % nth == 0 and write not in struck:
            struck.add(write)
            return fault
        struck.discard(write)
        return None

    return script


@pytest.mark.parametrize(
    "script",
    [
        pytest.param(_every(5, Fault(status=429, headers={"Retry-After": "0"})), id="429"),
        pytest.param(_every(5, Fault(status=503)), id="503"),
        pytest.param(_every(5, Fault(status=500)), id="500-before-commit"),
        pytest.param(_every(5, Fault(status=500, after_commit=True)), id="500-after-commit"),
        pytest.param(_every(5, Fault(status=504, after_commit=True)), id="504-after-commit"),
        pytest.param(_every(5, Fault(drop=True)), id="line-breaks-before-commit"),
        pytest.param(_every(5, Fault(drop=True, after_commit=True)), id="line-breaks-after-commit"),
        pytest.param(_every(3, Fault(status=504, after_commit=True), "POST"), id="504-after-creates-and-merges"),
        pytest.param(_every(7, Fault(wait_seconds=0.3)), id="slow"),
        pytest.param(_every(4, Fault(status=412), "PUT"), id="412-without-a-reason"),
    ],
)
async def test_what_may_pass_is_tried_again_until_it_is_right(
    rig: Rig, seed: int, script: Callable[[Call], Fault | None]
) -> None:
    """Failures that pass cost time only: everything ends delivered, once, in order."""
    sender = await _run(rig, make_feed(seed, MESSAGES, MERGES), script)
    await rig.drained()
    judgement = await _judged(rig, sender)
    assert not judgement.violations, judgement.report()
    assert rig.proxy.faults > 5
    assert judgement.counts["merges"] == MERGES


async def test_a_destination_that_is_down_loses_nothing(rig: Rig, seed: int) -> None:
    """While nobody answers, messages are accepted and wait; once it is back, all is delivered."""
    await rig.engine.start()
    await rig.proxy.close()
    sender = rig.sender(make_feed(seed, MESSAGES, MERGES), CONNECTIONS)
    await sender.run()
    rows = rig.rows()
    assert {row.state for row in rows if row.state not in {"received", "waiting", "claimed"}} <= {"rejected"}
    await rig.proxy.open()
    await rig.drained(PAUSED_SECONDS)
    judgement = await _judged(rig, sender)
    assert not judgement.violations, judgement.report()


async def test_a_service_that_is_killed_and_comes_back_loses_nothing(rig: Rig, seed: int) -> None:
    """The service dies in the middle of the work and is started again on the same database."""
    await rig.engine.start()
    sender = rig.sender(make_feed(seed, MESSAGES, MERGES), CONNECTIONS)
    await sender.run()
    await rig.service.kill()
    await rig.service.start()
    await rig.drained(PAUSED_SECONDS)
    judgement = await _judged(rig, sender)
    assert not judgement.violations, judgement.report()


def _family_of(feed: list[FeedMessage]) -> tuple[int, frozenset[str]]:
    """Return the family of the feed with the most messages, and the telephone numbers of its messages."""
    families = [message.family for message in feed]
    chosen = max(set(families), key=families.count)
    return chosen, frozenset(message.stamp for message in feed if message.family == chosen)


def _of(rows: list[Row], feed: list[FeedMessage], family: int) -> tuple[list[Row], list[Row]]:
    """Return the rows of one family, and those of all others."""
    ids = {message.control_id for message in feed if message.family == family}
    return [row for row in rows if row.control_id in ids], [row for row in rows if row.control_id not in ids]


async def test_422_for_one_patient_holds_that_patient_only(rig: Rig, seed: int) -> None:
    """A refusal for good holds the patient's lane with its reason; everybody else is delivered."""
    feed = make_feed(seed, MESSAGES, 0)
    family, stamps = _family_of(feed)
    outcome = b'{"resourceType":"OperationOutcome","issue":[{"severity":"error","code":"invalid"}]}'
    refusal = Fault(status=422, headers={"Content-Type": "application/fhir+json"}, body=outcome)
    sender = await _run(rig, feed, lambda call: refusal if call.writes and call.stamps & stamps else None)
    rows = await rig.until(lambda rows: _settled_but(rows, feed, family))
    theirs, others = _of(rows, feed, family)
    assert {row.state for row in others} <= {"delivered", "rejected"}
    assert [row.state for row in theirs] == ["held"] + ["waiting"] * (len(theirs) - 1)
    assert theirs[0].reason
    refused = [tried for tried in rig.attempts() if tried.seq == theirs[0].seq]
    assert [tried.status for tried in refused] == [422]
    assert len(sender.log) == len(feed)
    assert await rig.engine.stop() == 0
    assert not {call.order for call in rig.proxy.calls if call.took_effect and call.stamps & stamps}


async def test_a_slow_destination_does_not_slow_the_acknowledgements(rig: Rig, seed: int) -> None:
    """With every call slow, all messages are accepted while most still wait for delivery."""
    feed = make_feed(seed, MESSAGES, 0)
    sender = await _run(rig, feed, lambda call: Fault(wait_seconds=0.5) if call.path.startswith(PATIENT) else None)
    assert all(line.code == "AA" for line in sender.log)
    assert sum(row.state == "delivered" for row in rig.rows()) < len(feed) // 2
    rig.proxy.script = lambda _call: None
    await rig.drained()
    judgement = await _judged(rig, sender)
    assert not judgement.violations, judgement.report()


async def test_a_refused_token_pauses_the_destination_and_poisons_nobody(rig: Rig, seed: int) -> None:
    """401 to everything holds no patient: the whole destination waits, and goes on when it is let in again."""
    feed = make_feed(seed, 40, 0)
    sender = await _run(rig, feed, lambda call: Fault(status=401) if call.path.startswith(PATIENT) else None)
    rows = rig.rows()
    assert not [row for row in rows if row.state == "held"]
    rig.proxy.script = lambda _call: None
    await rig.drained(PAUSED_SECONDS)
    judgement = await _judged(rig, sender)
    assert not judgement.violations, judgement.report()


def _settled_but(rows: list[Row], feed: list[FeedMessage], family: int) -> bool:
    theirs, others = _of(rows, feed, family)
    done = all(row.state not in {"received", "claimed", "waiting"} for row in others)
    return done and len(rows) > 1 and any(row.state == "held" for row in theirs)
