"""Which subscriptions a write is owed to: those whose criteria a search for it would have met, and nobody else."""

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from engine.interchange.app.application import create_app
from engine.interchange.store.notification import Subscribed, put_subscription
from engine.interchange.store.transaction import Transaction, milliseconds
from tests.interchange.kit import BASES, Running, configuration, merge_body, record_number, secret_file
from tests.interchange.subscriptions.subscribing import (
    ENDPOINT,
    R4,
    create,
    observation,
    owed,
    patched,
    subscribe,
    subscription,
)


def test_who_is_told_of_a_create(own_service: Running, base: str) -> None:
    """C-470, C-474 (owed): the matching ones, once, whatever tells them apart; C-462: of one tenant."""
    here = own_service
    marisol, other = here.create(base)["id"], here.create(base)["id"]
    matching = [
        "Observation",
        "Observation?code=789-8",
        "Observation?code=http://loinc.org|789-8",
        "Observation?code=1-1,789-8",
        "Observation?code=http://loinc.org|",
        f"Observation?patient={marisol}",
        f"Observation?patient=Patient/{marisol}",
        f"Observation?subject={here.url}/fhir/R4/Patient/{marisol}",
        f"Observation?code=789-8&patient={marisol}",
        "Observation?date=ge2026-01-01",
        "Observation?category:missing=true",
        "Observation?status=final&date=lt2027",
    ]
    others = [
        "Condition",
        "Observation?code=789-9",
        "Observation?code=http://snomed.info/sct|789-8",
        f"Observation?patient={other}",
        f"Observation?code=789-8&patient={other}",
        "Observation?date=lt2026-01-01",
        "Observation?code:missing=true",
        "Observation?status=preliminary",
    ]
    told = [subscribe(here, one, base)["id"] for one in matching]
    untold = [subscribe(here, one, base)["id"] for one in others]
    elsewhere = subscribe(here, "Observation", base, client="other")["id"]
    made = create(here, observation(marisol), base)
    event = f"Observation/{made['id']}/1"
    assert [owed(here, one) for one in told] == [[event]] * len(told)
    assert [owed(here, one) for one in (*untold, elsewhere)] == [[]] * (len(untold) + 1)
    # The other base tells the same store's writes.
    twin = next(one for one in BASES.values() if one != base)
    again = create(here, observation(marisol), twin)
    assert owed(here, told[0]) == [event, f"Observation/{again['id']}/1"]


def test_updates_and_deletes(own_service: Running, base: str) -> None:
    """C-474, C-487: an update that matches now is told, one that does not any more is not, and no delete is."""
    here = own_service
    who = here.create(base)["id"]
    made = create(here, observation(who, status="preliminary"), base)
    final = subscribe(here, "Observation?status=final", base)["id"]
    path = f"{base}/Observation/{made['id']}"
    for status in ("preliminary", "final", "amended", "final"):
        assert here.ask("PUT", path, json={**made, "status": status}).status_code == 200
    steps = [{"op": "add", "path": "/issued", "value": "2026-03-01T10:00:00Z"}]
    headers = {"content-type": "application/json-patch+json"}
    assert here.ask("PATCH", path, json=steps, headers=headers).status_code == 200
    assert here.ask("DELETE", path).status_code == 204
    events = [f"Observation/{made['id']}/{version}" for version in (3, 5, 6)]
    assert owed(here, final) == events
    assert here.ask("PUT", path, json={**made, "status": "final"}).status_code == 201
    assert owed(here, final) == [*events, f"Observation/{made['id']}/8"]


def test_off_and_on_again(own_service: Running, base: str) -> None:
    """C-457, C-459: nothing is owed while it is off, nor once it is deleted; on again, it is."""
    here = own_service
    who = here.create(base)["id"]
    told = subscribe(here, "Observation", base)["id"]
    for status, count in (("off", 0), ("active", 1), ("off", 1)):
        assert patched(here, base, told, {"op": "replace", "path": "/status", "value": status}).status_code == 200
        create(here, observation(who), base)
        assert len(owed(here, told)) == count, status
    assert patched(here, base, told, {"op": "replace", "path": "/status", "value": "active"}).status_code == 200
    assert here.ask("DELETE", f"{base}/Subscription/{told}").status_code == 204
    create(here, observation(who), base)
    assert len(owed(here, told)) == 1


def test_an_end_that_has_just_passed(tmp_path: Path) -> None:
    """C-461: from its end on nothing is owed, also before somebody has looked for those that are over."""
    moment = datetime(2026, 11, 24, tzinfo=UTC)
    app = create_app(configuration(secret_file(tmp_path)), tmp_path / "end.db", clock=lambda: moment)

    def row(name: str, end_ms: int) -> Subscribed:
        return Subscribed(1, name, "R4", "Observation", "Observation", ENDPOINT, b"", 1, end_ms)

    def work(transaction: Transaction) -> list[tuple[Any, ...]]:
        now_ms = milliseconds(transaction.at)
        for name, end_ms in (("over", now_ms), ("going", now_ms + 1)):
            put_subscription(transaction, row(name, end_ms)._replace(tenant=transaction.tenant), anew=True)
        transaction.create("Observation", "o1", observation("p1"))
        return transaction.connection.execute("SELECT subscription FROM notification").fetchall()

    assert asyncio.run(app.service.store.write("riverbend", work)) == [("going",)]
    app.close()


def test_changed_criteria(own_service: Running) -> None:
    """What the criteria say now counts, also where the change was undone with its transaction."""
    here = own_service
    who = here.create()["id"]
    made = subscribe(here, "Observation?code=1-1")
    assert here.ask(
        "PUT", f"{R4}/Subscription/{made['id']}", json={**made, "criteria": "Observation?code=2-2"}
    ).is_success
    broken = {
        "resourceType": "Bundle",
        "type": "transaction",
        "entry": [
            {
                "resource": {**made, "criteria": "Observation?code=3-3"},
                "request": {"method": "PUT", "url": f"Subscription/{made['id']}"},
            },
            {"resource": observation(who, "3-3"), "request": {"method": "POST", "url": "Observation"}},
            {"resource": observation("nobody"), "request": {"method": "POST", "url": "Observation"}},
        ],
    }
    assert here.ask("POST", R4, json=broken).status_code == 422
    for code in ("1-1", "3-3"):
        create(here, observation(who, code))
    assert owed(here, made["id"]) == []
    told = create(here, observation(who, "2-2"))
    assert owed(here, made["id"]) == [f"Observation/{told['id']}/1"]


def test_a_transaction_that_subscribes(own_service: Running) -> None:
    """A Subscription may be made in a Bundle, and bears the id that it is told under."""
    here = own_service
    who = here.create()["id"]
    bundle: dict[str, Any] = {"resourceType": "Bundle", "type": "transaction", "entry": []}
    bundle["entry"].append(
        {"resource": subscription("Observation"), "request": {"method": "POST", "url": "Subscription"}}
    )
    answer = here.ask("POST", R4, json=bundle)
    assert answer.status_code == 200, answer.text
    made = answer.json()["entry"][0]["response"]["location"].split("/Subscription/")[1].partition("/")[0]
    told = create(here, observation(who))
    assert owed(here, made) == [f"Observation/{told['id']}/1"]


def test_a_merge_tells_what_it_moves(own_service: Running, base: str) -> None:
    """service.md 6A 3: what is re-pointed is an update; criteria that name either patient mean the survivor then."""
    here = own_service
    source, target = here.create(base)["id"], here.create(base)["id"]
    made = create(here, observation(source), base)
    of_source = subscribe(here, f"Observation?patient={source}", base)["id"]
    of_target = subscribe(here, f"Observation?patient={target}&code=789-8", base)["id"]
    everybody = subscribe(here, "Observation", base)["id"]
    patients = subscribe(here, "Patient", base)["id"]
    assert here.ask("POST", f"{base}/Patient/$merge", json=merge_body(source, target)).status_code == 200
    event = f"Observation/{made['id']}/2"
    assert [owed(here, one) for one in (of_source, of_target, everybody)] == [[event]] * 3
    assert owed(here, patients) == [f"Patient/{target}/2"]
    later = create(here, observation(target), base)
    assert owed(here, of_source) == [event, f"Observation/{later['id']}/1"]


def test_a_merge_tells_those_who_ask_by_the_old_number(own_service: Running, base: str) -> None:
    """Who subscribed to a patient by a number hears of the merge that makes it an old one, and of what comes then."""
    here = own_service
    old, other = (subscribe(here, f"Patient?identifier={number}", base)["id"] for number in ("MRN-1", "MRN-3"))
    source = here.create(base, identifier=[record_number("MRN-1")])["id"]
    target = here.create(base, identifier=[record_number("MRN-2")])["id"]
    assert here.ask("POST", f"{base}/Patient/$merge", json=merge_body(source, target)).status_code == 200
    told = [f"Patient/{source}/1", f"Patient/{target}/2"]
    assert (owed(here, old), owed(here, other)) == (told, [])
    survivor = here.ask("GET", f"{base}/Patient/{target}").json()
    assert here.ask("PUT", f"{base}/Patient/{target}", json={**survivor, "gender": "male"}).status_code == 200
    assert owed(here, old) == [*told, f"Patient/{target}/3"]


def test_a_patient_by_its_numbers(own_service: Running, base: str) -> None:
    """Identifiers, names and dates of patients, and of one patient by id."""
    here = own_service
    by_number = subscribe(here, "Patient?identifier=MRN-77", base)["id"]
    by_name = subscribe(here, "Patient?family=quint&birthdate=1984-02-29", base)["id"]
    made = here.create(base, identifier=[record_number("MRN-77")])
    here.create(base, name=[{"family": "Osei", "given": ["Ama"]}])
    event = f"Patient/{made['id']}/1"
    assert (owed(here, by_number), owed(here, by_name)) == ([event], [event])
    itself = subscribe(here, f"Patient?_id={made['id']}", base)["id"]
    changed = here.ask("PUT", f"{base}/Patient/{made['id']}", json={**made, "gender": "male"})
    assert changed.status_code == 200
    assert owed(here, itself) == [f"Patient/{made['id']}/2"]


@pytest.mark.parametrize("kind", ["R4", "STU3"])
def test_codes_of_the_version(own_service: Running, kind: str) -> None:
    """Criteria of STU3 are in STU3's words: another name of the type, and another code."""
    here = own_service
    base = BASES[kind]
    who = here.create(base)["id"]
    name, status = {"R4": ("ServiceRequest", "revoked"), "STU3": ("ProcedureRequest", "cancelled")}[kind]
    told = subscribe(here, f"{name}?status={status}", base)["id"]
    asked = {
        "resourceType": name,
        "status": status,
        "intent": "order",
        "code": {"text": "walk"},
        "subject": {"reference": f"Patient/{who}"},
    }
    made = create(here, asked, base)
    assert owed(here, told) == [f"ServiceRequest/{made['id']}/1"]
