"""`adt-engine interchange orders`: what it shows, and that a running service does what it asks for."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from engine.interchange.app.commands.interchange import app
from tests.interchange.jobs import until
from tests.interchange.laboratory.bench import Bench, bench, line
from tests.interchange.laboratory.scripted import scripted
from tests.interchange.nursery import ran
from tests.interchange.places import address_of
from tests.interchange.test_access_log import ROWS
from tests.interchange.test_jobs import selected

SHOWN = {"order", "tenant", "laboratory", "standing", "since", "placed_at", "due_at", "tries", "attempt"}
SHOWN |= {"control_id", "reason", "transmissions", "history"}


def orders(service: Bench, *arguments: str, code: int = 0) -> Any:
    """Run a command on the database of a service, and return what it prints as JSON, or what it says of an error."""
    done = ran("interchange", "orders", *arguments, "--json", "--database", address_of(service.inside.database))
    assert done.returncode == code, done.stderr
    return json.loads(done.stdout) if not code else done.stderr


def test_orders_are_listed_and_shown(tmp_path: Path) -> None:
    """What waits, is held and failed, and why, in the order of placing; of each one ids, moments and answers."""
    with (
        scripted("AA", "AE no such test", "close") as laboratory,
        bench(tmp_path, lab_1=line(laboratory.port)) as service,
    ):
        service.place("fine", "refused", "lost")
        service.place("waits", laboratory="other")
        service.until("held", "lost")
        listed = orders(service, "list")
        assert [(one["order"], one["standing"]) for one in listed] == [
            ("refused", "refused"),
            ("lost", "held"),
            ("waits", "waiting"),
        ]
        assert {frozenset(one) for one in listed} == {frozenset(SHOWN)}
        assert [order["order"] for order in orders(service, "list", "--state", "accepted")] == ["fine"]
        assert [order["order"] for order in orders(service, "list", "--laboratory", "other")] == ["waits"]
        assert orders(service, "list", "--tenant", "lakeside") == []
        shown = orders(service, "show", "refused")
        assert shown["reason"] == "AE 207: no such test"
        assert [one["status"] for one in shown["history"]] == ["pending", "failed"]
        [told] = shown["transmissions"]
        assert (told["outcome"], told["control_id"]) == ("refused", shown["control_id"])
        assert told["control_id"] in laboratory.control_ids
        assert shown["placed_at"] <= told["began_at"] <= told["ended_at"] == shown["since"]
        assert "no order nothing was ever to be sent" in orders(service, "show", "nothing", code=2)
        assert "no order lost was" in orders(service, "show", "lost", "--tenant", "lakeside", code=2)
        place = address_of(service.inside.database)
        printed = [
            ran("interchange", "orders", *one, "--database", place).stdout for one in (("list",), ("show", "lost"))
        ]
        assert "refused" in printed[0]
        assert "broken-off" in printed[1]
        assert "version 1: " in printed[1]
        for text in ("Quintero", "Marisol", "MRN-7"):
            assert text not in "".join(printed) + json.dumps([listed, shown])


def test_what_failed_is_listed_until_it_is_done_with(tmp_path: Path) -> None:
    """A refused order whose user cancelled it is no longer one that failed."""
    with bench(tmp_path) as service:
        service.place("o1")
        assert service.hook("refuse")[0] == 200
        assert [order["order"] for order in orders(service, "list")] == ["o1"]
        service.revise("o1", "cancelled")
        assert orders(service, "list") == []


def test_an_order_is_sent_again(tmp_path: Path) -> None:
    """One that is held goes out again, soon, with the same control id; it is recorded who did that."""
    with scripted("close", "AA") as laboratory, bench(tmp_path, lab_1=line(laboratory.port)) as service:
        service.place("o1")
        service.until("held")
        assert "add --yes" in orders(service, "retry", "o1", code=2)
        assert orders(service, "retry", "o1", "--yes")["standing"] == "waiting"
        # Nobody rings here: the service looks.
        service.until("accepted")
        assert service.status() == "sent"
        assert len(laboratory.control_ids) == 2
        assert len(set(laboratory.control_ids)) == 1
        assert [one["outcome"] for one in orders(service, "show", "o1")["transmissions"]] == ["unknown", "accepted"]
        assert "is accepted: only one that is held" in orders(service, "retry", "o1", "--yes", code=2)
        assert "is accepted: only one that waits" in orders(service, "cancel", "o1", "--yes", code=2)
        found = [row for row in selected(service.inside, ROWS) if row[1] == "adt-engine"]
        assert [(row[0], *row[4:]) for row in found] == [
            ("riverbend", "update", "RequestGroup", "o1", "p1", "done", 0),
        ]
        done = ran("interchange", "audit", "verify", "--database", address_of(service.inside.database))
        assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    ("script", "standing", "told"),
    [
        ("close", "held", "taken back by an operator; the laboratory may have it"),
        ("leave", "waiting", "taken back by an operator"),
    ],
)
def test_an_order_is_taken_back(tmp_path: Path, script: str, standing: str, told: str) -> None:
    """It is never sent; the order is cancelled, and says what the laboratory may have."""
    with scripted(script) as laboratory:
        with bench(tmp_path, lab_1=line(laboratory.port)) as service:
            service.place("o1")
            until(lambda: service.sent().tries == 1 and service.sent().standing == standing)
        seen = orders(service, "cancel", "o1", "--yes")
        assert (seen["standing"], seen["reason"]) == ("withdrawn", told)
        assert seen["history"][-1]["status"] == "cancelled"
        with bench(tmp_path, lab_1=line(laboratory.port)) as service:
            service.advance(1000)
            order = service.order()
            assert (service.status(), order["status"]) == ("cancelled", "revoked")
            assert order["note"][0]["text"] == f"Transmission: {told}."
            assert laboratory.connections == 1


def test_it_asks_before_it_does(tmp_path: Path) -> None:
    """Without --yes it asks, and says what may happen; a no changes nothing."""
    with scripted("close") as laboratory, bench(tmp_path, lab_1=line(laboratory.port)) as service:
        service.place("o1")
        service.until("held")
        place = address_of(service.inside.database)
        for command, warning in (("retry", "may get the order twice"), ("cancel", "may have the order")):
            done = CliRunner().invoke(app, ["orders", command, "o1", "--database", place], input="n\n")
            assert done.exit_code == 1
            assert warning in done.stderr
            assert service.sent().standing == "held"
