"""Orders against a naive model: what is answered and kept is what some order of all that comes at once would give."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import permutations
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.fhir.schema import FhirVersion
from engine.interchange.core.exchange import FhirRequest, HttpAnswer, Interaction, InteractionLevel, Prefer
from engine.interchange.kernel.outcome import RefusedError
from engine.interchange.orders import order as orders
from engine.interchange.orders.order import OrderEvent, WrongStateError, status_of
from engine.interchange.rest.resource.catalogue import INDEXERS
from engine.interchange.store.transaction import Transaction
from engine.interchange.store.transmission import TransmissionStatus, find_sent
from engine.interchange.store.verify import verify
from engine.interchange.web.http.route import INTERACTIONS
from tests.interchange.jobs import asked_by
from tests.interchange.kit import SYSTEM, Inside, running_inside
from tests.interchange.orders.happening import laboratory
from tests.interchange.orders.ordering import Clinic, clinic, to
from tests.interchange.test_order_states import second_copy
from tests.tiers import trials

TABLE = second_copy()
FHIR = {"draft": "draft", "pending": "active", "sent": "active", "completed": "completed", "failed": "on-hold"}
FHIR["cancelled"] = "revoked"
TESTS = 2
ROUTES = {(one.type, one.code, one.level): one for one in INTERACTIONS}

Action = tuple[str, int]
# What laboratories and people do, more often than results come.
acting = st.sampled_from(
    [*((name, 0) for name in ("submit", "submit", "cancel", "transmitted", "transmitted", "refused"))]
)
# A result of a test comes or goes; of the test beyond the last one, that is one of the whole order.
resulting = st.tuples(st.sampled_from(["link", "link", "unlink"]), st.integers(0, TESTS))
rounds = st.lists(st.lists(st.one_of(acting, acting, resulting), min_size=1, max_size=3), min_size=4, max_size=9)


@dataclass(frozen=True)
class Model:
    """An order as it should be: its status, how many final results name each test and the whole, which tests are done.

    `ever` says whether it was ever pending: only then a laboratory can know it.
    """

    status: str = "draft"
    results: tuple[int, ...] = (0,) * (TESTS + 1)
    done: tuple[bool, ...] = (False,) * TESTS
    ever: bool = False

    def after(self, action: Action) -> tuple[bool, "Model"]:
        """Return whether something can happen, and what the order is then."""
        name, number = action
        if name in {"link", "unlink"}:
            step = 1 if name == "link" else -1
            results = tuple(one + step * (at == number) for at, one in enumerate(self.results))
            return (True, replace(self, results=results).reviewed()) if min(results) >= 0 else (False, self)
        if (name, self.status) == ("cancel", "cancelled"):
            return True, self
        status = TABLE.get((self.status, name))
        if status is None:
            return False, self
        return True, replace(self, status=status, ever=self.ever or status == "pending")

    def reviewed(self) -> "Model":
        """Return the order once its results were looked at."""
        if self.status in {"draft", "cancelled"}:
            return self
        done = tuple(bool(result or self.results[TESTS]) for result in self.results[:TESTS])
        status = TABLE.get((self.status, "resulted" if all(done) else "unresulted"), self.status)
        return replace(self, done=done, status=status)

    def seen(self) -> tuple[Any, ...]:
        """Return what of it is kept."""
        statuses = tuple("completed" if one else FHIR[self.status] for one in self.done)
        return self.status, FHIR[self.status], statuses


@dataclass
class Driven:
    """An order of a service, and the reports that name its tests."""

    inside: Inside
    here: Clinic
    order_id: str
    tests: tuple[str, ...]
    reports: dict[int, list[str]] = field(default_factory=dict)

    def request(self, type_name: str, resource_id: str, body: Any) -> FhirRequest:
        """Return a request of a physician."""
        asked = asked_by("physician")
        return replace(asked, type=type_name, id=resource_id, body=body, prefer=Prefer(), version=FhirVersion.R4)

    async def answered(self, one: Interaction, request: FhirRequest) -> HttpAnswer | None:
        """Return the answer of an interaction; None where it is refused as a conflict, or as already gone."""
        try:
            return await one.run(self.inside.app.service, request)
        except RefusedError as refusal:
            if refusal.category.status != 409:
                raise
            return None

    async def act(self, action: Action) -> bool:
        """Let something happen, and say whether it could."""
        name, number = action
        if name == "submit":
            route = ROUTES["RequestGroup", "submit", InteractionLevel.INSTANCE]
            return await self.answered(route, self.request("RequestGroup", self.order_id, None)) is not None
        if name == "cancel":
            route = ROUTES["RequestGroup", "patch", InteractionLevel.INSTANCE]
            patch = [{"op": "replace", "path": "/status", "value": "revoked"}]
            return await self.answered(route, self.request("RequestGroup", self.order_id, patch)) is not None
        if name in {"transmitted", "refused"}:
            return await self.told(OrderEvent(name))
        return await (self.link(number) if name == "link" else self.unlink(number))

    async def told(self, event: OrderEvent) -> bool:
        """Let the laboratory say something."""

        def work(transaction: Transaction) -> None:
            laboratory(transaction, self.order_id, event)

        try:
            await self.inside.app.service.store.write("riverbend", work)
        except WrongStateError:
            return False
        return True

    async def link(self, number: int) -> bool:
        """Keep a report of a test, or of the order."""
        targets = (*(f"ServiceRequest/{test}" for test in self.tests), f"RequestGroup/{self.order_id}")
        body = {**self.here.report(targets[number]), "subject": to(f"Patient/{self.here.patient}")}
        route = ROUTES["DiagnosticReport", "create", InteractionLevel.TYPE]
        answer = await self.answered(route, self.request("DiagnosticReport", "", body))
        assert answer is not None
        self.reports.setdefault(number, []).append(dict(answer.headers)["location"].rsplit("/", 3)[1])
        return True

    async def unlink(self, number: int) -> bool:
        """Delete a report, if there is one."""
        mine = self.reports.get(number)
        if not mine:
            return False
        route = ROUTES["DiagnosticReport", "delete", InteractionLevel.INSTANCE]
        return await self.answered(route, self.request("DiagnosticReport", mine.pop(), None)) is not None

    def seen(self, transaction: Transaction) -> tuple[Any, ...]:
        """Return what is kept of the order and its tests."""
        stored = transaction.get("RequestGroup", self.order_id)
        assert stored is not None
        order = stored.resource()
        tests = [transaction.get("ServiceRequest", test) for test in orders.tests_of(order)]
        statuses = tuple(test.resource()["status"] for test in tests if test is not None)
        return str(status_of(order, SYSTEM)), order["status"], statuses

    def queued(self, transaction: Transaction) -> TransmissionStatus | None:
        """Return where the order is on its way."""
        sent = find_sent(transaction, self.order_id)
        return sent.standing if sent is not None else None


@pytest.fixture(scope="module")
def ordered(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clinic]:
    """A service with a patient and a laboratory; what is left of all examples must fit together."""
    folder = tmp_path_factory.mktemp("model")
    with running_inside(folder) as inside:
        yield clinic(inside)
    assert verify(folder / "interchange.db", INDEXERS).faults == {}


async def together(driven: Driven, actions: list[Action]) -> list[bool]:
    """Let actions happen at once, and return which could."""
    return list(await asyncio.gather(*(driven.act(action) for action in actions)))


def explained(model: Model, actions: list[Action], told: list[bool], seen: tuple[Any, ...]) -> list[Model]:
    """Return what the order may be after actions at once that were answered so: each by some order of them."""
    found = []
    for way in permutations(range(len(actions))):
        now, fits = model, True
        for at in way:
            could, now = now.after(actions[at])
            fits = fits and could == told[at]
        if fits and now.seen() == seen:
            found.append(now)
    return found


@pytest.mark.property
@settings(max_examples=trials(60), deadline=None, suppress_health_check=list(HealthCheck))
@given(history=rounds)
def test_an_order_is_what_the_model_says(ordered: Clinic, history: list[list[Action]]) -> None:
    """C-404, C-408, C-409, C-410, C-427: $submit, cancel, laboratory and results in any order and at once."""
    inside = ordered.service
    assert isinstance(inside, Inside)
    draft = ordered.ask("POST", "RequestGroup", {**ordered.order(*wanted_by(ordered)), "status": "draft"}).json()
    driven = Driven(inside, ordered, draft["id"], tuple(f"{draft['id']}-T{number}" for number in range(TESTS)))
    store = inside.app.service.store
    model = Model()
    for actions in history:
        told = inside.run(together(driven, actions))
        seen = store.read("riverbend", driven.seen)
        fitting = explained(model, actions, told, seen)
        assert fitting, (model, actions, told, seen)
        model = fitting[0]
        queued = store.read("riverbend", driven.queued)
        # An order that is pending waits for its laboratory, and one that was cancelled never gets there.
        assert (queued is TransmissionStatus.WAITING) >= (model.status == "pending"), (model, queued)
        assert (model.status != "cancelled") or queued in {
            None,
            TransmissionStatus.WITHDRAWN,
            TransmissionStatus.REFUSED,
        }


def wanted_by(here: Clinic) -> list[dict[str, Any]]:
    """Return the tests of an order."""
    return [here.test(f"T{number}", f"t{number}") for number in range(TESTS)]
