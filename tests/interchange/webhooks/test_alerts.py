"""Leading indicators and clinical alerts: what exchange networks say of enrolled patients, by a sandbox's hooks."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import trustme

from engine.config.service import ClinicalAlerts, Organization, Webhooks
from engine.fhir.schema import defects
from tests.interchange.kit import Running, merge_body, running
from tests.interchange.least import version_of
from tests.interchange.subscriptions.subscribing import R4, owed, subscribe
from tests.interchange.webhooks.conftest import HERE
from tests.interchange.webhooks.receiver import Receiver, trusted
from tests.interchange.webhooks.test_messages import ALERTS, enrol, visit

QUERY = {
    "transaction": "patient-discovery",
    "purpose": "treatment",
    "network": "carequality",
    "organization": "Pine Ridge Hospital",
    "at": "2025-07-01T10:02:11+00:00",
}
LICENSED = {
    "leading_indicator": True,
    "licensed_networks": ("Carequality", "commonwell"),
    "organization": Organization(name="Riverbend"),
}


@pytest.fixture
def watched(tmp_path: Path, authority: trustme.CA) -> Iterator[Running]:
    """A service with a tenant that wants leading indicators of its roster, and one that wants alerts of everybody."""
    tenants = {
        "riverbend": HERE.model_copy(update=LICENSED),
        "lakeside": HERE.model_copy(update={"clinical_alerts": ClinicalAlerts(enrollment="all")}),
        "lax": HERE,
    }
    with running(tmp_path, tenants=tenants, webhooks=Webhooks(**trusted(tmp_path, authority))) as found:
        yield found


def happens(service: Running, name: str, patient_id: str, **changes: Any) -> bool:
    """Let a network say something of a patient, and return whether anybody is told of it."""
    answer = hook_call(service, name, {**QUERY, "patient": patient_id, **changes})
    assert answer.status_code == 200, answer.text
    return answer.json()["told"]


def hook_call(service: Running, name: str, body: Any) -> httpx.Response:
    """Call a hook."""
    return service.http.post(f"{service.url}/_test/{name}", json=body)


@pytest.mark.parametrize("exchange", ["patient-discovery", "document-query"])
def test_a_leading_indicator(watched: Running, hook: Receiver, base: str, exchange: str) -> None:
    """C-496, C-497: Parameters of this event, with patient, transaction, network, purpose, organization and moment."""
    who = watched.create(base)["id"]
    enrol(watched, who)
    subscribe(watched, ALERTS, base, channel={"endpoint": hook.url})
    assert happens(watched, "network-query", who, transaction=exchange)
    [post] = hook.wait(1)
    assert post.event == "leading-indicator"
    assert post.body["parameter"] == [
        {"name": "eventType", "valueString": "leading-indicator"},
        {"name": "patient", "valueReference": {"reference": f"Patient/{who}"}},
        {"name": "transaction", "valueCode": exchange},
        {"name": "network", "valueString": "carequality"},
        {"name": "purposeOfUse", "valueCode": "TREATMENT"},
        {"name": "organization", "valueString": "Pine Ridge Hospital"},
        {"name": "occurred", "valueDateTime": "2025-07-01T10:02:11+00:00"},
    ]
    assert defects(post.body, version_of(base)) == ()


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"purpose": "payment"}, id="C-498-payment"),
        pytest.param({"purpose": "operations"}, id="C-498-operations"),
        pytest.param({"network": "ehealth-exchange"}, id="C-499"),
        pytest.param({"organization": "riverbend"}, id="C-501-by-its-name"),
    ],
)
def test_silence(watched: Running, change: dict[str, str]) -> None:
    """C-498, C-499, C-501: other purposes, networks without a licence, and the own organization are told to nobody."""
    who = watched.create()["id"]
    enrol(watched, who)
    mine = subscribe(watched, ALERTS)["id"]
    assert not happens(watched, "network-query", who, **change)
    assert owed(watched, mine) == []
    assert happens(watched, "network-query", who)


def test_who_is_enrolled(watched: Running) -> None:
    """C-500, C-503: only members of the roster, from when they are on it; a roster is made, changed and read."""
    who, other = watched.create()["id"], watched.create()["id"]
    mine = subscribe(watched, ALERTS)["id"]
    enrol(watched, who, name="Another list")
    assert not happens(watched, "network-query", who)
    roster = enrol(watched, other)
    assert happens(watched, "network-query", other)
    assert not happens(watched, "network-query", who)
    both = {**roster, "member": [*roster["member"], {"entity": {"reference": f"Patient/{who}"}}]}
    assert watched.ask("PUT", f"{R4}/Group/{roster['id']}", json=both).status_code == 200
    kept = watched.ask("GET", f"{R4}/Group/{roster['id']}").json()
    assert [one["entity"]["reference"] for one in kept["member"]] == [f"Patient/{other}", f"Patient/{who}"]
    assert len(owed(watched, mine)) == 1, "what was before is told to nobody"
    assert happens(watched, "network-query", who)
    closed = {**kept, "active": False}
    assert watched.ask("PUT", f"{R4}/Group/{roster['id']}", json=closed).status_code == 200
    assert not happens(watched, "network-query", who)
    assert len(owed(watched, mine)) == 2


def test_each_tenant_for_itself(watched: Running) -> None:
    """C-495, C-560: what one tenant has switched on is not in force for another; there all patients are enrolled."""
    who = watched.create(client="other")["id"]
    mine, theirs = (subscribe(watched, ALERTS, client=client)["id"] for client in ("physician", "other"))
    assert not happens(watched, "network-query", who)
    assert owed(watched, theirs) == []
    assert happens(watched, "document", who)
    assert (owed(watched, mine), len(owed(watched, theirs))) == ([], 1)


def test_alerts_switched_off(tmp_path: Path) -> None:
    """A tenant without alerts is told of no document, whoever is enrolled."""
    off = HERE.model_copy(update={"clinical_alerts": ClinicalAlerts(enabled=False, enrollment="all")})
    with running(tmp_path, tenants={"riverbend": off, "lakeside": HERE, "lax": HERE}) as service:
        assert not happens(service, "document", service.create()["id"])


def test_the_flag_is_off_by_default(sending: Running) -> None:
    """C-495: a query for an enrolled patient is told to nobody, and an alert still is."""
    who = sending.create()["id"]
    enrol(sending, who)
    mine = subscribe(sending, ALERTS)["id"]
    assert not happens(sending, "network-query", who)
    assert owed(sending, mine) == []
    assert happens(sending, "document", who)


def test_a_document_becomes_available(watched: Running, hook: Receiver, base: str) -> None:
    """C-502: the alert still comes, with the visit: the one that is named, or the patient's latest."""
    who, other = watched.create()["id"], watched.create()["id"]
    first, theirs = visit(watched, who)["id"], visit(watched, other)["id"]
    last = visit(watched, who)["id"]
    enrol(watched, who)
    subscribe(watched, ALERTS, base, channel={"endpoint": hook.url})
    assert happens(watched, "network-query", who)
    assert happens(watched, "document", who)
    assert happens(watched, "document", who, encounter=f"Encounter/{first}")
    assert happens(watched, "document", who, encounter=theirs)
    assert not happens(watched, "document", who, purpose="payment")
    assert not happens(watched, "document", other)
    posts = hook.wait(4)
    assert sorted(post.event for post in posts) == ["clinical-alert"] * 3 + ["leading-indicator"]
    visits = [
        next((part["resource"]["id"] for part in post.body["parameter"] if part["name"] == "encounter"), "")
        for post in posts
        if post.event == "clinical-alert"
    ]
    assert sorted(visits) == sorted([last, first, ""]), "another patient's visit is never shown"
    assert all(defects(post.body, version_of(base)) == () for post in posts)


def test_a_merged_patient(watched: Running, hook: Receiver) -> None:
    """The survivor takes the place on the roster, and is told of under both ids."""
    source, target = watched.create()["id"], watched.create()["id"]
    enrol(watched, source)
    subscribe(watched, ALERTS, channel={"endpoint": hook.url})
    assert watched.ask("POST", f"{R4}/Patient/$merge", json=merge_body(source, target)).status_code == 200
    assert happens(watched, "network-query", source)
    assert happens(watched, "network-query", target)
    assert {one.body["parameter"][1]["valueReference"]["reference"] for one in hook.wait(2)} == {f"Patient/{target}"}
    assert watched.ask("DELETE", f"{R4}/Patient/{target}?_cascade=delete").status_code == 204
    assert not happens(watched, "network-query", target)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"patient": 7}, "name the patient"),
        ({"patient": "nobody"}, "name the tenant"),
        ({"tenant": "nowhere"}, "no such tenant"),
        ({"transaction": "guess"}, "patient-discovery, document-query"),
        ({"network": None}, "missing: network"),
        ({"at": "then"}, "at is a moment"),
    ],
)
def test_a_hook_says_what_it_does_not_understand(watched: Running, change: Any, said: str) -> None:
    """Each mistake has its text."""
    body = {**QUERY, "patient": watched.create()["id"], **change}
    answer = hook_call(watched, "network-query", body)
    assert (answer.status_code, said in answer.json()["error"]) == (400, True), answer.text


def test_no_hooks_in_production(tmp_path: Path) -> None:
    """Without test hooks there is nothing at these addresses."""
    with running(tmp_path, test_hooks=False) as service:
        for name in ("network-query", "document"):
            assert hook_call(service, name, QUERY).status_code == 404
