"""Look-ups for validating orders: known laboratories, tests that may be ordered, and their questions."""

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from engine.interchange.orders.compendium import lookup
from engine.interchange.orders.compendium.overview import show_test
from engine.interchange.rest.resource.catalogue import INDEXERS
from engine.interchange.store.store import Store
from engine.interchange.store.transaction import Transaction

LAB = "urn:uuid:f:lab-1"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """A store of two tenants that keeps tests and their questions."""
    found = Store(tmp_path / "s.db", ["t", "u"], lambda: datetime(2026, 1, 1, tzinfo=UTC), INDEXERS)
    yield found
    found.close()


def keep(store: Store, resource_id: str, code: str, system: str = LAB, tenant: str = "t", **elements: Any) -> None:
    """Keep a test, or the questions of one."""
    coding = {"system": system, "code": code, **elements.pop("coding", {})}
    kind = elements.pop("kind", "ActivityDefinition")
    codes: Any = {"coding": [coding]} if kind == "ActivityDefinition" else [coding]
    resource = {"resourceType": kind, "id": resource_id, "status": "active", "code": codes, **elements}

    def work(transaction: Transaction) -> None:
        transaction.create(kind, resource_id, resource)

    asyncio.run(store.write(tenant, work))


def find(store: Store, code: str, laboratory: str = "lab-1", tenant: str = "t") -> lookup.Test | None:
    """Return the test of a code."""
    return store.read(tenant, lambda transaction: lookup.find_test(transaction, laboratory, code))


def test_a_test_is_found_by_its_laboratory_and_code(store: Store) -> None:
    """A code counts within its laboratory and its tenant; a test without questions has no Questionnaire."""
    keep(store, "lab-1-LI", "LI", title="Lipid panel")
    keep(store, "aoe", "LI", kind="Questionnaire")
    keep(store, "other", "LI", "urn:uuid:f:lab-2", coding={"display": "Lithium"})
    keep(store, "short", "CBC")
    assert find(store, "LI") == ("LI", "Lipid panel", "aoe")
    assert find(store, "LI", "lab-2") == ("LI", "Lithium", "")
    assert find(store, "CBC") == ("CBC", "CBC", "")
    assert find(store, "li") is None
    assert find(store, "LI", tenant="u") is None


def test_what_is_not_active_may_not_be_ordered(store: Store, tmp_path: Path) -> None:
    """A retired test is known and not found; questions that are not in force are not asked."""
    keep(store, "gone", "OLD", status="retired")
    keep(store, "old", "LI", kind="Questionnaire", status="retired")
    keep(store, "before", "LI", status="retired", title="Lipids, before")
    assert find(store, "OLD") is None
    assert store.read("t", lambda transaction: lookup.withdrawn(transaction, "lab-1", "OLD"))
    assert not store.read("t", lambda transaction: lookup.withdrawn(transaction, "lab-1", "NONE"))
    keep(store, "now", "LI", title="Lipid panel")
    assert find(store, "LI") == ("LI", "Lipid panel", "")
    assert not store.read("t", lambda transaction: lookup.withdrawn(transaction, "lab-1", "LI"))
    keep(store, "new", "LI", kind="Questionnaire")
    assert find(store, "LI") == ("LI", "Lipid panel", "new")
    shown, asked = show_test(tmp_path / "s.db", "t", "lab-1", "LI")
    assert (shown.title, shown.status, shown.questionnaire, asked) == ("Lipid panel", "active", "new", ())


def test_a_laboratory_is_configured_once_a_test_of_it_is_known(store: Store) -> None:
    """One test is enough, be it retired; another laboratory's and another tenant's are none."""
    keep(store, "gone", "OLD", status="retired")

    def known(laboratory: str, tenant: str = "t") -> bool:
        return store.read(tenant, lambda transaction: lookup.configured(transaction, laboratory))

    assert known("lab-1")
    assert not known("lab-2")
    assert not known("lab-1", "u")


@pytest.mark.parametrize(
    ("sql", "arguments"),
    [
        (lookup.CARRIERS, (1, "p", "c", "s")),
        (lookup.QUESTIONNAIRE, (1, "p", "c", "s", "p", "active")),
        (lookup.ANY, (1, "p", "s")),
    ],
)
def test_look_ups_use_an_index(store: Store, sql: str, arguments: tuple[Any, ...]) -> None:
    """No question reads more than what it names, however many tests there are, and none sorts."""
    plan = [row[3] for row in store.reader().execute(f"EXPLAIN QUERY PLAN {sql}", arguments)]
    assert [step for step in plan if step.startswith("SEARCH") and "COVERING" in step]
    assert not [step for step in plan if step.startswith("SCAN") and "CONSTANT" not in step]
    assert not [step for step in plan if "TEMP" in step]
