"""A server is asked to look a patient up: where, how its answers are taken, and that nothing it does is raised."""

from collections.abc import Callable

import orjson
import pytest

from engine.deliver.destination import FhirDestination
from engine.deliver.lookup import ASK_AGAIN_SECONDS, FAILED, REFUSED, UNSUPPORTED
from engine.deliver.reply import Ending, RequestReply
from engine.errors import DeliveryError
from engine.fhir.plan import PatientRecord, Upsert
from tests.deliver.conftest import AT, Site
from tests.deliver.fake_fhir import FakeFhir, Step

HERE = "DocumentReference/$p360-retrieve"
ABOVE = f"/fhir/{HERE}"


async def asked(site: Site, patient: str = "Patient/p1") -> RequestReply:
    """Ask for a look-up."""
    assert site.destination is not None
    return await site.destination.look_up(patient, AT)


@pytest.mark.parametrize(
    ("paths", "settings", "at"),
    [
        pytest.param({HERE}, {}, HERE, id="stated"),
        pytest.param({ABOVE}, {}, ABOVE, id="stated-above"),
        pytest.param({HERE, ABOVE}, {}, HERE, id="stated-twice"),
        pytest.param({ABOVE}, {"lookup_base_url": "/fhir"}, ABOVE, id="named"),
        pytest.param({"/other/" + HERE}, {"lookup_base_url": "/other"}, f"/other/{HERE}", id="named-elsewhere"),
    ],
)
async def test_the_base_that_states_the_operation_is_asked(
    server: FakeFhir, site: Site, paths: set[str], settings: dict[str, str], at: str
) -> None:
    """A base that lists $p360-retrieve is asked, base_url first, then the one above /R4, or the one that is named."""
    server.lookup_paths = paths
    origin = server.base.removesuffix("/fhir/R4")
    site.open(**{key: f"{origin}{value}" for key, value in settings.items()})
    for _ in range(2):
        reply = await asked(site)
        assert reply == RequestReply(Ending.ACCEPTED, handle=f"{server.base}/RequestResult/p1")
    assert server.looked_up == ["p1", "p1"]
    assert [request for request in server.requests if "retrieve" in request] == [f"POST {at}?patient=p1"] * 2
    statements = [request for request in server.requests if request.endswith("metadata")]
    assert len(statements) == (0 if settings else 1 + (at == ABOVE)), "what it states is asked once"


async def test_a_server_without_the_operation_is_left_in_peace(
    server: FakeFhir, ticking: Callable[..., tuple[list[float], FhirDestination]]
) -> None:
    """A server that lists no look-ups is not asked for one; what it lists is looked at again after ten minutes."""
    ticks, destination = ticking()
    for _ in range(3):
        assert await destination.look_up("Patient/p1", AT) == RequestReply(Ending.REFUSED, UNSUPPORTED)
    assert [request.partition("?")[0] for request in server.requests] == ["GET metadata", "GET /fhir/metadata"]
    assert UNSUPPORTED in destination.missing()
    server.lookup_paths = {ABOVE}
    ticks[0] = ASK_AGAIN_SECONDS
    assert (await destination.look_up("Patient/p1", AT)).ending is Ending.ACCEPTED
    assert UNSUPPORTED not in destination.missing()
    await destination.close()


@pytest.mark.parametrize(
    ("step", "ending", "codes"),
    [
        pytest.param({"status": 200}, Ending.ACCEPTED, (), id="done-at-once"),
        pytest.param({"status": 202}, Ending.ACCEPTED, (), id="without-a-handle"),
        pytest.param({"status": 422}, Ending.REFUSED, ("http-422", "required"), id="demographics"),
        pytest.param({"status": 404}, Ending.REFUSED, ("http-404", "required"), id="404"),
        pytest.param({"status": 501}, Ending.REFUSED, ("http-501", "required"), id="501"),
        pytest.param({"status": 403}, Ending.REFUSED, ("http-403", "required"), id="forbidden"),
        pytest.param({"status": 307}, Ending.REFUSED, ("http-307", "required"), id="elsewhere"),
        pytest.param({"status": 401}, Ending.RETRY, ("http-401", "required"), id="token"),
        pytest.param({"status": 429}, Ending.RETRY, ("http-429", "required"), id="too-many"),
        pytest.param({"status": 500}, Ending.RETRY, ("http-500", "required"), id="500"),
        pytest.param({"status": 503}, Ending.RETRY, ("http-503", "required"), id="503"),
        pytest.param({"status": 200, "fault": True}, Ending.REFUSED, ("http-200", "required"), id="success-with-error"),
        pytest.param({"drop": True}, Ending.RETRY, ("connection-lost",), id="line-breaks"),
    ],
)
async def test_each_answer_means_one_thing(
    server: FakeFhir, site: Site, step: dict[str, int], ending: Ending, codes: tuple[str, ...]
) -> None:
    """200 and 202 are accepted; what may pass is tried again; everything else ends it, with the server's codes."""
    server.lookup_paths = {HERE}
    site.open()
    issue = {"severity": "error", "code": "required", "diagnostics": "SENTINEL"}
    fault = step.pop("fault", step.get("status", 0) >= 300)
    body = orjson.dumps({"resourceType": "OperationOutcome", "issue": [issue]}) if fault else None
    server.script.append(Step("POST", body=body, **step))
    reply = await asked(site)
    reason = {Ending.ACCEPTED: "", Ending.REFUSED: REFUSED, Ending.RETRY: FAILED}[ending]
    assert (reply.ending, reply.reason, reply.codes, reply.handle) == (ending, reason, codes, "")


async def test_the_server_says_how_long_to_wait(server: FakeFhir, site: Site) -> None:
    """Retry-After of a 429 is kept, and the bounds of all retries hold for it."""
    server.lookup_paths = {HERE}
    site.open()
    server.script.append(Step("POST", 429, headers={"Retry-After": "17"}))
    assert (await asked(site)).retry_after_seconds == 17


async def test_a_server_that_is_down_is_told_and_not_raised(server: FakeFhir, site: Site) -> None:
    """Nobody listens: the look-up is to be tried again; `doctor`, who asks for the base, gets the error."""
    site.open()
    await server.stop()
    assert await asked(site) == RequestReply(Ending.RETRY, FAILED, ("connection-refused",))
    assert site.destination is not None
    with pytest.raises(DeliveryError, match="connection-refused"):
        await site.destination.lookup_base()


async def test_the_patient_of_a_delivery_is_told(
    server: FakeFhir, site: Site, patient: Callable[..., PatientRecord]
) -> None:
    """A delivered verdict names the record that the message is about: created, updated, or as it was; else none."""
    site.open()
    for _ in ("created", "unchanged"):
        assert (await site.send(Upsert(patient("1001")))).patient == "Patient/p1"
    server.script.append(Step("GET", 500))
    assert (await site.send(Upsert(patient("1002")))).patient == ""
