"""Orders by status: pages in the order of keys and totals that are kept, against a plain list of the same orders."""

import asyncio
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.fhir.schema import FhirVersion
from engine.interchange.rest.resource.catalogue import INDEXERS, KEPT
from engine.interchange.store.query import find, kept_total
from engine.interchange.store.search.parse import parse_search
from engine.interchange.store.sqlite import connect
from engine.interchange.store.store import Store
from engine.interchange.store.transaction import Transaction
from engine.interchange.store.verify import verify
from tests.tiers import trials

SIS = "https://cdis.example"
STATUSES = ("draft", "active", "completed")
OWN = ("draft", "pending", "completed", "")
PARAMETERS = KEPT["RequestGroup"].search_parameters(FhirVersion.R4)
# What is asked for, and which of FHIR's and the service's statuses it means.
ASKED = {
    **{code: lambda fhir, own, code=code: code in {fhir, own} for code in {*STATUSES, *OWN[:-1]}},
    f"{SIS}/order-status|completed": lambda _, own: own == "completed",
    "http://hl7.org/fhir/request-status|draft": lambda fhir, own: "draft" in {fhir, own},
    "urn:other|completed": lambda *_: False,
}


def order(status: str, own: str) -> dict[str, Any]:
    """Return an order with FHIR's status and the service's, '' for none."""
    made: dict[str, Any] = {"resourceType": "RequestGroup", "status": status}
    if own:
        url = f"{SIS}/fhir/StructureDefinition/requestgroup-orderStatus"
        made["extension"] = [{"url": url, "valueCoding": {"system": f"{SIS}/order-status", "code": own}}]
    return made


def store_in(folder: Path) -> Store:
    """Open a store of one tenant and another."""
    return Store(folder / "s.db", ["t", "other"], lambda: datetime(2026, 1, 1, tzinfo=UTC), INDEXERS)


def found(transaction: Transaction, asked: str) -> tuple[list[str], list[int], list[str]]:
    """Return what pages of two by offset find, the totals that they tell, and what pages by cursor find."""
    search = parse_search("RequestGroup", PARAMETERS, (("status", asked),), "http://x")
    first, totals, second = [], [], []
    more, after = True, 0
    while more:
        page = find(transaction, search, count=2, offset=len(first))
        first += [record.id for record in page.records]
        totals.append(page.total)
        more = page.more
    more = True
    while more:
        page = find(transaction, search, count=2, after=after, counted=False)
        second += [record.id for record in page.records]
        after = page.records[-1].key if page.records else after
        more = page.more
    return first, totals, second


DEEDS = st.lists(
    st.tuples(
        st.sampled_from(("create", "update", "delete", "restore")),
        st.integers(0, 5),
        st.sampled_from(STATUSES),
        st.sampled_from(OWN),
    ),
    max_size=20,
)


@pytest.mark.property
@settings(max_examples=trials(20))
@given(deeds=DEEDS)
def test_pages_and_totals_are_those_of_a_list(deeds: list[tuple[str, int, str, str]]) -> None:
    """Whatever is created, changed, deleted and brought back, each status finds who has it, once, and counts them."""
    with tempfile.TemporaryDirectory() as folder:
        store, known = store_in(Path(folder)), dict[str, tuple[str, str]]()

        def work(transaction: Transaction, what: str, name: str, status: str, own: str) -> None:
            stored = transaction.get("RequestGroup", name)
            if stored is None and what == "create":
                transaction.create("RequestGroup", name, order(status, own))
            elif stored is not None and not stored.deleted and what == "update":
                transaction.update(stored, {**order(status, own), "id": name})
            elif stored is not None and stored.deleted and what == "restore":
                transaction.bring_back(stored, order(status, own))
            elif stored is not None and not stored.deleted and what == "delete":
                transaction.delete(stored)
                known.pop(name)
                return
            else:
                return
            known[name] = (status, own)

        for what, number, status, own in deeds:
            deed = (what, f"o{number}", status, own)
            asyncio.run(store.write("t", lambda transaction, deed=deed: work(transaction, *deed)))
        asyncio.run(store.write("other", lambda transaction: transaction.create("RequestGroup", "x", order(*OWN[:2]))))
        for asked, means in ASKED.items():
            wanted = {name for name, statuses in known.items() if means(*statuses)}
            first, totals, second = store.read("t", lambda transaction, asked=asked: found(transaction, asked))
            assert (sorted(first), set(totals)) == (sorted(wanted), {len(wanted)}), asked
            assert second == first
        store.close()
        assert verify(Path(folder) / "s.db", INDEXERS).faults == {}


OLDER = """
DROP TABLE token_count;
DELETE FROM _sqlite_migrations WHERE name='code_counts'
"""


def test_orders_of_an_older_database_are_counted(tmp_path: Path) -> None:
    """A database from before the counts has them once it is opened."""
    store = store_in(tmp_path)

    def work(transaction: Transaction) -> None:
        for number, own in enumerate(("completed", "completed", "")):
            transaction.create("RequestGroup", f"o{number}", order("completed", own))

    asyncio.run(store.write("t", work))
    store.close()
    connection = connect(tmp_path / "s.db")
    for statement in OLDER.split(";"):
        connection.execute(statement)
    connection.close()
    store = store_in(tmp_path)
    assert store.read("t", lambda transaction: found(transaction, "completed")[1]) == [3, 3]
    asked = f"{SIS}/order-status|completed"
    assert store.read("t", lambda transaction: found(transaction, asked)[1]) == [2]
    store.close()
    assert verify(tmp_path / "s.db", INDEXERS).faults == {}


def test_an_update_counts_only_the_status_that_it_changes(tmp_path: Path) -> None:
    """FHIR's status changes, the service's stays: its total, too."""
    store = store_in(tmp_path)

    def work(transaction: Transaction) -> None:
        transaction.create("RequestGroup", "o", order("draft", "pending"))
        stored = transaction.get("RequestGroup", "o")
        assert stored is not None
        transaction.update(stored, {**order("active", "pending"), "id": "o"})

    asyncio.run(store.write("t", work))
    for asked, total in (("pending", 1), ("active", 1), ("draft", 0)):
        assert store.read("t", lambda transaction, asked=asked: found(transaction, asked)[1]) == [total]
    store.close()


def test_a_failure_counts_nothing(tmp_path: Path) -> None:
    """Counts are undone with the write that they belong to."""
    store = store_in(tmp_path)

    def work(transaction: Transaction) -> None:
        transaction.create("RequestGroup", "o", order("active", "pending"))
        raise LookupError

    with pytest.raises(LookupError):
        asyncio.run(store.write("t", work))
    assert store.read("t", lambda transaction: found(transaction, "pending")) == ([], [0], [])
    store.close()
    assert verify(tmp_path / "s.db", INDEXERS).faults == {}


def test_a_total_that_is_kept_reads_one_row(tmp_path: Path) -> None:
    """However many orders have a status, their number is one row; other searches are counted as they were."""
    store = store_in(tmp_path)
    for asked, kept in (("pending", True), ("urn:a|pending", True), ("pending,sent", False), ("urn:a|", False)):
        total = kept_total(1, parse_search("RequestGroup", PARAMETERS, (("status", asked),), "http://x"))
        assert (total is not None) is kept, asked
        if total is not None:
            plan = store.reader().execute(f"EXPLAIN QUERY PLAN {total[0]}", total[1]).fetchall()
            key = "(tenant=? AND parameter=? AND code=? AND system=?)"
            assert [row[3] for row in plan] == [f"SEARCH token_count USING PRIMARY KEY {key}"]
    both = (("status", "pending"), ("intent", "order"))
    assert kept_total(1, parse_search("RequestGroup", PARAMETERS, both, "http://x")) is None
    store.close()
