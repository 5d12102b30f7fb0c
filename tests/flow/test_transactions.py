"""Transactions to the service that go wrong on the way: nothing is lost or done twice, whatever the engine was told."""

from collections.abc import Callable

import orjson
import pytest

from tests.flow.proxy import Call, Fault
from tests.flow.rig import Rig, channel_file, destination, write
from tests.flow.wards import BASE, admission, check_wards, transactions

pytestmark = pytest.mark.parametrize("journal", ["sqlite", "postgresql"], indirect=True)

PATIENTS = 12
OUTCOME = b'{"resourceType":"OperationOutcome","issue":[{"severity":"error","code":"processing"}]}'
FHIR = {"Content-Type": "application/fhir+json"}


def _on_transactions(fault: Fault, nth: int) -> Callable[[Call], Fault | None]:
    """Return a script by which every nth transaction goes wrong."""
    seen: list[Call] = []

    def script(call: Call) -> Fault | None:
        if call.method != "POST" or call.path != BASE:
            return None
        seen.append(call)
        return fault if len(seen) % nth == 0 else None

    return script


@pytest.mark.parametrize(
    ("fault", "nth"),
    [
        pytest.param(Fault(status=500), 2, id="500-before-commit"),
        pytest.param(Fault(status=504, after_commit=True), 2, id="504-after-commit"),
        pytest.param(Fault(drop=True), 2, id="line-breaks-before-commit"),
        pytest.param(Fault(drop=True, after_commit=True), 2, id="line-breaks-after-commit"),
        pytest.param(Fault(status=429, headers={"Retry-After": "0"}), 2, id="429"),
        pytest.param(Fault(status=422, headers=FHIR, body=OUTCOME), 1, id="422-always"),
        pytest.param(Fault(status=500, headers=FHIR, body=OUTCOME), 1, id="500-always"),
        pytest.param(Fault(status=200, headers=FHIR, body=OUTCOME, after_commit=True), 2, id="200-that-says-it-failed"),
        pytest.param(
            Fault(
                status=200,
                headers=FHIR,
                body=b'{"resourceType":"Bundle","type":"transaction-response"}',
                after_commit=True,
            ),
            2,
            id="200-that-shows-nothing",
        ),
        pytest.param(
            Fault(status=200, headers=FHIR, body=b'{"resourceType":"Bundle","type":"transaction-response"}'),
            2,
            id="200-and-nothing-done",
        ),
    ],
)
async def test_transactions_that_go_wrong(rig: Rig, fault: Fault, nth: int) -> None:
    """Admissions and transfers to new wards all end delivered, each thing once, each visit where it belongs."""
    rig.proxy.script = _on_transactions(fault, nth)
    await rig.engine.start()
    numbers = range(1, PATIENTS + 1)
    for event in ("A01", "A02"):
        await rig.sender([admission(number, event) for number in numbers], 4).run()
    await rig.drained()
    assert {row.state for row in rig.rows()} == {"delivered"}
    await check_wards(rig, numbers)
    assert rig.proxy.faults > 1  # how many transactions there are depends on how fast the answers come
    if nth == 1:  # those under way when it was given up were sent so, and none after them
        assert len(transactions(rig)) < 2 * PATIENTS
        assert b"transactions-fail" in orjson.dumps(await rig.ask("destinations.list"))
    assert await rig.engine.stop() == 0


async def test_off_sends_none(rig: Rig) -> None:
    """With `bundle: off` the same is sent request by request."""
    channel = channel_file(rig.proxy.url) | {"destinations": [destination(rig.proxy.url, bundle="off")]}
    write(rig.folder / "channels" / "riverbend-adt.yaml", channel)
    await rig.engine.start()
    await rig.sender([admission(number) for number in range(1, 4)], 4).run()
    await rig.drained()
    await check_wards(rig, range(1, 4))
    assert transactions(rig) == []
    assert await rig.engine.stop() == 0
