"""`adt-engine interchange webhooks`: what it shows, and that a running service does what it asks for."""

import json
from typing import Any

from tests.interchange.kit import Running
from tests.interchange.nursery import ran
from tests.interchange.places import address_of
from tests.interchange.subscriptions.subscribing import R4, patched, subscribe
from tests.interchange.test_access_log import ROWS
from tests.interchange.webhooks.receiver import Receiver
from tests.interchange.webhooks.told import rows, settled, tries

FIELDS = {"number", "tenant", "subscription", "event", "version", "state", "made_at", "due_at", "ended_at", "tries"}
FIELDS |= {"server", "attempts"}


def webhooks(service: Running, *arguments: str, code: int = 0) -> Any:
    """Run a command on the database of a service, and return what it prints as JSON, or what it says of an error."""
    done = ran("interchange", "webhooks", *arguments, "--json", "--database", address_of(service.database))
    assert done.returncode == code, done.stderr
    return json.loads(done.stdout) if not code else done.stderr


def dropped(service: Running, hook: Receiver) -> tuple[str, str]:
    """Let an event be dropped, and return the ids of its subscription and of the patient that it tells of."""
    hook.script[:] = [500]
    line = "Authorization: Bearer kitchen-sink"
    told = subscribe(service, "Patient", channel={"endpoint": hook.url, "header": [line]})["id"]
    made = service.create()
    for attempt in range(1, 7):
        hook.wait(attempt)
        tries(service, told, attempt)
        service.advance(900)
    service.tokens.clear()
    assert settled(service, told) == ["dropped"]
    return told, made["id"]


def test_events_are_listed_shown_and_sent_again(sending: Running, hook: Receiver) -> None:
    """Each attempt's outcome is kept and shown, and never a body, a header line or a path; retry sends it again."""
    told, patient_id = dropped(sending, hook)
    [one] = webhooks(sending, "list")
    assert (one["state"], one["event"], one["tries"]) == ("dropped", f"Patient/{patient_id}", 6)
    assert one.keys() == FIELDS
    assert webhooks(sending, "list", "--state", "waiting") == []
    assert webhooks(sending, "list", "--tenant", "lakeside") == []
    number = str(one["number"])
    shown = webhooks(sending, "show", number)
    assert [(each["status"], each["reason"]) for each in shown["attempts"]] == [(500, "")] * 6
    assert shown["server"] == f"127.0.0.1:{hook.port}"
    place = address_of(sending.database)
    printed = [
        ran("interchange", "webhooks", *each, "--database", place).stdout for each in (("list",), ("show", number))
    ]
    assert "sent 6:" in printed[1]
    for text in (json.dumps(shown), *printed):
        assert not any(word in text.lower() for word in ("quintero", "kitchen", "/hook"))

    hook.script[:] = [200]
    again = webhooks(sending, "retry", number)
    assert (again["state"], again["tries"]) == ("waiting", 0)
    hook.wait(7)
    assert settled(sending, told) == ["delivered"]
    assert len(webhooks(sending, "show", number)["attempts"]) == 7
    [row] = [each for each in rows(sending, ROWS) if "adt-engine" in map(str, each)]
    assert told in map(str, row)
    assert "only one that waits or was given up" in webhooks(sending, "retry", number, code=2)
    assert "there is no event 99" in webhooks(sending, "show", "99", code=2)
    assert "name either an event" in webhooks(sending, "retry", code=2)


def test_all_of_a_subscription(sending: Running, hook: Receiver) -> None:
    """What a subscription was owed when it went off is sent once it is active again, and asked for."""
    told, _ = dropped(sending, hook)
    sending.create()
    hook.wait(7)
    patched(sending, R4, told, {"op": "replace", "path": "/status", "value": "off"})
    assert settled(sending, told) == ["dropped", "off"]
    assert "is off: its client must make it active" in webhooks(sending, "retry", "--subscription", told, code=2)
    hook.script[:] = [200]
    patched(sending, R4, told, {"op": "replace", "path": "/status", "value": "active"})
    assert len(webhooks(sending, "retry", "--subscription", told)) == 2
    hook.wait(9)
    assert settled(sending, told) == ["delivered"] * 2
    assert "was given up" in webhooks(sending, "retry", "--subscription", told, code=2)
