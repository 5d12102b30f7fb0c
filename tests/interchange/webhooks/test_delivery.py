"""Webhooks over real HTTPS: what is sent, what counts as taken, and when it is sent again."""

import socket
import sqlite3
import ssl
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import trustme

from engine.interchange.events.webhooks.settling import TIMEOUT_SECONDS
from tests.interchange.kit import Running
from tests.interchange.subscriptions.subscribing import R4, create, observation, owed, patched, subscribe
from tests.interchange.webhooks.receiver import ELSEWHERE, ENDLESS, LEAVE, SILENT, Receiver, receiving, server_context
from tests.interchange.webhooks.told import settled, tries

QUARTER = 15 * 60
BROKEN = (
    "INSERT INTO notification (tenant, subscription, version, event, body, made_ms, due_ms)"
    " SELECT tenant, id, version, 'adt-notify', ?, 0, 0 FROM subscription WHERE id=?"
)
# A little less than an idle connection is kept.
KEPT_SECONDS = 1.5


def later(service: Running, seconds: float = QUARTER) -> None:
    """Let time pass, over which tokens expire."""
    service.advance(seconds)
    service.tokens.clear()


def to(hook: Receiver, *lines: str) -> dict[str, Any]:
    """Return the channel of a receiver."""
    return {"endpoint": hook.url, **({"header": list(lines)} if lines else {})}


def test_a_matching_create_is_told(sending: Running, hook: Receiver, base: str) -> None:
    """C-470 to C-475, C-484, C-485: one POST with the whole resource, the headers, and never again."""
    who = sending.create(base)["id"]
    lines = ("Authorization: Bearer kitchen-sink", "Content-Type: text/plain", "User-Agent: x", "x-service-eventid: y")
    told = subscribe(sending, "Observation?code=789-8", base, channel=to(hook, *lines))["id"]
    create(sending, observation(who, "1-1"), base)
    made = create(sending, observation(who), base)
    [post] = hook.wait(1)
    assert post.body == made
    assert post.raw == sending.ask("GET", f"{base}/Observation/{made['id']}").content
    assert post.path == "/hook"
    assert post.headers["content-type"] == "application/fhir+json"
    assert post.headers["user-agent"] == "ClinicalDataService-FHIR-Webhook/1.0"
    assert post.event == f"Observation/{made['id']}"
    assert post.headers["authorization"] == "Bearer kitchen-sink"
    changed = sending.ask("PUT", f"{base}/Observation/{made['id']}", json={**made, "status": "amended"}).json()
    assert hook.wait(2)[1].body == changed
    assert sending.ask("DELETE", f"{base}/Observation/{made['id']}").status_code == 204, "C-487"
    later(sending, 2 * QUARTER)
    create(sending, observation(who), base)
    assert [one.body["meta"]["versionId"] for one in hook.wait(3)] == ["1", "2", "1"]
    assert settled(sending, told) == ["delivered"] * 3


def test_each_in_the_version_of_its_subscription(sending: Running, hook: Receiver) -> None:
    """C-470: R4 and STU3 subscribers are told the same write, each in its version, by its version's name."""
    who = sending.create()["id"]
    subscribe(sending, "ServiceRequest", R4, channel=to(hook))
    subscribe(sending, "ProcedureRequest", "/fhir", channel=to(hook))
    asked = {
        "resourceType": "ServiceRequest",
        "status": "active",
        "intent": "order",
        "code": {"text": "walk"},
        "subject": {"reference": f"Patient/{who}"},
    }
    made = create(sending, asked)
    posts = {one.body["resourceType"]: one for one in hook.wait(2)}
    assert posts["ServiceRequest"].body == made
    assert posts["ServiceRequest"].event == f"ServiceRequest/{made['id']}"
    assert posts["ProcedureRequest"].body == sending.ask("GET", f"/fhir/ProcedureRequest/{made['id']}").json()
    assert posts["ProcedureRequest"].event == f"ProcedureRequest/{made['id']}"


def test_a_document(sending: Running, hook: Receiver, base: str) -> None:
    """C-488: a DocumentReference is told with status, type, subject.reference and date."""
    who = sending.create(base)["id"]
    subscribe(sending, "DocumentReference?status=current", base, channel=to(hook))
    document: dict[str, Any] = {
        "resourceType": "DocumentReference",
        "status": "current",
        "type": {"text": "Summary"},
        "subject": {"reference": f"Patient/{who}"},
        "content": [{"attachment": {"title": "x"}}],
    }
    document |= {"date": "2026-03-01T10:00:00Z"} if base == R4 else {"indexed": "2026-03-01T10:00:00Z"}
    create(sending, document, base)
    body = hook.wait(1)[0].body
    assert (body["status"], body["subject"]["reference"]) == ("current", f"Patient/{who}")
    assert body["type"] == {"text": "Summary"}
    assert body["date" if base == R4 else "indexed"].startswith("2026-03-01T10:00:00")


def test_a_version_that_was_overtaken(sending: Running, hook: Receiver) -> None:
    """C-477: a retry has the body of its own version, however often the resource was changed since."""
    hook.script[:] = [500, 200]
    who = sending.create()["id"]
    subscribe(sending, "Observation?status=preliminary", channel=to(hook))
    made = create(sending, observation(who, status="preliminary"))
    hook.wait(1)
    assert sending.ask("PUT", f"{R4}/Observation/{made['id']}", json={**made, "status": "final"}).is_success
    assert sending.ask("DELETE", f"{R4}/Observation/{made['id']}").is_success
    later(sending)
    first, second = hook.wait(2)
    assert first.raw == second.raw


@pytest.mark.parametrize("status", [200, 202])
def test_what_counts_as_taken(sending: Running, hook: Receiver, status: int) -> None:
    """C-475: 200 and 202."""
    hook.script[:] = [status]
    told = subscribe(sending, "Patient", channel=to(hook))["id"]
    sending.create()
    hook.wait(1)
    assert settled(sending, told) == ["delivered"]


@pytest.mark.parametrize(
    "step",
    [201, 503, LEAVE, *(pytest.param(step, marks=pytest.mark.matrix) for step in (204, ELSEWHERE, 400, 404, 429, 500))],
)
def test_what_counts_as_failure(sending: Running, hook: Receiver, step: Any) -> None:
    """C-476, C-477: any other status, and no redirect is followed; again after 15 minutes, not earlier, the same."""
    hook.script[:] = [step, 200]
    told = subscribe(sending, "Patient", channel=to(hook))["id"]
    sending.create()
    hook.wait(1)
    [failed] = tries(sending, told, 1)
    assert failed[0] == ({ELSEWHERE: 302, LEAVE: 0}.get(step, step))
    later(sending, QUARTER - 20)
    other = sending.create()
    # What comes later is not held up by it; once that is there, the first would have been, too.
    assert hook.wait(2)[1].body["id"] == other["id"]
    later(sending, 20)
    first, _, again = hook.wait(3)
    assert (again.raw, again.event, again.path) == (first.raw, first.event, "/hook")
    assert settled(sending, told) == ["delivered"] * 2


def test_it_is_given_up(sending: Running, hook: Receiver) -> None:
    """C-478: the first attempt and five more, then it is dropped."""
    hook.script[:] = [500]
    told = subscribe(sending, "Patient", channel=to(hook))["id"]
    sending.create()
    for attempt in range(1, 7):
        hook.wait(attempt)
        assert len(tries(sending, told, attempt)) == attempt
        later(sending)
    assert settled(sending, told) == ["dropped"]
    hook.script[:] = [200]
    sending.create()
    assert len(hook.wait(7)) == 7
    assert sending.ask("GET", f"{R4}/Subscription/{told}").json()["status"] == "active"


def test_it_recovers(sending: Running, hook: Receiver) -> None:
    """C-479: taken at the third retry, it is not sent again."""
    hook.script[:] = [500, 500, 500, 202]
    told = subscribe(sending, "Patient", channel=to(hook))["id"]
    sending.create()
    for attempt in range(1, 4):
        hook.wait(attempt)
        tries(sending, told, attempt)
        later(sending)
    hook.wait(4)
    assert settled(sending, told) == ["delivered"]
    later(sending)
    sending.create()
    assert len(hook.wait(5)) == 5


def test_an_event_that_cannot_be_told(sending: Running, hook: Receiver) -> None:
    """An event whose body cannot be made fails by itself: the next one is told, and the log shows nothing of it."""
    told = subscribe(sending, "Patient", channel=to(hook))["id"]
    with sqlite3.connect(sending.database) as connection:
        connection.execute(BROKEN, (b'{"Quintero": ', told))
    made = sending.create()
    hook.wait(1)
    (status, reason), *_ = tries(sending, told, 2)
    assert (status, reason) == (0, "the service had an internal error while it was being sent")
    assert [post.body["id"] for post in hook.posts] == [made["id"]]
    assert "Quintero" not in sending.process.log.read_text()


def test_a_connection_that_was_closed_meanwhile(sending: Running, hook: Receiver) -> None:
    """A receiver may close a connection that was kept just when it is used again: a new one is opened, at once."""
    hook.script[:] = [200, LEAVE, 200]
    told = subscribe(sending, "Patient", channel=to(hook))["id"]
    sending.create()
    assert settled(sending, told) == ["delivered"]
    made = sending.create()
    first, second = hook.wait(2)[:2]
    if second.at - first.at > KEPT_SECONDS:
        pytest.skip("the machine stood still for longer than a connection is kept")
    assert settled(sending, told) == ["delivered"] * 2
    assert [status for status, _ in tries(sending, told, 2)] == [200, 200]
    assert [one.body["id"] for one in hook.wait(3)[1:]] == [made["id"]] * 2


@pytest.mark.matrix
def test_a_receiver_that_is_silent(sending: Running, hook: Receiver, authority: trustme.CA) -> None:
    """C-480: no answer within ten seconds is a failure; another receiver is told meanwhile."""
    assert TIMEOUT_SECONDS == 10
    hook.script[:] = [SILENT]
    told = subscribe(sending, "Patient", channel=to(hook))["id"]
    with receiving(server_context(authority.issue_cert("127.0.0.1"))) as other:
        subscribe(sending, "Patient", channel=to(other))
        sending.create()
        other.wait(1)
        [(status, reason)] = tries(sending, told, 1)
        assert (status, reason) == (0, "did not answer in time")


def test_an_answer_without_end(sending: Running, hook: Receiver) -> None:
    """A huge answer is not read: its status counts."""
    hook.script[:] = [ENDLESS]
    told = subscribe(sending, "Patient", channel=to(hook))["id"]
    sending.create()
    hook.wait(1)
    assert settled(sending, told) == ["delivered"]


def old_tls(authority: trustme.CA) -> ssl.SSLContext:
    """Return a server of TLS 1.1 alone, which takes all that this machine's library still has."""
    context = server_context(authority.issue_cert("127.0.0.1"))
    context.set_ciphers("ALL:@SECLEVEL=0")
    context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1
    return context


def of_another(_: trustme.CA) -> ssl.SSLContext:
    """Return a server of an authority that nobody knows."""
    return server_context(trustme.CA().issue_cert("127.0.0.1"))


def of_another_host(authority: trustme.CA) -> ssl.SSLContext:
    """Return a server with the certificate of another host."""
    return server_context(authority.issue_cert("hooks.example"))


def expired(authority: trustme.CA) -> ssl.SSLContext:
    """Return a server whose certificate was good until yesterday."""
    return server_context(authority.issue_cert("127.0.0.1", not_after=datetime.now(UTC) - timedelta(days=1)))


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion.TLSv1_1 is deprecated")
@pytest.mark.parametrize("context", [old_tls, of_another, of_another_host, expired])
def test_a_certificate_or_line_that_is_not_trusted(sending: Running, authority: trustme.CA, context: Any) -> None:
    """C-481, C-482: self-signed, another host's, expired, or TLS 1.1: a failure, and nothing of the event is sent."""
    with receiving(context(authority)) as hook:
        told = subscribe(sending, "Patient", channel=to(hook))["id"]
        sending.create()
        [(status, reason)] = tries(sending, told, 1)
        assert (status, reason) == (0, "cannot be reached, or its certificate is not trusted")
        assert hook.posts == []


def test_nobody_listens(sending: Running) -> None:
    """A port on which nobody listens is a failure like any other."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        endpoint = f"https://127.0.0.1:{taken.getsockname()[1]}/x"
        told = subscribe(sending, "Patient", channel={"endpoint": endpoint})["id"]
        sending.create()
        assert tries(sending, told, 1)[0][0] == 0


@pytest.mark.matrix
def test_a_subscription_that_only_fails(sending: Running, hook: Receiver) -> None:
    """C-483: with the first event that is dropped after 20 failures and no success it is off, and says why.

    What it was owed is not sent any more; made active again, it begins anew.
    """
    hook.script[:] = [500]
    told = subscribe(sending, "Patient", channel=to(hook))["id"]
    for _ in range(4):
        sending.create()
    for attempt in range(1, 6):
        hook.wait(4 * attempt)
        tries(sending, told, 4 * attempt)
        later(sending)
    assert settled(sending, told) == ["dropped", *["off"] * 3]
    off = sending.ask("GET", f"{R4}/Subscription/{told}").json()
    assert off["status"] == "off"
    assert off["error"].startswith(
        "Suspended: the endpoint took no event, 21 attempts failed, the last one: answered 500."
    )
    sending.create()
    assert len(owed(sending, told)) == 4
    hook.script[:] = [200]
    on = patched(sending, R4, told, {"op": "replace", "path": "/status", "value": "active"})
    assert "error" not in on.json()
    sending.create()
    hook.wait(22)
    assert settled(sending, told) == ["dropped", *["off"] * 3, "delivered"]


@pytest.mark.matrix
def test_a_subscription_that_fails_for_days(sending: Running, hook: Receiver) -> None:
    """C-483: a success that is three days ago, and twelve failures since: it is off; a younger one keeps it on."""
    told = subscribe(sending, "Patient", channel=to(hook))["id"]
    sending.create()
    hook.wait(1)
    assert settled(sending, told) == ["delivered"]
    hook.script[:] = [500]
    for days, status in ((1, "active"), (2, "off")):
        later(sending, days * 86_400)
        before = len(hook.posts)
        sending.create()
        for attempt in range(1, 7):
            hook.wait(before + attempt)
            tries(sending, told, before + attempt)
            later(sending)
        settled(sending, told)
        assert sending.ask("GET", f"{R4}/Subscription/{told}").json()["status"] == status
