"""The engine killed, and answers lost, around creates under ids of numbers and with idempotency keys: each once."""

from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.crash.checker import Verdict
from tests.crash.lives import DEATH_SECONDS, DELIVERING, KILLED, Lives
from tests.destinations.azure_like import AzureLike
from tests.destinations.double_rig import DoubleRig
from tests.destinations.google_like import GoogleLike
from tests.destinations.healthlake_like import KEY, HealthLakeLike
from tests.flow.feed import FeedMessage, make_feed
from tests.flow.proxy import Call, Fault

# Intended, built, sent, answered, settled: the first write of each life is the create of its patient.
AROUND = ("F11", "F12", "F13", "F14", "F15", "F17")
WAYS = [(AzureLike, {"profile": "azure"}), (HealthLakeLike, {"profile": "healthlake"})]
CONNECTIONS = 8


@pytest.fixture
async def rig(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[DoubleRig]:
    """The double and the way of creating that the test names, behind a proxy; the test starts the engine."""
    double, keys = request.param
    opened = DoubleRig(tmp_path, double())
    try:
        yield await opened.open(**keys)
    finally:
        await opened.close()


def by(*ways: tuple[Any, dict[str, str]]) -> pytest.MarkDecorator:
    """Give a test some ways of creating, each at a double."""
    return pytest.mark.parametrize(
        "rig", ways, indirect=True, ids=[f"{kind.__name__} {' '.join(how.values())}" for kind, how in ways]
    )


def newcomer(number: int) -> FeedMessage:
    """Return the first message of a person."""
    name, at = f"N{number:04d}", f"2026030206{number:02d}00"
    pid = f"PID|1||N{number}^^^RVB^MR||Kim^Ada||1954030{number}|F"
    head = f"MSH|^~\\&|REG|RIVERBEND|ADTENGINE|HUB|{at}||ADT^A28^ADT_A05|{name}|P|2.5.1"
    return FeedMessage(name, number, "".join(f"{segment}\r" for segment in (head, f"EVN|A28|{at}", pid)).encode(), "")


def copies(rig: DoubleRig) -> Counter[str]:
    """Return how many records each number has."""
    numbered = [item for patient in rig.double.patients.values() for item in patient["identifier"]]
    return Counter(item["value"] for item in numbered if item.get("use") != "old")


@by(*WAYS)
async def test_killed_around_the_create_of_a_patient(rig: DoubleRig) -> None:
    """Killed at each point of a create and started again, the engine makes each person once."""
    for number, point in enumerate(AROUND, 1):
        await rig.engine.spawn(ENGINE_FAULT=f"{point}:kill:1")
        await rig.sender([newcomer(number)], 1).run()
        assert await rig.engine.ended(DEATH_SECONDS) == KILLED, (point, rig.engine.log())
        await rig.engine.start()
        await rig.drained()
        assert await rig.engine.stop() == 0
    assert {(row.state, row.reason) for row in rig.rows()} <= {("delivered", "created"), ("delivered", "unchanged")}
    assert copies(rig) == {f"N{number}": 1 for number, _ in enumerate(AROUND, 1)}
    assert len([effect for effect in rig.double.effects if effect.startswith("create ")]) == len(AROUND)
    keys = Counter(call.headers[KEY] for call in rig.proxy.calls if KEY in call.headers)
    assert (not keys) is (isinstance(rig.double, AzureLike))
    assert not any(f"N{number}" in key for key in keys for number in range(1, 7))


@by(*WAYS)
@pytest.mark.parametrize("committed", [True, False], ids=["taken", "not taken"])
async def test_an_answer_that_is_lost(rig: DoubleRig, committed: bool) -> None:
    """The line breaks after each create was sent, or before it came: the server is read before it is sent again."""
    lost: Counter[str] = Counter()

    def script(call: Call) -> Fault | None:
        number = call.path if call.method == "PUT" else call.headers.get(KEY, "")
        if call.method not in {"PUT", "POST"} or lost[number]:
            return None
        lost[number] += 1
        return Fault(drop=True, after_commit=committed)

    rig.proxy.script = script
    await rig.engine.start()
    await rig.sender([newcomer(number) for number in range(1, 6)], 2).run()
    await rig.drained()
    assert {row.state for row in rig.rows()} == {"delivered"}
    assert copies(rig) == {f"N{number}": 1 for number in range(1, 6)}
    assert sum(lost.values()) >= 5


@by(*WAYS, (GoogleLike, {"profile": "google", "create": "client-id"}))
async def test_killed_at_every_point_of_delivery_under_load(rig: DoubleRig, seed: int) -> None:
    """Many lives, with answers lost in each: nothing is lost, nothing is there twice, the order is kept."""
    lives = Lives(rig, make_feed(seed, 20 * len(DELIVERING), 0), CONNECTIONS)
    writes = 0

    def script(call: Call) -> Fault | None:
        nonlocal writes
        writes += call.method in {"PUT", "POST"}
        if call.method == "GET" or writes % 9:
            return None
        return Fault(drop=True, after_commit=bool(writes % 2))

    rig.proxy.script = script
    try:
        for point in DELIVERING:
            await lives.die_at(point, 3)
        judgement = await lives.live()
    finally:
        await lives.end()
    assert not judgement.violations, judgement.report()
    assert judgement.verdict is Verdict.VALID
    created = Counter(effect for effect in rig.double.effects if effect.startswith("create "))
    assert set(created.values()) == {1}
    assert set(copies(rig).values()) == {1}
    visits = Counter(visit["identifier"][0]["value"] for visit in rig.double.of("Encounter"))
    assert set(visits.values()) <= {1}
