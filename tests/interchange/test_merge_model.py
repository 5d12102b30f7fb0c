"""Merges against a naive model: whatever is merged into whatever, no chart is lost and no reference is left behind."""

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import count
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.interchange.kernel.outcome import RefusedError
from engine.interchange.rest.merge import MergeOrder, MergeSide, find_pair, merge
from engine.interchange.rest.patient.index import IDENTIFIER
from engine.interchange.rest.resource.catalogue import INDEXERS
from engine.interchange.store.index import ReferenceRow
from engine.interchange.store.store import Store
from engine.interchange.store.transaction import Transaction
from engine.interchange.store.verify import verify
from tests.interchange.kit import patient
from tests.interchange.least import LEAST, least

pytestmark = pytest.mark.matrix

PATIENTS = 6
FRESH = count(1)

person = st.integers(0, PATIENTS - 1)
# A merge names each side by id or by identifier.
merging = st.tuples(st.just("merge"), person, person, st.booleans(), st.booleans())
# A resource of a patient, with others beside it: in a list, in an extension, in a contained resource.
charting = st.tuples(st.just("chart"), st.sampled_from(sorted(LEAST)), person, st.lists(person, max_size=3))
linking = st.tuples(st.just("link"), person, person)
steps = st.lists(st.one_of(merging, charting, linking), max_size=25)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """One store, which must be whole in the end; each example has a tenant of its own."""
    path = tmp_path_factory.mktemp("model") / "model.db"
    made = Store(path, [], lambda: datetime.now(UTC), INDEXERS)
    yield made
    made.close()
    assert verify(path, INDEXERS).faults == {}


class Model:
    """What should be: who took whose place, and whom each resource named when it was written."""

    def __init__(self) -> None:
        self.place = list(range(PATIENTS))
        self.named: dict[tuple[str, str], tuple[int, list[int]]] = {}

    def survivor(self, one: int) -> int:
        """Return who stands for a patient."""
        return one if self.place[one] == one else self.survivor(self.place[one])


def charted(type_name: str, whose: str, beside: list[str]) -> dict[str, Any]:
    """Return a resource that names patients in several places."""
    references = [{"reference": one} for one in beside]
    inside = [
        {"resourceType": "Basic", "id": f"b{at}", "code": {}, "subject": one} for at, one in enumerate(references)
    ]
    told = [{"url": "https://x.example", "valueReference": reference} for reference in references]
    more = {key: value for key, value in (("contained", inside), ("extension", told)) if value}
    return least(type_name, whose, **more)


def references(part: Any) -> Iterator[str]:
    """Yield every reference in a resource, in order."""
    if isinstance(part, dict):
        if isinstance(part.get("reference"), str):
            yield part["reference"]
        for key in sorted(part):
            yield from references(part[key])
    elif isinstance(part, list):
        for item in part:
            yield from references(item)


def side(name: str, one: int, *, logical: bool) -> MergeSide:
    """Return a side of a merge."""
    return (
        MergeSide(f"{name}-patient", system="urn:n", value=f"{one}")
        if logical
        else MergeSide(f"{name}-patient", id=f"p{one}")
    )


def take(transaction: Transaction, model: Model, step: tuple[Any, ...]) -> None:
    """Take one step in the store and in the model."""
    if step[0] == "merge":
        _, source, target, by_number, by_number_too = step
        # An identifier leads to whoever stands for its patient, an id to the record itself.
        real_source, real_target = (
            model.survivor(one) if logical else one for one, logical in ((source, by_number), (target, by_number_too))
        )
        order = MergeOrder(
            side("source", source, logical=by_number), side("target", target, logical=by_number_too), preview=False
        )
        possible = real_source != real_target and all(model.place[one] == one for one in (real_source, real_target))
        try:
            merge(transaction, find_pair(transaction, order))
        except RefusedError:
            assert not possible
        else:
            assert possible
            model.place[real_source] = real_target
    elif step[0] == "chart":
        _, type_name, whose, beside = step
        whose, beside = model.survivor(whose), [model.survivor(one) for one in beside]
        name = f"x{len(model.named)}"
        transaction.create(type_name, name, charted(type_name, f"p{whose}", [f"Patient/p{one}" for one in beside]))
        model.named[type_name, name] = (whose, beside)
    else:
        whose, other = model.survivor(step[1]), model.survivor(step[2])
        stored = transaction.get("Patient", f"p{whose}")
        assert stored is not None
        body = stored.resource()
        link = {"other": {"reference": f"Patient/p{other}"}, "type": "seealso"}
        transaction.update(stored, {**body, "link": [*body.get("link", []), link]})


def hold(transaction: Transaction, model: Model) -> None:
    """Compare the store with the model."""
    gone = {f"Patient/p{one}" for one in range(PATIENTS) if model.place[one] != one}
    for (type_name, name), (whose, beside) in model.named.items():
        stored = transaction.get(type_name, name)
        assert stored is not None
        wanted = charted(type_name, f"p{model.survivor(whose)}", [f"Patient/p{model.survivor(one)}" for one in beside])
        assert list(references(stored.resource())) == list(references(wanted))
        indexed(transaction, stored)
    for one in range(PATIENTS):
        stored = transaction.get("Patient", f"p{one}")
        assert stored is not None
        assert stored.survivor == (f"p{model.survivor(one)}" if f"Patient/p{one}" in gone else None)
        survivor = transaction.get("Patient", f"p{model.survivor(one)}")
        assert survivor is not None
        assert transaction.holders(IDENTIFIER, "urn:n", f"{one}") == (survivor.key,)
        if stored.survivor is None:
            indexed(transaction, stored)
            mine = {f"Patient/p{other}" for other in range(PATIENTS) if model.survivor(other) == one}
            assert set(references(stored.resource())) & gone <= mine


def indexed(transaction: Transaction, stored: Any) -> None:
    """Hold a resource's reference rows to its body."""
    rows = transaction.connection.execute(
        "SELECT parameter, target FROM reference_index WHERE key=?", (stored.key,)
    ).fetchall()
    assert {ReferenceRow(*row) for row in rows} == INDEXERS[stored.type](stored.resource()).references


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps)
def test_random_merges(store: Store, taken: list[tuple[Any, ...]]) -> None:
    """C-276, C-277, C-284, C-288: no live resource names a tombstone, and every number leads to its survivor."""
    tenant = f"t{next(FRESH)}"
    store.number([tenant])

    def work(transaction: Transaction) -> None:
        model = Model()
        for one in range(PATIENTS):
            transaction.create("Patient", f"p{one}", patient(identifier=[{"system": "urn:n", "value": f"{one}"}]))
        for step in taken:
            take(transaction, model, step)
            hold(transaction, model)

    asyncio.run(store.write(tenant, work))
