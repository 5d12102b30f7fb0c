"""Searches of any text: escapes name every value, and whatever is asked is answered or refused (points H, J)."""

import asyncio
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from engine.fhir.schema import FhirVersion
from engine.interchange.kernel.outcome import RefusedError
from engine.interchange.rest.resource.catalogue import INDEXERS, KEPT
from engine.interchange.store.query import find
from engine.interchange.store.search.criterion import SearchQuery
from engine.interchange.store.search.page import Pairs, ResultPage, take_page
from engine.interchange.store.search.parse import parse_search
from engine.interchange.store.search.text import fold
from engine.interchange.store.store import Store
from engine.interchange.store.transaction import Transaction

pytestmark = pytest.mark.matrix

NOW = datetime(2026, 1, 1, tzinfo=UTC)
PARAMETERS = KEPT["Organization"].search_parameters(FhirVersion.R4)
# Much of what has a meaning in a search, and some of everything.
letters = st.sampled_from(",\\|$ aAbÀàß'%_*") | st.characters(exclude_categories=("Cs", "Cn"), exclude_characters="\0")
texts = st.text(letters, min_size=1, max_size=6)
# What a search for identifiers takes: no blanks around values, and none in systems.
values = texts.filter(lambda text: text == text.strip())
systems = texts.filter(lambda text: text.split() == [text])


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """A store for transactions that are undone."""
    found = Store(tmp_path_factory.mktemp("any") / "s.db", ["t"], lambda: NOW, INDEXERS)
    yield found
    found.close()


class UndoneError(Exception):
    """What a transaction found, before it is undone."""

    def __init__(self, found: list[set[str]]) -> None:
        super().__init__()
        self.found = found


def matches(store: Store, resources: list[dict[str, Any]], queries: list[tuple[str, str]]) -> list[set[str]]:
    """Return what each query finds of some organizations, by their places; the store is left as it was."""

    def work(transaction: Transaction) -> None:
        for number, one in enumerate(resources):
            transaction.create("Organization", str(number), {"resourceType": "Organization", **one})
        searches = [parse_search("Organization", PARAMETERS, [query], "http://x") for query in queries]
        raise UndoneError([{one.id for one in find(transaction, search, count=100).records} for search in searches])

    with pytest.raises(UndoneError) as told:
        asyncio.run(store.write("t", work))
    return told.value.found


def escaped(text: str) -> str:
    """Return a text as a value of a search that means it and nothing else."""
    for character in "\\,|$":
        text = text.replace(character, f"\\{character}")
    return text


def places(names: list[str], holds: Callable[[str], bool]) -> set[str]:
    """Return the places of the names of which something holds."""
    return {str(number) for number, name in enumerate(names) if holds(name)}


@settings(max_examples=80, deadline=None)
@given(names=st.lists(texts, min_size=1, max_size=5), data=st.data())
def test_names_of_any_letters(store: Store, names: list[str], data: st.DataObject) -> None:
    """C-178..C-182: with its escapes any name is found whole, by its start, and by its middle, and no other one is."""
    asked = data.draw(st.sampled_from(names) | texts)
    assume(fold(asked))
    value = escaped(asked)
    queries = [("name:exact", value), ("name", value), ("name:contains", value), ("name", f"{value},{value}")]
    found = matches(store, [{"name": name} for name in names], queries)
    starts = places(names, lambda name: fold(name).startswith(fold(asked)))
    assert found == [
        places(names, lambda name: name == asked),
        starts,
        places(names, lambda name: fold(asked) in fold(name)),
        starts,
    ]


@settings(max_examples=60, deadline=None)
@given(
    pairs=st.lists(st.tuples(st.just("") | systems, values), min_size=1, max_size=5), asked=st.tuples(systems, values)
)
def test_identifiers_of_any_letters(store: Store, pairs: list[tuple[str, str]], asked: tuple[str, str]) -> None:
    """C-173..C-177: with its escapes any identifier is found by value, by system, and by both."""
    made = [{"identifier": [{"value": value} | ({"system": system} if system else {})]} for system, value in pairs]
    for system, value in (*pairs[:2], asked):
        queries = [
            ("identifier", f"{escaped(system)}|{escaped(value)}"),
            ("identifier", escaped(value)),
            ("identifier", f"|{escaped(value)}"),
            *([("identifier", f"{escaped(system)}|")] if system else []),
        ]
        kept = [str(number) for number in range(len(pairs))]
        expected = [
            {one for one, pair in zip(kept, pairs, strict=True) if pair == (system, value)},
            {one for one, pair in zip(kept, pairs, strict=True) if pair[1] == value},
            {one for one, pair in zip(kept, pairs, strict=True) if pair == ("", value)},
            *([{one for one, pair in zip(kept, pairs, strict=True) if pair[0] == system}] if system else []),
        ]
        assert matches(store, made, queries) == expected


PARTS = st.sampled_from(
    ["", ",", "|", "\\", "ge", "ap", "2025", "-07", "-01", "T10:00", "Z", "true", "a", "Patient/", "#"]
)
VALUES = st.lists(PARTS, max_size=5).map("".join) | texts
MODIFIERS = st.sampled_from(["", "", "", ":exact", ":contains", ":missing", ":not", ":", "."])


def understood(type_name: str, version: FhirVersion, pairs: Pairs) -> tuple[ResultPage, SearchQuery] | RefusedError:
    """Return what a query asks for, or why it is refused."""
    definition = KEPT[type_name]
    try:
        page, criteria = take_page(pairs, definition.paging)
        parameters = definition.search_parameters(version)
        return page, parse_search(type_name, parameters, criteria, "http://x", version)
    except RefusedError as refusal:
        return refusal


@settings(max_examples=300, deadline=None)
@given(type_name=st.sampled_from(sorted(KEPT)), version=st.sampled_from(list(FhirVersion)), data=st.data())
def test_whatever_is_asked_is_answered_or_refused(
    store: Store, type_name: str, version: FhirVersion, data: st.DataObject
) -> None:
    """C-188..C-192: any names, modifiers and values either search or are 400; none is an error of the service."""
    known = KEPT[type_name].search_parameters(version)
    names = st.sampled_from([*known, "_count", "_offset", "_paging", "_cursor", "foo"])
    asked = data.draw(st.lists(st.tuples(st.builds(str.__add__, names, MODIFIERS), VALUES), max_size=3))
    result = understood(type_name, version, tuple(asked))
    if isinstance(result, RefusedError):
        assert result.category.status == 400
        assert all(issue.diagnostics and issue.location.startswith("http.") for issue in result.issues)
    else:
        page, search = result
        found = store.read("t", lambda transaction: find(transaction, search, count=page.count, offset=page.offset))
        assert (found.records, found.total, found.more) == ((), 0, False)
