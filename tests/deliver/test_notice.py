"""A server is told of an event: by which message, how its answers are taken, and that nothing it does is raised."""

import ssl
from base64 import b64encode
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import orjson
import pytest

from engine.config.settings import shipped
from engine.deliver.notice import FAILED, NOBODY, REFUSED, UNSUPPORTED, Notice
from engine.deliver.reply import Ending, RequestReply
from engine.fhir.plan import Plan
from engine.hl7.message import parse
from engine.mapping.authoring.case import channel_of
from engine.mapping.compile import compile_mapping, read
from tests.deliver.conftest import AT, MRN, Site
from tests.deliver.fake_chart import FakeChart
from tests.deliver.fake_fhir import Step
from tests.deliver.wire.test_mutual_tls import Seen
from tests.deliver.wire.test_proxy import FakeProxy

MAPPING = compile_mapping(read([shipped("mappings")], "adt"), channel_of({"authorities": {"RVB": MRN}}))
RECEIVED = datetime(2026, 3, 1, 11, 59, 58, 250_000, tzinfo=UTC)
NOTICE = Notice("riverbend-adt", b"\x01" * 32, "A01", RECEIVED, "Patient/p1", "Encounter/e1")


@pytest.fixture
async def chart() -> AsyncIterator[FakeChart]:
    """A server that takes notices and has a patient and a visit."""
    fake = await FakeChart().start()
    fake.takes_notices = True
    fake.add("p1", name=[{"family": "SENTINEL"}])
    fake.chart["Encounter/e1"] = {
        "resourceType": "Encounter",
        "id": "e1",
        "meta": {"versionId": "1"},
        "identifier": [],
        "subject": {"reference": "Patient/p1"},
    }
    yield fake
    await fake.stop()


@pytest.fixture
async def feed(chart: FakeChart) -> AsyncIterator[Site]:
    """A destination for it."""
    site = Site(chart.base).open(if_none_exist="identifier")
    yield site
    await site.close()


async def told(site: Site, notice: Notice = NOTICE) -> RequestReply:
    """Tell the destination of an event."""
    assert site.destination is not None
    return await site.destination.notify(notice, AT)


async def test_a_message_has_the_event_the_patient_and_the_visit(chart: FakeChart, feed: Site) -> None:
    """A Bundle of type message: the header first, with the trigger event; the records as the server has them."""
    assert await told(feed) == RequestReply(Ending.ACCEPTED)
    assert chart.requests == ["GET Patient/p1", "GET Encounter/e1", "POST $process-message"]
    assert chart.headers[-1]["Content-Type"] == "application/fhir+json"
    (bundle,) = chart.notices
    header = bundle["entry"][0]["resource"]
    identifier = bundle["identifier"]["value"].removeprefix("urn:uuid:")
    assert (UUID(identifier).version, UUID(header["id"]).version) == (5, 5)
    assert header["id"] != identifier
    assert bundle == {
        "resourceType": "Bundle",
        "identifier": {"system": "urn:ietf:rfc:3986", "value": f"urn:uuid:{identifier}"},
        "type": "message",
        "timestamp": "2026-03-01T11:59:58.250+00:00",
        "entry": [
            {"fullUrl": f"{chart.base}/MessageHeader/{header['id']}", "resource": header},
            {"fullUrl": f"{chart.base}/Patient/p1", "resource": chart.patients["p1"]},
            {"fullUrl": f"{chart.base}/Encounter/e1", "resource": chart.chart["Encounter/e1"]},
        ],
    }
    assert header == {
        "resourceType": "MessageHeader",
        "id": header["id"],
        "eventCoding": {
            "system": "http://terminology.hl7.org/CodeSystem/message-events",
            "code": "admin-notify",
        },
        "source": {"name": "adt-engine", "endpoint": "urn:adt-engine:riverbend-adt"},
        "reason": {"coding": [{"system": "http://terminology.hl7.org/CodeSystem/v2-0003", "code": "A01"}]},
        "focus": [{"reference": "Patient/p1"}, {"reference": "Encounter/e1"}],
    }


async def test_stu3_has_the_time_in_the_header(chart: FakeChart, feed: Site) -> None:
    """Its Bundle has no timestamp, its header needs one, and the event is a Coding named so."""
    await feed.again(fhir="STU3")
    await told(feed)
    (bundle,) = chart.notices
    header = bundle["entry"][0]["resource"]
    assert "timestamp" not in bundle
    assert "eventCoding" not in header
    assert header["event"]["code"] == "admin-notify"
    assert header["timestamp"] == "2026-03-01T11:59:58.250+00:00"


async def test_the_same_message_is_known_by_the_same_identifier(chart: FakeChart, feed: Site) -> None:
    """By the message and its channel alone: not by when it is told, nor by what the records are by then."""
    await told(feed)
    chart.touch("p1", active=False)
    await told(feed, replace(NOTICE, received_at=AT, visit=""))
    await told(feed, replace(NOTICE, digest=b"\x02" * 32))
    await told(feed, replace(NOTICE, channel="other"))
    first, again, *others = ((notice["identifier"], notice["entry"][0]["resource"]["id"]) for notice in chart.notices)
    assert first == again
    assert len({identifier["value"] for identifier, _ in (first, *others)}) == 3
    assert len({header for _, header in (first, *others)}) == 3


@pytest.mark.parametrize("case", ["about-none", "deleted-meanwhile", "moved-meanwhile"])
async def test_a_message_without_a_visit_has_the_patient_alone(chart: FakeChart, feed: Site, case: str) -> None:
    """Where the message is about no visit, or that was deleted since, or given to another patient (A45)."""
    if case == "deleted-meanwhile":
        chart.delete("Encounter/e1")
    if case == "moved-meanwhile":
        chart.write("Encounter/e1", subject={"reference": "Patient/xp1"})
    assert (await told(feed, replace(NOTICE, visit="" if case == "about-none" else "Encounter/e1"))).reason == ""
    (bundle,) = chart.notices
    assert [one["resource"]["resourceType"] for one in bundle["entry"]] == ["MessageHeader", "Patient"]
    assert bundle["entry"][0]["resource"]["focus"] == [{"reference": "Patient/p1"}]


@pytest.mark.parametrize("deletes", [False, True])
async def test_nobody_is_told_of_a_patient_who_is_gone(chart: FakeChart, feed: Site, deletes: bool) -> None:
    """404 and 410 of the patient end the notice without a request."""
    del chart.patients["p1"]
    chart.gone |= {"p1"} if deletes else set()
    assert await told(feed) == RequestReply(Ending.GIVEN_UP, NOBODY)
    assert chart.notices == []


REQUIRED = {"resourceType": "OperationOutcome", "issue": [{"severity": "error", "code": "required"}]}


@pytest.mark.parametrize(
    ("step", "ending", "reason", "codes"),
    [
        pytest.param({"status": 200}, Ending.ACCEPTED, "", (), id="taken"),
        pytest.param({"status": 202}, Ending.ACCEPTED, "", (), id="taken-to-be-done"),
        pytest.param({"status": 404}, Ending.REFUSED, UNSUPPORTED, ("http-404", "required"), id="404"),
        pytest.param({"status": 405}, Ending.REFUSED, UNSUPPORTED, ("http-405", "required"), id="405"),
        pytest.param({"status": 501}, Ending.REFUSED, UNSUPPORTED, ("http-501", "required"), id="501"),
        pytest.param(
            {"status": 400, "code": "not-supported"},
            *(Ending.REFUSED, UNSUPPORTED, ("http-400", "not-supported")),
            id="not-supported",
        ),
        pytest.param({"status": 400}, Ending.REFUSED, REFUSED, ("http-400", "required"), id="400"),
        pytest.param({"status": 403}, Ending.REFUSED, REFUSED, ("http-403", "required"), id="forbidden"),
        pytest.param({"status": 422}, Ending.REFUSED, REFUSED, ("http-422", "required"), id="422"),
        pytest.param({"status": 200, "fault": True}, Ending.REFUSED, REFUSED, ("http-200", "required"), id="200-error"),
        pytest.param({"status": 401}, Ending.RETRY, FAILED, ("http-401", "required"), id="token"),
        pytest.param({"status": 429}, Ending.RETRY, FAILED, ("http-429", "required"), id="too-many"),
        pytest.param({"status": 500}, Ending.RETRY, FAILED, ("http-500", "required"), id="500"),
        pytest.param({"status": 503}, Ending.RETRY, FAILED, ("http-503", "required"), id="503"),
        pytest.param({"drop": True}, Ending.RETRY, FAILED, ("connection-lost",), id="line-breaks"),
    ],
)
async def test_each_answer_means_one_thing(
    chart: FakeChart, feed: Site, step: dict[str, Any], ending: Ending, reason: str, codes: tuple[str, ...]
) -> None:
    """200 is taken; what may pass is tried again; a server without the operation is told apart from a refusal."""
    issue = REQUIRED["issue"][0] | {"code": step.pop("code", "required")}
    fault = step.pop("fault", step.get("status", 0) >= 300)
    body = orjson.dumps(REQUIRED | {"issue": [issue]}) if fault else None
    chart.script.append(Step("POST", body=body, **step))
    assert await told(feed) == RequestReply(ending, reason, codes)


async def test_what_cannot_be_read_is_told_later(chart: FakeChart, feed: Site) -> None:
    """A server that does not show the patient just now is asked again; so is one that shows something else."""
    chart.script.append(Step("GET", 503, headers={"Retry-After": "7"}))
    assert await told(feed) == RequestReply(Ending.RETRY, FAILED, ("http-503",), retry_after_seconds=7)
    for body in (b"<html>SENTINEL</html>", b'{"resourceType":"OperationOutcome"}', b'{"resourceType":"Patient"}'):
        chart.script.append(Step("GET", 200, body=body))
        assert await told(feed) == RequestReply(Ending.RETRY, FAILED, ("answer-unreadable",))
    assert chart.notices == []
    await chart.stop()
    assert (await told(feed)).ending is Ending.RETRY


async def test_a_server_without_the_operation_is_known(chart: FakeChart, feed: Site) -> None:
    """Operators see it with the destination, until a notice is taken; an answer that may pass says nothing of it."""
    assert feed.destination is not None
    assert UNSUPPORTED not in feed.destination.missing()
    chart.takes_notices = False
    assert (await told(feed)).reason == UNSUPPORTED
    chart.script.append(Step("POST", 503))
    await told(feed)
    assert UNSUPPORTED in feed.destination.missing()
    chart.takes_notices = True
    await told(feed)
    assert UNSUPPORTED not in feed.destination.missing()


def plan(event: str, number: str, *more: str, visit: str = "") -> Plan:
    """Return the plan for an event of a patient, and of a visit where there is one."""
    head = f"MSH|^~\\&|REG|RVB|||20260302080000||ADT^{event}|{event}|P|2.5.1\rEVN|{event}|20260302080000"
    pid = f"PID|1||{number}^^^RVB^MR||SENTINEL^Amara||19600102|F"
    pv1 = (f"PV1|1|I|3W||||||||||||||||{visit}^^^RVB",) if visit else ()
    return MAPPING.plan(parse("\r".join((head, pid, *more, *pv1)).encode()))


async def test_patient_and_visit_of_a_delivery_are_told(chart: FakeChart, feed: Site) -> None:
    """What a delivered message is about: new, known and unchanged; no visit for a message without; the survivor."""
    first = await feed.deliver(plan("A01", "1", visit="V1"))
    assert first.patient in {f"Patient/{patient}" for patient in chart.patients}
    assert chart.chart[first.visit]["resourceType"] == "Encounter"
    again = await feed.deliver(plan("A01", "1", visit="V1"))
    assert (again.reason, again.patient, again.visit) == ("unchanged", first.patient, first.visit)
    alone = await feed.deliver(plan("A08", "1"))
    assert (alone.patient, alone.visit) == (first.patient, "")
    other = await feed.deliver(plan("A28", "2"))
    assert other.patient not in {first.patient, ""}
    await feed.again(allow_merge=True)
    verdict = await feed.deliver(plan("A40", "1", "MRG|2^^^RVB^MR"))
    assert (verdict.reason, verdict.patient, verdict.visit) == ("merged", first.patient, "")


async def test_nobody_is_the_patient_of_a_delivery_that_deleted_one(chart: FakeChart, feed: Site) -> None:
    """A29 where patients are deleted leaves nobody to tell of; where they are set inactive, it leaves the record."""
    await feed.deliver(plan("A28", "1"))
    assert (await feed.deliver(plan("A29", "1"))).patient != ""
    chart.deletes = chart.cascades = True
    await feed.again(deleted_person="delete")
    await feed.deliver(plan("A28", "2"))
    verdict = await feed.deliver(plan("A29", "2"))
    assert (verdict.reason, verdict.patient) == ("deleted", "")


async def test_a_notice_is_sent_by_all_http_settings_of_its_destination(
    chart: FakeChart, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Through the proxy, with the engine's certificate, fixed headers and sign-in, as each other request there."""
    secrets = {"PW": "SENTINEL-basic", "API_KEY": "SENTINEL-header", "PROXY_PW": "SENTINEL-proxy"}
    for name, text in secrets.items():
        monkeypatch.setenv(name, text)
    seen = Seen(tmp_path, ssl.TLSVersion.TLSv1_3)
    await chart.stop()
    await chart.start(ssl=seen.context)
    proxy = await FakeProxy().start()
    proxy.credentials = b64encode(b"us:SENTINEL-proxy").decode()
    ways = {"proxy": proxy.url, "proxy_user": "us", "proxy_password": {"env": "PROXY_PW"}}
    headers = {"X-Tenant": "north", "X-Api-Key": {"env": "API_KEY"}}
    auth = {"type": "basic", "username": "engine", "password": {"env": "PW"}}
    site = Site(chart.base).open(notify="admin-notify", headers=headers, auth=auth, **ways, **seen.settings)
    try:
        assert await told(site) == RequestReply(Ending.ACCEPTED)
        assert [head.split(" ")[0] for head in proxy.heads] == ["CONNECT"]
        basic = f"Basic {b64encode(b'engine:SENTINEL-basic').decode()}"
        sent = {(one.get("Authorization"), one.get("X-Tenant"), one.get("X-Api-Key")) for one in chart.headers}
        assert sent == {(basic, "north", "SENTINEL-header")}
        assert chart.requests[-1] == "POST $process-message"
        assert not any(text in orjson.dumps(chart.notices).decode() for text in secrets.values())
    finally:
        await site.close()
        await proxy.stop()
