"""The Subscription resource: what may be asked for, how it is kept and shown, and when it is off."""

from collections.abc import Iterator
from typing import Any

import pytest

from engine.config.service import Tenant
from tests.interchange.kit import Running, issue, running
from tests.interchange.subscriptions.subscribing import ENDPOINT, patched, subscribe, subscription


@pytest.fixture
def few(tmp_path: Any) -> Iterator[Running]:
    """A service whose tenant may have two active subscriptions."""
    tenants = {name: Tenant(active_subscription_limit=2) for name in ("riverbend", "lakeside")}
    clients_of = {**tenants, "lax": Tenant(scope_enforcement="off")}
    with running(tmp_path, tenants=clients_of) as found:
        yield found


def test_a_subscription_is_active_at_once(own_service: Running, base: str) -> None:
    """C-450, C-456: 201, Location, status active; read, and found by status and type."""
    answer = own_service.ask("POST", f"{base}/Subscription", json=subscription())
    assert answer.status_code == 201, answer.text
    made = answer.json()
    assert made["status"] == "active"
    assert answer.headers["location"] == f"{own_service.url}{base}/Subscription/{made['id']}/_history/1"
    assert own_service.ask("GET", f"{base}/Subscription/{made['id']}").json() == made
    for query in ("status=active", "type=rest-hook", f"url={ENDPOINT}", "criteria=Encounter"):
        found = own_service.ask("GET", f"{base}/Subscription?{query}").json()
        assert [one["resource"]["id"] for one in found["entry"]] == [made["id"]], query
    assert own_service.ask("GET", f"{base}/Subscription?status=off").json()["total"] == 0


@pytest.mark.parametrize("element", ["reason", "criteria", "status", "channel.type", "channel.endpoint"])
def test_what_is_missing(service: Running, base: str, element: str) -> None:
    """C-452: 400 required, named where it should stand."""
    part, _, rest = element.partition(".")
    changes: dict[str, Any] = {part: {rest: None} if rest else None}
    refused = service.ask("POST", f"{base}/Subscription", json=subscription(**changes))
    assert issue(refused, 400, "required")["location"] == [f"Subscription.{element}"]


WRONG = [
    ({"channel": {"endpoint": "http://hooks.example/x"}}, "invalid", "channel.endpoint"),
    ({"channel": {"endpoint": "https://user:word@hooks.example/x"}}, "invalid", "channel.endpoint"),
    ({"channel": {"endpoint": "https://hooks.example/x#part"}}, "invalid", "channel.endpoint"),
    ({"channel": {"endpoint": "https:///x"}}, "invalid", "channel.endpoint"),
    ({"channel": {"endpoint": "https://hooks.example:0/x"}}, "invalid", "channel.endpoint"),
    ({"channel": {"type": "websocket"}}, "not-supported", "channel.type"),
    ({"channel": {"type": "email"}}, "not-supported", "channel.type"),
    ({"channel": {"payload": "text/plain"}}, "not-supported", "channel.payload"),
    ({"channel": {"header": ["no line"]}}, "invalid", "channel.header"),
    ({"channel": {"header": ["Host: other.example"]}}, "invalid", "channel.header"),
    ({"channel": {"header": ["X-Key: one\r\nX-Other: two"]}}, "invalid", "channel.header"),
    ({"channel": {"header": ["X-Key: ***"]}}, "invalid", "channel.header"),
    ({"channel": {"header": [f"X-{number}: a" for number in range(21)]}}, "invalid", "channel.header"),
    ({"status": "error"}, "invalid", "status"),
    ({"criteria": "Foo?x=1"}, "invalid", "criteria"),
    ({"criteria": "Observation?nonsense=1"}, "invalid", "criteria"),
    ({"criteria": "Observation?code="}, "invalid", "criteria"),
    ({"criteria": "Observation?"}, "invalid", "criteria"),
    ({"criteria": "Observation?date=soon"}, "invalid", "criteria"),
    ({"criteria": "Organization?name=x"}, "invalid", "criteria"),
    ({"criteria": "Bundle?message.event=other"}, "invalid", "criteria"),
    ({"criteria": "Observation?_include=Observation:subject"}, "invalid", "criteria"),
    ({"criteria": f"Observation?code={'x' * 3000}"}, "invalid", "criteria"),
]


@pytest.mark.parametrize(("changes", "code", "place"), WRONG)
def test_what_is_refused(service: Running, base: str, changes: dict[str, Any], code: str, place: str) -> None:
    """C-451, C-453, C-454, C-455: 422 at the element; the value of a header line is not repeated."""
    refused = service.ask("POST", f"{base}/Subscription", json=subscription(**changes))
    assert issue(refused, 422, code)["location"] == [f"Subscription.{place}"]
    assert "word" not in refused.text
    assert "two" not in refused.text


def test_nothing_refused_is_kept(own_service: Running) -> None:
    """C-451: none of what is refused is stored."""
    for changes, _, _ in WRONG:
        own_service.ask("POST", "/fhir/R4/Subscription", json=subscription(**changes))
    assert own_service.ask("GET", "/fhir/R4/Subscription?_summary=count").json()["total"] == 0


@pytest.mark.parametrize(
    "criteria", ["Encounter", "Coverage?beneficiary=Patient/x", "Observation?code=a|b,c&date=ge2026"]
)
def test_criteria_of_each_shape(service: Running, base: str, criteria: str) -> None:
    """C-455: a type alone, references, codes and dates with prefixes; a payload need not be said (C-454)."""
    made = subscribe(service, criteria, base, channel={"payload": None})
    assert made["criteria"] == criteria
    assert service.ask("DELETE", f"{base}/Subscription/{made['id']}").status_code == 204


def test_types_are_called_as_in_the_version(service: Running) -> None:
    """C-455: ProcedureRequest is STU3's name alone, and ServiceRequest R4's."""
    made = subscribe(service, "ProcedureRequest?status=active", "/fhir")
    assert service.ask("DELETE", f"/fhir/Subscription/{made['id']}").status_code == 204
    for base, name in (("/fhir", "ServiceRequest"), ("/fhir/R4", "ProcedureRequest")):
        refused = service.ask("POST", f"{base}/Subscription", json=subscription(f"{name}?status=active"))
        assert "of which" not in issue(refused, 422, "invalid")["diagnostics"]


def test_put_and_patch(service: Running, base: str) -> None:
    """C-457, C-458: PATCH switches off and on; PUT replaces the endpoint; requested is active."""
    made = subscribe(service, "Encounter", base)
    path = f"{base}/Subscription/{made['id']}"
    off = patched(service, base, made["id"], {"op": "replace", "path": "/status", "value": "off"})
    assert (off.status_code, off.json()["status"]) == (200, "off")
    on = patched(service, base, made["id"], {"op": "replace", "path": "/status", "value": "requested"})
    assert (on.status_code, on.json()["status"]) == (200, "active")
    changed = {**on.json(), "channel": {**made["channel"], "endpoint": "https://other.example/hook"}}
    put = service.ask("PUT", path, json=changed)
    assert put.status_code == 200
    assert put.json()["channel"]["endpoint"] == "https://other.example/hook"
    refused = service.ask(
        "PUT", path, json={**changed, "channel": {**changed["channel"], "endpoint": "http://x.example/"}}
    )
    assert issue(refused, 422, "invalid")["location"] == ["Subscription.channel.endpoint"]
    assert service.ask("GET", path).json() == put.json()
    gone = service.ask("DELETE", path)
    assert gone.status_code == 204
    assert service.ask("GET", path).status_code == 410, "C-459, N-120"


def test_one_too_many(few: Running) -> None:
    """C-460: beyond the limit 422; what is off does not count, of another tenant neither; nor does it itself."""
    first, _ = (subscribe(few, "Encounter") for _ in range(2))
    refused = few.ask("POST", "/fhir/R4/Subscription", json=subscription())
    assert issue(refused, 422, "business-rule")["location"] == ["Subscription.status"]
    third = subscribe(few, "Encounter", status="off")
    subscribe(few, "Encounter", client="other")
    turn_on = {"op": "replace", "path": "/status", "value": "active"}
    assert patched(few, "/fhir/R4", third["id"], turn_on).status_code == 422
    assert few.ask("PUT", f"/fhir/R4/Subscription/{first['id']}", json=first).status_code == 200
    assert few.ask("DELETE", f"/fhir/R4/Subscription/{first['id']}").status_code == 204
    assert patched(few, "/fhir/R4", third["id"], turn_on).status_code == 200
    # What is brought back counts, too.
    assert few.ask("PUT", f"/fhir/R4/Subscription/{first['id']}", json=first).status_code == 422


def test_an_extension_is_no_value(service: Running, base: str) -> None:
    """C-452: an element that has an extension in place of its value says nothing that could be done."""
    empty = {
        "extension": [{"url": "http://hl7.org/fhir/StructureDefinition/data-absent-reason", "valueCode": "unknown"}]
    }
    for changes in ({"criteria": None, "_criteria": empty}, {"status": None, "_status": empty}):
        issue(service.ask("POST", f"{base}/Subscription", json=subscription(**changes)), 400, "required")
    channel = {"type": None, "_type": empty}
    issue(service.ask("POST", f"{base}/Subscription", json=subscription(channel=channel)), 400, "required")


def test_its_end(own_service: Running, base: str) -> None:
    """C-461: once its end has passed it is off, and says why; one that is over already is off from the start."""
    made = subscribe(own_service, "Encounter", base, end="2030-01-01T00:00:00Z")
    over = subscribe(own_service, "Encounter", base, end="2020-01-01T00:00:00Z")
    assert (made["status"], over["status"], over["error"]) == ("active", "off", "Its end has passed.")
    own_service.advance(5 * 366 * 86_400)
    own_service.tokens.clear()
    ended = own_service.ask("GET", f"{base}/Subscription/{made['id']}").json()
    assert (ended["status"], ended["error"], ended["meta"]["versionId"]) == ("off", "Its end has passed.", "2")
    again = patched(
        own_service,
        base,
        made["id"],
        {"op": "remove", "path": "/end"},
        {"op": "replace", "path": "/status", "value": "active"},
    )
    assert (again.json()["status"], "error" in again.json()) == ("active", False)


def test_header_values_are_never_shown(own_service: Running, base: str) -> None:
    """No way of reading shows the value of a header line, nor does the file; *** keeps it, but for another server."""
    line = "Authorization: Bearer kitchen-sink-4711"
    made = subscribe(own_service, "Encounter", base, channel={"header": [line, "X-Route: north-4711"]})
    path = f"{base}/Subscription/{made['id']}"
    assert made["channel"]["header"] == ["Authorization: ***", "X-Route: ***"]
    kept = own_service.ask("PUT", path, json={**made, "reason": "another"})
    assert kept.status_code == 200
    for way in (path, f"{path}/_history", f"{path}/_history/1", f"{base}/Subscription?status=active"):
        assert "4711" not in own_service.ask("GET", way).text
    for file in own_service.database.parent.glob("*.db*"):
        assert b"4711" not in file.read_bytes(), file
    away = {**made, "channel": {**made["channel"], "endpoint": "https://thief.example/x"}}
    told = issue(own_service.ask("PUT", path, json=away), 422, "invalid")
    assert told["location"] == ["Subscription.channel.header"]
    same = {**made, "channel": {**made["channel"], "endpoint": ENDPOINT + "/other"}}
    assert own_service.ask("PUT", path, json=same).status_code == 200
    new = {**made["channel"], "header": ["X-New: ***"]}
    assert own_service.ask("PUT", path, json={**made, "channel": new}).status_code == 422


@pytest.mark.parametrize("client", ["nurse", "administrative"])
def test_who_may_not(service: Running, base: str, client: str) -> None:
    """Subscriptions are managed by physicians and systems alone (service.md 4.5)."""
    made = subscribe(service, "Encounter", base)
    path = f"{base}/Subscription/{made['id']}"
    for method, where in (("POST", f"{base}/Subscription"), ("GET", path), ("PUT", path), ("DELETE", path)):
        body = {"json": made} if method in {"POST", "PUT"} else {}
        assert service.ask(method, where, client=client, **body).status_code == 403, method
    assert service.ask("GET", path, client="other").status_code == 404, "another tenant's"
    assert service.ask("DELETE", path).status_code == 204


def test_nobody_is_told_what_he_may_not_read(service: Running, base: str) -> None:
    """A token that may write subscriptions and read Observations subscribes to nothing else."""
    scope = "user/Subscription.write user/Observation.read"
    told = service.ask("POST", f"{base}/Subscription", scope=scope, json=subscription("Observation"))
    assert told.status_code == 201
    assert (
        service.ask("DELETE", f"{base}/Subscription/{told.headers['location'].rpartition('/')[2]}").status_code == 204
    )
    for criteria in ("Condition", "Patient.P360", "Bundle?message.event=admin-notify", "Bundle?clinicalAlerts=true"):
        refused = service.ask("POST", f"{base}/Subscription", scope=scope, json=subscription(criteria))
        assert issue(refused, 403, "forbidden")["diagnostics"].startswith("The token may not read"), criteria
