"""The service killed at each step of sending an order: the laboratory gets it at most once, and it is never lost."""

import asyncio
import os
import random
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import orjson
import pytest

from engine.clock import now
from engine.config.service import ServiceConfiguration
from engine.config.source import parse, validate
from engine.interchange.kernel.extension import value
from engine.interchange.rest.resource.catalogue import EDITION, INDEXERS
from engine.interchange.store import transmission
from engine.interchange.store.sqlite import open_known
from engine.interchange.store.store import Store
from engine.interchange.store.transmission import Sent
from engine.interchange.store.verify import verify
from tests.interchange.jobs import until
from tests.interchange.kit import SYSTEM
from tests.interchange.laboratory.orders import few, place
from tests.interchange.laboratory.scripted import scripted
from tests.interchange.places import DATABASE
from tests.interchange.process import started

pytestmark = pytest.mark.process

KILLED = -9
# It is written that an order is sent; that is on disk; it has left; the answer is here; what came of it is written. The
# first commit of such a service is that of F38, the second that of F42.
STEPS = ("F38", "F28:kill:1", "F29:kill:1", "F39", "F40", "F41", "F42", "F28:kill:2", "F29:kill:2")
BEFORE, BETWEEN, BEHIND = STEPS[:2], STEPS[2:4], STEPS[4:8]


def configuration(connector: dict[str, Any]) -> str:
    """Return the file of a service with one laboratory."""
    return orjson.dumps(
        {
            "environment": "sandbox",
            "base_url": "http://127.0.0.1:0",
            "service_identifier_system": SYSTEM,
            "tenants": {"riverbend": {"laboratories": {"lab-1": {"connector": connector}}}},
        }
    ).decode()


@dataclass
class Lives:
    """One service and its lives; between them its database is looked at."""

    folder: Path
    connector: dict[str, Any]

    @contextmanager
    def store(self) -> Iterator[Store]:
        """Return its store while it does not run."""
        store = Store(self.folder / DATABASE, ["riverbend"], now, INDEXERS, environment="sandbox", edition=EDITION)
        try:
            yield store
        finally:
            store.close()

    def place(self, *order_ids: str) -> None:
        """Place orders."""
        with self.store() as store:
            asyncio.run(store.write("riverbend", lambda transaction: place(transaction, few(*order_ids))))

    def die(self, fault: str) -> None:
        """Let it live until it is killed at a point."""
        armed = fault if ":" in fault else f"{fault}:kill"
        with started(self.folder, configuration(self.connector), fault=armed) as process:
            assert process.run.wait(60) == KILLED, "the point was not reached"
            process.check_log()

    def check(self) -> None:
        """Hold the database to fitting together."""
        assert verify(self.folder / DATABASE, INDEXERS).faults == {}

    def live(self, order_id: str, *standings: str) -> None:
        """Let it live until an order is in one of these standings; then it stops in order."""
        with started(self.folder, configuration(self.connector)):
            until(lambda: self.sent(order_id).standing in standings)

    def sent(self, order_id: str = "o1") -> Sent:
        """Return an order on its way."""
        with self.reading() as connection:
            [found] = transmission.sent_of_id(connection, order_id)
            return found

    @contextmanager
    def reading(self) -> Iterator[Any]:
        """Return a connection beside it."""
        connection = open_known(self.folder / DATABASE)
        try:
            yield connection
        finally:
            connection.close()

    def status(self, order_id: str = "o1") -> tuple[str, int]:
        """Return status and version of an order."""
        with self.reading() as connection:
            found = connection.execute("SELECT body, version FROM resource WHERE id=?", (order_id,)).fetchone()
        return value(orjson.loads(found[0]), SYSTEM, "requestgroup-orderStatus")["code"], found[1]


@pytest.mark.parametrize("step", STEPS)
def test_over_mllp(tmp_path: Path, step: str) -> None:
    """Killed before the commit it is sent by the next life; killed behind that, it is held until a person says so."""
    with scripted("AA") as laboratory:
        connector = {"type": "hl7", "host": "127.0.0.1", "port": laboratory.port, "timeout_s": 20}
        lives = Lives(tmp_path, connector)
        lives.place("o1")
        lives.die(step)
        got = len(laboratory.messages)
        assert got == (step in BEHIND or step == "F29:kill:2")
        standing = lives.sent().standing
        assert standing == ("waiting" if step in BEFORE else "accepted" if step == "F29:kill:2" else "sending")
        lives.live("o1", "accepted", "held")
        if step in BEFORE or step == "F29:kill:2":
            assert lives.sent().standing == "accepted"
            assert lives.status() == ("sent", 2)
        else:
            held = lives.sent()
            assert (held.standing, held.reason.partition(":")[0]) == ("held", "cannot-be-asked")
            assert lives.status() == ("pending", 1)
        lives.check()
    assert len(laboratory.messages) == (got or step in BEFORE)


def test_held_is_held(tmp_path: Path) -> None:
    """What is held is not sent by itself, however often the service starts; what comes behind it is."""
    with scripted("close", "AA") as laboratory:
        lives = Lives(tmp_path, {"type": "hl7", "host": "127.0.0.1", "port": laboratory.port, "timeout_s": 20})
        lives.place("o1")
        lives.live("o1", "held")
        lives.place("o2")
        lives.live("o2", "accepted")
        assert lives.sent().standing == "held"
        assert len(laboratory.messages) == 2


@pytest.mark.parametrize("step", ["F38", "F39", "F40", "F42"])
def test_as_a_file(tmp_path: Path, step: str) -> None:
    """A folder can be asked: whatever happens, the order is there once, and sent."""
    folder = tmp_path / "orders"
    folder.mkdir()
    lives = Lives(tmp_path, {"type": "directory", "folder": str(folder)})
    lives.place("o1")
    lives.die(step)
    before = [one.name for one in folder.glob("*.hl7")]
    assert len(before) == (step in BEHIND or step == "F29:kill:2")
    lives.live("o1", "accepted")
    assert lives.status() == ("sent", 2)
    assert len(list(folder.iterdir())) == 1
    lives.check()


def test_by_nobody(tmp_path: Path) -> None:
    """What is simulated is in the service alone: killed while it is sent, it was not sent."""
    lives = Lives(tmp_path, {"type": "simulated", "transmit_delay_s": 0})
    lives.place("o1")
    lives.die("F39")
    assert lives.sent().standing == "sending"
    lives.live("o1", "accepted")
    assert lives.status() == ("sent", 2)


def test_a_refusal_is_no_word_in_the_log(tmp_path: Path) -> None:
    """What a laboratory answers may name the patient: the log has the code, the database the text."""
    with scripted("AE Marisol Quintero is nobody here") as laboratory:
        lives = Lives(tmp_path, {"type": "hl7", "host": "127.0.0.1", "port": laboratory.port, "timeout_s": 20})
        lives.place("o1")
        with started(tmp_path, configuration(lives.connector)) as process:
            told = process.event("order refused")
            process.stop()
    assert (told["code"], told["destination"], told["control_id"]) == ("AE 207", "lab-1", laboratory.control_ids[0])
    assert lives.sent().reason == "AE 207: Marisol Quintero is nobody here"
    assert lives.status() == ("failed", 2)


def test_at_random(tmp_path: Path) -> None:
    """Killed at any moment, life after life: each order comes to an end, and no laboratory has one twice."""
    draw = random.Random(14)
    with scripted("AA") as laboratory:
        lives = Lives(tmp_path, {"type": "hl7", "host": "127.0.0.1", "port": laboratory.port, "timeout_s": 20})
        orders = [f"o{number}" for number in range(60)]
        lives.place(*orders)
        for _ in range(4):
            with started(tmp_path, configuration(lives.connector)) as process:
                at = len(laboratory.messages) + draw.randrange(1, 12)
                until(partial(laboratory.has, at))
                time.sleep(draw.random() / 100)
                os.kill(process.run.pid, signal.SIGKILL)
                assert process.run.wait(60) == KILLED
        with started(tmp_path, configuration(lives.connector)):
            until(lambda: all(lives.sent(order).standing in {"accepted", "held"} for order in orders))
    lives.check()
    assert len(laboratory.control_ids) == len(set(laboratory.control_ids))
    held = [order for order in orders if lives.sent(order).standing == "held"]
    assert len(held) <= 4
    assert len(orders) - len(held) <= len(laboratory.messages) <= len(orders)
    assert {lives.status(one)[0] for one in held} <= {"pending"}
    assert {lives.status(order) for order in set(orders) - set(held)} == {("sent", 2)}


def test_the_configuration_of_these_tests() -> None:
    """It is one that a service takes."""
    validate(parse(configuration({"type": "simulated"}), "x"), ServiceConfiguration)
