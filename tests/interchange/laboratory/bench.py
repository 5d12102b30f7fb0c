"""A running service whose orders are placed by the tests, and what is seen of them."""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from engine.config.laboratory import Laboratory
from engine.config.service import Tenant
from engine.interchange.kernel.extension import url, value, with_value
from engine.interchange.store import transmission
from engine.interchange.store.transaction import Transaction
from engine.interchange.store.transmission import Sent, Try
from tests.interchange.jobs import until
from tests.interchange.kit import SYSTEM, Inside, running_inside
from tests.interchange.laboratory.orders import Resource, few, place

T = TypeVar("T")


@dataclass
class Bench:
    """A service in a thread of the tests."""

    inside: Inside

    def place(self, *order_ids: str, laboratory: str = "lab-1", resources: list[Resource] | None = None) -> None:
        """Place orders, in one commit, and ring the bell."""
        made = resources or few(*order_ids, laboratory=laboratory)
        self.write(lambda transaction: place(transaction, made, laboratory))
        self.ring()

    def write(self, work: Callable[[Transaction], T]) -> T:
        """Do a write."""
        done: T = self.inside.run(self.inside.app.service.store.write("riverbend", work))
        return done

    def ring(self) -> None:
        """Ring the bell, as whoever places an order does."""
        self.inside.loop.call_soon_threadsafe(self.inside.app.service.laboratory_wakeup.set)

    def advance(self, seconds: float) -> None:
        """Put the clock forward."""
        self.inside.advance(seconds)
        self.ring()

    def sent(self, order_id: str = "o1") -> Sent:
        """Return an order on its way."""
        store = self.inside.app.service.store
        found = store.read("riverbend", lambda transaction: transmission.find_sent(transaction, order_id))
        assert found is not None
        return found

    def tries(self, order_id: str = "o1") -> tuple[Try, ...]:
        """Return each time that an order was sent."""
        return transmission.tries_of(self.inside.app.service.store.reader(), self.sent(order_id))

    def until(self, standing: str, order_id: str = "o1") -> Sent:
        """Wait until an order is in a standing."""
        until(lambda: self.sent(order_id).standing == standing)
        return self.sent(order_id)

    def order(self, order_id: str = "o1") -> Resource:
        """Return an order as it is read."""
        answer = self.inside.ask("GET", f"/fhir/R4/RequestGroup/{order_id}")
        assert answer.status_code == 200, answer.text
        read: Resource = answer.json()
        return read

    def status(self, order_id: str = "o1") -> str:
        """Return the status of an order."""
        coding = value(self.order(order_id), SYSTEM, "requestgroup-orderStatus")
        return str(coding["code"]) if coding else ""

    def revise(self, order_id: str, status: str) -> None:
        """Give an order another status, as what happens elsewhere does."""

        def work(transaction: Transaction) -> None:
            stored = transaction.get("RequestGroup", order_id)
            assert stored is not None
            order = stored.resource()
            made = {"valueCoding": {"system": f"{SYSTEM}/order-status", "code": status}}
            transaction.update(stored, with_value(order, url(SYSTEM, "requestgroup-orderStatus"), made))

        self.write(work)

    def hook(self, event: str, order_id: str = "o1") -> tuple[int, Any]:
        """Ask the test hook for something; return status and answer."""
        answer = self.inside.http.post(f"{self.inside.url}/_test/lab", json={"order": order_id, "event": event})
        return answer.status_code, answer.json()


def tenants(**laboratories: dict[str, Any]) -> dict[str, Tenant]:
    """Return the kit's tenants, the first with laboratories; `_` of a name stands for `-`."""
    settings = {
        name.replace("_", "-"): Laboratory.model_validate({"give_up_s": give_up, "connector": connector})
        for name, one in laboratories.items()
        for connector in [{key: held for key, held in one.items() if key != "give_up_s"}]
        for give_up in [one.get("give_up_s", 86_400)]
    }
    return {"riverbend": Tenant(laboratories=settings), "lakeside": Tenant(), "lax": Tenant(scope_enforcement="off")}


def line(port: int, **more: Any) -> dict[str, Any]:
    """Return the settings of a laboratory that listens on this machine."""
    return {"type": "hl7", "host": "127.0.0.1", "port": port, "timeout_s": 20, **more}


@contextlib.contextmanager
def bench(folder: Path, **laboratories: dict[str, Any]) -> Iterator[Bench]:
    """Run a service with laboratories until the block ends."""
    with running_inside(folder, tenants=tenants(**laboratories)) as inside:
        yield Bench(inside)
