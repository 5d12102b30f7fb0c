"""Orders sent by a running service: in the order of placing, at most once, and never lost; what comes of each."""

import socket
import threading
from pathlib import Path
from typing import Any

import pytest

from engine.interchange.jobs import queue_worker
from engine.interchange.orders.laboratory import settling, transmitter
from engine.interchange.store.store import Store
from engine.interchange.store.transmission import enqueue, withdraw
from tests.interchange.jobs import until
from tests.interchange.kit import MRN
from tests.interchange.laboratory.answers import field, segments
from tests.interchange.laboratory.bench import bench, line, tenants
from tests.interchange.laboratory.orders import few
from tests.interchange.laboratory.scripted import scripted
from tests.interchange.test_operations import metrics


def test_an_order_is_sent(tmp_path: Path) -> None:
    """C-408, C-417: a laboratory gets it over MLLP with the external MRN in PID-3; it is `sent` by a new version."""
    with scripted("AA") as laboratory:
        settings = line(laboratory.port, authorities={MRN: "RVB"})
        with bench(tmp_path, lab_1=settings) as service:
            service.place("o1")
            sent = service.until("accepted")
            assert service.status() == "sent"
            assert service.order()["meta"]["versionId"] == "2"
            assert service.order()["status"] == "active"
            [told] = service.tries()
            found = metrics(service.inside)
    [message] = laboratory.messages
    pid = next(segment for segment in segments(message) if segment[0] == "PID")
    assert field(pid, 3) == "MRN-7^^^RVB^MR"
    orc, obr = (next(segment for segment in segments(message) if segment[0] == name) for name in ("ORC", "OBR"))
    assert field(orc, 2) == field(obr, 2) == "o1-GL^CDIS"
    assert field(orc, 4) == "o1^CDIS"
    assert laboratory.control_ids == [told.control_id]
    assert (sent.tries, told.outcome) == (1, "accepted")
    assert found['adt_interchange_transmissions_total{outcome="accepted"}'] == 1


def test_who_lost_the_turn_sends_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An order that was taken up just before another process took over does not leave; it is held for a person."""
    term = [1]
    take = settling.take

    def taken(*arguments: Any, **named: Any) -> Any:
        term[0] = 0
        return take(*arguments, **named)

    monkeypatch.setattr(Store, "term", property(lambda _: term[0]))
    with scripted("AA") as laboratory, bench(tmp_path, lab_1=line(laboratory.port)) as service:
        monkeypatch.setattr(settling, "take", taken)
        service.place("o1")
        service.until("sending")
        monkeypatch.setattr(settling, "take", take)
        term[0] = 2
        service.until("held")
    assert laboratory.messages == []


def test_a_refusal(tmp_path: Path) -> None:
    """C-409: the order fails with a note; placed again it is another attempt, with a control id of its own."""
    with (
        scripted("AE Quintero is nobody here", "AA") as laboratory,
        bench(tmp_path, lab_1=line(laboratory.port)) as service,
    ):
        service.place("o1")
        refused = service.until("refused")
        assert refused.reason == "AE 207: Quintero is nobody here"
        order = service.order()
        assert (service.status(), order["status"]) == ("failed", "on-hold")
        assert order["note"][0]["text"] == "Transmission: the laboratory has refused the order (AE 207)."
        service.revise("o1", "pending")
        service.write(lambda transaction: enqueue(transaction, "o1", "lab-1"))
        service.ring()
        assert service.until("accepted").attempt == 2
        assert service.status() == "sent"
        assert len(set(laboratory.control_ids)) == 2
        assert b"NTE" not in laboratory.messages[1]
        assert [one.outcome for one in service.tries()] == ["refused", "accepted"]


@pytest.mark.parametrize("step", ["close", "half", "other", "noise"])
def test_what_is_unknown_is_held(tmp_path: Path, step: str) -> None:
    """It is not sent again, however often the clock goes on; what was placed behind it goes its way."""
    with scripted(step, "AA") as laboratory, bench(tmp_path, lab_1=line(laboratory.port)) as service:
        service.place("o1", "o2")
        held = service.until("held")
        assert held.reason
        service.until("accepted", "o2")
        service.advance(100_000)
        service.advance(100_000)
        assert laboratory.connections == 2
        assert service.status() == "pending"
        assert service.sent().standing == "held"
        # The laboratory may have it.
        assert service.write(lambda transaction: withdraw(transaction, "o1")) is False


def test_a_laboratory_that_is_down(tmp_path: Path) -> None:
    """Orders wait for it, in their order; nothing is held, and each goes once when it is there again."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with bench(tmp_path, lab_1=line(port)) as service:
        service.place("o1", "o2")
        until(lambda: service.sent().tries == 1 and service.sent().standing == "waiting")
        assert service.sent().reason.startswith(f"unreachable: 127.0.0.1:{port}")
        service.advance(6)
        until(lambda: service.sent().tries == 2 and service.sent().standing == "waiting")
        waiting = service.sent()
        # As long as it has waited already.
        assert 5_900 < waiting.due_ms - waiting.placed_ms - 6_000 < 20_000
        assert service.sent("o2").tries == 0
        assert service.status() == "pending"
        with scripted("AA") as laboratory:
            settings = line(laboratory.port)
            service.inside.app.service.configuration = service.inside.settings.model_copy(
                update={"tenants": tenants(lab_1=settings)}
            )
            service.advance(600)
            service.until("accepted", "o2")
            assert [field(segments(message)[2], 2) for message in laboratory.messages] == ["o1-GL^CDIS", "o2-GL^CDIS"]
            # That it could not be sent is told no more, once it was.
            assert [one.outcome for one in service.tries()] == ["accepted"]


def test_a_laboratory_that_stays_down(tmp_path: Path) -> None:
    """After `give_up_s` an order is held; it may be withdrawn, as nothing of it has left."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with bench(tmp_path, lab_1={**line(port), "give_up_s": 60}) as service:
        service.place("o1")
        until(lambda: service.sent().tries == 1)
        service.advance(100)
        service.until("held")
        assert service.write(lambda transaction: withdraw(transaction, "o1")) is True
        assert service.sent().standing == "withdrawn"


def test_one_at_a_time(tmp_path: Path) -> None:
    """A laboratory gets the next order when it has answered the last one; another laboratory does not wait for it."""
    with (
        scripted("wait", "AA") as slow,
        scripted("AA") as quick,
        bench(tmp_path, slow=line(slow.port), quick=line(quick.port)) as service,
    ):
        service.place("s1", "s2", "s3", laboratory="slow")
        assert slow.received.acquire(timeout=20)
        service.place("q1", "q2", laboratory="quick")
        service.until("accepted", "q2")
        assert [service.sent(one).standing for one in ("s1", "s2", "s3")] == ["sending", "waiting", "waiting"]
        assert slow.connections == 1
        # What is being sent cannot be withdrawn; what waits behind it is never sent.
        assert service.write(lambda transaction: withdraw(transaction, "s1")) is False
        assert service.write(lambda transaction: withdraw(transaction, "s2")) is True
        slow.go.set()
        service.until("accepted", "s3")
        assert service.sent("s1").standing == "accepted"
        assert [field(segments(message)[2], 4) for message in slow.messages] == ["s1^CDIS", "s3^CDIS"]


def test_withdrawn_or_sent(tmp_path: Path) -> None:
    """Twenty orders are withdrawn while they are sent: each is either, and never both."""
    with scripted("AA") as laboratory, bench(tmp_path, lab_1=line(laboratory.port)) as service:
        orders = [f"o{number}" for number in range(20)]
        service.place(*orders)
        done: dict[str, bool] = {}

        def cancel(chosen: list[str]) -> None:
            for one in chosen:
                done[one] = service.write(lambda transaction, one=one: withdraw(transaction, one))

        threads = [threading.Thread(target=cancel, args=(orders[number::4][::-1],)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        until(lambda: all(service.sent(order).standing in {"accepted", "withdrawn"} for order in orders))
        received = {field(segments(message)[2], 4, 1) for message in laboratory.messages}
        assert received == {order for order in orders if service.sent(order).standing == "accepted"}
        assert received.isdisjoint(order for order in orders if done[order])
        assert len(laboratory.messages) == len(received)


@pytest.mark.parametrize(
    ("status", "standing"), [("cancelled", "withdrawn"), ("completed", "accepted"), ("draft", "withdrawn")]
)
def test_an_order_that_is_no_longer_pending(tmp_path: Path, status: str, standing: str) -> None:
    """It is not sent: it was cancelled, or its results are here already."""
    with scripted("AA") as laboratory, bench(tmp_path, lab_1=line(laboratory.port)) as service:
        made = few("o1")
        made[-1]["extension"][-1]["valueCoding"]["code"] = status
        service.place(resources=made)
        assert service.until(standing).reason == f"the order is {status}"
        assert laboratory.connections == 0


@pytest.mark.parametrize("missing", ["Patient", "ServiceRequest"])
def test_an_order_without_a_patient_or_a_test(tmp_path: Path, missing: str) -> None:
    """It is held, and says why: a laboratory is told all of an order, or nothing."""
    with scripted("AA") as laboratory, bench(tmp_path, lab_1=line(laboratory.port)) as service:
        service.place(resources=[one for one in few("o1") if one["resourceType"] != missing])
        assert service.until("held").reason == "its patient, or one of its tests, is not there"
        assert laboratory.connections == 0


def test_a_laboratory_that_is_no_longer_configured(tmp_path: Path) -> None:
    """Its orders wait until it is configured again."""
    with bench(tmp_path) as service:
        running = service.inside.app.service
        running.configuration = running.configuration.model_copy(update={"environment": "production"})
        service.place("o1")
        until(lambda: service.sent().tries == 1 and service.sent().standing == "waiting")
        assert service.sent().reason.startswith("not-connected")
        assert service.status() == "pending"


def test_results_before_the_answer(tmp_path: Path) -> None:
    """An order whose results come while it is being sent stays completed when the laboratory then accepts it."""
    with scripted("wait") as laboratory, bench(tmp_path, lab_1=line(laboratory.port)) as service:
        service.place("o1")
        assert laboratory.received.acquire(timeout=20)
        service.revise("o1", "completed")
        laboratory.go.set()
        service.until("accepted")
        assert service.status() == "completed"


def test_held_until_its_results_come(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Results say that the laboratory had the order that nobody knew of: it is no longer held, and no longer listed."""
    monkeypatch.setattr(transmitter, "HELD_SECONDS", 0)
    with scripted("close") as laboratory, bench(tmp_path, lab_1=line(laboratory.port)) as service:
        service.place("o1")
        service.until("held")
        service.revise("o1", "completed")
        assert service.until("accepted").reason == "the order is completed"
        assert laboratory.connections == 1


def test_laboratories_take_turns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where more laboratories wait than may be sent to at once, a long queue lets the others in between."""
    monkeypatch.setattr(transmitter, "AT_ONCE", 1)
    with (
        scripted("wait", "AA") as long,
        scripted("AA") as short,
        bench(tmp_path, long=line(long.port), short=line(short.port)) as service,
    ):
        service.place(*(f"l{number}" for number in range(9)), laboratory="long")
        assert long.received.acquire(timeout=20)
        service.place("s1", "s2", laboratory="short")
        long.go.set()
        service.until("accepted", "s2")
        service.until("accepted", "l8")
        ended = {one: service.sent(one).sent_ms or 0 for one in ("s2", "l3", "l8")}
        assert ended["s2"] <= ended["l3"] < ended["l8"]


def test_stopped_in_the_middle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A service that is stopped while it sends holds the order; what waits is sent by the next one."""
    monkeypatch.setattr(queue_worker, "LEAVE_SECONDS", 0.2)
    with scripted("silent", "AA") as laboratory:
        settings = line(laboratory.port)
        with bench(tmp_path, lab_1=settings) as service:
            service.place("o1", "o2")
            assert laboratory.received.acquire(timeout=20)
        laboratory.go.set()
        with bench(tmp_path, lab_1=settings) as service:
            service.until("accepted", "o2")
            held = service.sent()
            assert (held.standing, held.reason.partition(":")[0]) == ("held", "stopped")
    assert len(laboratory.messages) == 2
