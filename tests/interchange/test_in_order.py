"""Searches by what many records have: the same matches as a look at each record, and a page is read no further."""

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.fhir.schema import FhirVersion
from engine.interchange.rest.resource.catalogue import INDEXERS, KEPT
from engine.interchange.store import query as store_query
from engine.interchange.store.query import find, page_statement
from engine.interchange.store.search.criterion import Rank, SearchQuery
from engine.interchange.store.search.parse import parse_search
from engine.interchange.store.store import Store
from engine.interchange.store.transaction import Transaction
from tests.tiers import trials

SIS = "https://cdis.example"
STATUSES = {
    "draft": "draft",
    "pending": "active",
    "sent": "active",
    "completed": "completed",
    "failed": "on-hold",
    "cancelled": "revoked",
}
LABORATORIES = ("lab-1", "lab-2")
ORDERS = 120


def status_of(number: int) -> tuple[str, str]:
    """Return the service's status of an order and FHIR's: most are completed, and what still waits came last.

    Some have one of the two only, so that a code is found in one system alone.
    """
    status = ("sent", "failed", "cancelled")[number % 3] if number % 7 == 0 else "completed"
    if number >= ORDERS - 6:
        status = ("pending", "draft")[number % 2]
    return "" if number % 11 == 3 else status, "unknown" if number % 13 == 4 else STATUSES[status]


def order(number: int) -> dict[str, Any]:
    """Return an order as it is kept."""
    status, in_fhir = status_of(number)
    own = f"{SIS}/fhir/StructureDefinition/requestgroup"
    coding = {"system": f"{SIS}/order-status", "code": status}
    laboratory = {"reference": f"Organization/{LABORATORIES[number % 2]}"}
    return {
        "resourceType": "RequestGroup",
        "status": in_fhir,
        "intent": "order",
        "subject": {"reference": f"Patient/p{number % 5}"},
        "code": {"coding": [{"system": "urn:c", "code": str(one)} for one in range(number % 3)] or [{"code": "x"}]},
        "extension": [
            *([{"url": f"{own}-orderStatus", "valueCoding": coding}] if status else []),
            {"url": f"{own}-performer", "valueReference": laboratory},
        ],
    }


@pytest.fixture(scope="module")
def transaction(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Transaction]:
    """A transaction that reads a store of orders, and of another tenant's."""
    at = datetime(2026, 1, 1, tzinfo=UTC)
    store = Store(tmp_path_factory.mktemp("orders") / "s.db", ["t", "other"], lambda: at, INDEXERS)

    def fill(one: Transaction) -> None:
        for number in range(ORDERS):
            one.create("RequestGroup", f"o{number}", order(number))

    for tenant in ("other", "t"):
        asyncio.run(store.write(tenant, fill))
    found: list[Transaction] = []
    store.read("t", found.append)
    yield found[0]
    store.close()


def asked(query: str) -> SearchQuery:
    """Return a search as the service reads it."""
    pairs = [(name, value) for name, _, value in (one.partition("=") for one in query.split("&"))]
    return parse_search("RequestGroup", KEPT["RequestGroup"].search_parameters(FhirVersion.R4), pairs, SIS)


def holds(number: int, name: str, value: str) -> bool:
    """Say whether an order has a value of a parameter: of its status, either vocabulary's."""
    status, in_fhir = status_of(number)
    if name == "status":
        has = {in_fhir, f"http://hl7.org/fhir/request-status|{in_fhir}", f"|{in_fhir}"}
        has |= {status, f"{SIS}/order-status|{status}", f"{SIS}/order-status|"} if status else set()
        return not has.isdisjoint(value.split(","))
    if name == "code":
        return number % 3 > 0
    return {"performer": LABORATORIES[number % 2], "patient": f"p{number % 5}", "intent": "order"}[name] in value.split(
        ","
    )


VALUES = {
    "status": st.lists(
        st.sampled_from(
            [
                *("pending", "active", "draft", "completed", "revoked", "cancelled", "none"),
                *(f"{SIS}/order-status|{one}" for one in ("pending", "completed", "active")),
                *(f"{SIS}/order-status|", "http://hl7.org/fhir/request-status|active", "|completed"),
            ]
        ),
        min_size=1,
        max_size=10,
        unique=True,
    ).map(",".join),
    "performer": st.sampled_from(["lab-1", "lab-2", "lab-1,lab-2", "none"]),
    "patient": st.sampled_from(["p1", "p1,p2"]),
    "intent": st.just("order"),
    "code": st.just("urn:c|"),
}
QUERIES = st.dictionaries(st.sampled_from(sorted(VALUES)), st.none(), min_size=1).flatmap(
    lambda names: st.fixed_dictionaries({name: VALUES[name] for name in names})
)


@pytest.mark.property
@settings(max_examples=trials(200), deadline=None)
@given(
    query=QUERIES,
    count=st.integers(0, 25),
    offset=st.integers(0, 60),
    few=st.sampled_from([0, 5, 1_000]),
    cut=st.data(),
)
def test_the_same_as_a_look_at_each(
    transaction: Transaction, query: dict[str, str], count: int, offset: int, few: int, cut: st.DataObject
) -> None:
    """C-411: pages by offset and behind a key, and totals, by each of the values and by several parameters at once."""
    search = asked("&".join(f"{name}={value}" for name, value in query.items()))
    wanted = [f"o{n}" for n in range(ORDERS) if all(holds(n, name, value) for name, value in query.items())]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store_query, "FEW", few)
        found = find(transaction, search, count=count, offset=offset)
        assert ([record.id for record in found.records], found.total) == (wanted[offset : offset + count], len(wanted))
        assert found.more == (count > 0 and len(wanted) > offset + count)
        first = find(transaction, search, count=ORDERS, counted=False)
        assert [record.id for record in first.records] == wanted
        if first.records and count:
            last = cut.draw(st.sampled_from(first.records))
            behind = wanted[wanted.index(last.id) + 1 :]
            found = find(transaction, search, count=count, after=last.key)
            assert ([record.id for record in found.records], found.total) == (behind[:count], len(wanted))


@pytest.mark.parametrize(
    "query",
    [
        *("status=completed", "status=pending,active", f"status={SIS}/order-status|completed", "performer=lab-1"),
        *(f"status={SIS}/order-status|", "status=completed&performer=lab-1", "intent=order&status:missing=false"),
    ],
)
def test_a_page_is_read_no_further(transaction: Transaction, query: str) -> None:
    """C-411: nothing is sorted and no list of keys is made: walks along indexes are merged, and end with the page."""
    found = store_query.walks(transaction, asked(query))
    assert found
    for after in (0, 7):
        text, arguments = store_query.page_in_order(found, after)
        steps = [row[3] for row in transaction.connection.execute(f"EXPLAIN QUERY PLAN {text}", (*arguments, 21, 0))]
        assert not [step for step in steps if "TEMP B-TREE" in step or "SCAN" in step or "LIST" in step], steps
        assert all("COVERING INDEX" in step or "PRIMARY KEY" in step for step in steps if "SEARCH" in step), steps
        page, arguments = page_statement(1, asked(query), after, found)
        first, *steps = [
            row[3] for row in transaction.connection.execute(f"EXPLAIN QUERY PLAN {page}", (*arguments, 21, 0))
        ]
        assert "PRIMARY KEY" in first, "its records are looked up in the order of their keys"
        assert not [step for step in steps if "TEMP B-TREE" in step or "SCAN" in step], steps


@pytest.mark.parametrize(
    ("query", "leads"),
    [
        ("status=pending&performer=lab-1", "status"),
        ("status=completed&performer=lab-1", "performer"),
        ("intent=order&status=draft", "status"),
    ],
)
def test_what_few_have_leads(transaction: Transaction, monkeypatch: pytest.MonkeyPatch, query: str, leads: str) -> None:
    """C-411: how many have a value is measured, so that a rare one is not looked for among all that have another."""
    monkeypatch.setattr(store_query, "FEW", 20)
    found = store_query.measured(transaction, asked(query))
    assert min(found.criteria, key=lambda one: one.rank).parameter.name == leads


def test_what_is_selective_is_let_be(transaction: Transaction) -> None:
    """A search by patient is not measured; one of many alternatives, or by the time of change, has no walks."""
    search = asked("patient=p1&status=completed")
    assert store_query.measured(transaction, search) is search
    assert search.criteria[0].rank is Rank.ONE
    many = ",".join(f"urn:{number}|completed" for number in range(store_query.MOST_WALKS + 1))
    for text in ("patient=p1&status=completed", f"status={many}", "status=completed&_lastUpdated=gt2020"):
        assert store_query.walks(transaction, asked(text)) == ()
