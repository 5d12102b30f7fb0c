"""Matches each write with the subscriptions, in its transaction: the same commit queues the events.

Most subscriptions are ruled out without a query, by a dictionary of one code or reference of each. The others are
matched as a search for this one resource is, by the same conditions on the same rows.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from engine.fhir.schema import FhirVersion
from engine.interchange.kernel.outcome import RefusedError
from engine.interchange.rest.resource.search import follow_merges
from engine.interchange.rest.subscription_criteria import parse_criteria
from engine.interchange.store import notification as rows
from engine.interchange.store.index import Index
from engine.interchange.store.notification import NotificationEvent, Subscribed, enqueue
from engine.interchange.store.query import Arguments, with_probes
from engine.interchange.store.search.criterion import Criterion, ParameterKind, SearchQuery
from engine.interchange.store.transaction import StoredVersion, Transaction, milliseconds
from engine.telemetry import logger

# A parameter and a value of it that a matching resource must have among its rows.
Key = tuple[str, str]

MATCH: Final = "SELECT 1 FROM resource WHERE {where}"
THE_ONE: Final = "key = ?"
# The most keys of one subscription.
MOST_KEYS: Final = 100


class WatchedSubscription(NamedTuple):
    """A subscription, and the condition on a matching resource; its arguments come after the key."""

    id: str
    version: str
    end_ms: int | None
    condition: str
    arguments: Arguments


@dataclass(slots=True)
class OfType:
    """The subscriptions to one type: those by their keys, and the others, which each write is matched with."""

    keyed: dict[Key, list[WatchedSubscription]] = field(default_factory=dict)
    others: list[WatchedSubscription] = field(default_factory=list)

    def candidates(self, keys: Callable[[], set[Key]]) -> list[WatchedSubscription]:
        """Return the subscriptions that a resource with such keys may match, each once."""
        if not self.keyed:
            return self.others
        keyed = {one.id: one for key in keys() for one in self.keyed.get(key, ())}
        return [*self.others, *keyed.values()]


class SubscriptionMatcher:
    """Queues the events of writes for their subscribers; compiled criteria are cached by the tenant's token."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[str, dict[str, OfType]]] = {}

    def on_write(self, transaction: Transaction, stored: StoredVersion, index: Callable[[], Index]) -> None:
        """Queue a new version for each subscription that it matches."""
        of_type = self._of(transaction).get(stored.type)
        if of_type is None:
            return
        at_ms = milliseconds(transaction.at)
        # Many subscriptions have the same condition: it is tried once.
        known: dict[tuple[str, Arguments], bool] = {}
        for one in of_type.candidates(lambda: _keys(index()) | transaction.inherited_identifiers(stored.key)):
            if one.end_ms is not None and one.end_ms <= at_ms:
                continue
            condition = (one.condition, one.arguments)
            if condition not in known:
                row = transaction.connection.execute(one.condition, (stored.key, *one.arguments)).fetchone()
                known[condition] = row is not None
            if known[condition]:
                enqueue(
                    transaction, one.id, one.version, NotificationEvent(f"{stored.type}/{stored.id}", stored=stored)
                )

    def watches(self, transaction: Transaction, type_name: str) -> bool:
        """True if a subscription is on this type."""
        return type_name in self._of(transaction)

    def merged(self, transaction: Transaction) -> None:
        """Apply a merge: criteria that name the merged patient mean the survivor from now on."""
        rows.changed(transaction)

    def _of(self, transaction: Transaction) -> dict[str, OfType]:
        token = rows.token(transaction)
        if token is None:
            return {}
        known = self._known.get(transaction.tenant)
        if known is None or known[0] != token:
            known = self._known[transaction.tenant] = (token, _compiled(transaction))
        return known[1]


def _compiled(transaction: Transaction) -> dict[str, OfType]:
    compiled: dict[str, OfType] = {}
    for one in rows.active_subscriptions(transaction):
        search = _search(one)
        if search is None:
            continue
        search = follow_merges(transaction, search)
        where, arguments = with_probes(THE_ONE, (), sorted(search.criteria, key=lambda criterion: criterion.rank))
        watched = WatchedSubscription(one.id, one.version, one.end_ms, MATCH.format(where=where), arguments)
        of_type = compiled.setdefault(one.type, OfType())
        keys = _anchor(search)
        for key in keys:
            of_type.keyed.setdefault(key, []).append(watched)
        if not keys:
            of_type.others.append(watched)
    return compiled


def _search(row: Subscribed) -> SearchQuery | None:
    """Return the search of a row's criteria; None for criteria of another release that this one cannot read."""
    version = FhirVersion.STU3 if row.version == "STU3" else FhirVersion.R4
    try:
        return parse_criteria(row.criteria, version).search
    except RefusedError:
        logger().error("subscription not understood", id=row.id)
        return None


def _anchor(search: SearchQuery) -> frozenset[Key]:
    """Return the keys of the most selective criterion that every match needs; empty if there is none."""
    for criterion in sorted(search.criteria, key=lambda one: one.rank):
        keys = _values(criterion)
        if 0 < len(keys) <= MOST_KEYS:
            return keys
    return frozenset()


def _values(criterion: Criterion) -> frozenset[Key]:
    parameter = criterion.parameter
    if criterion.missing is not None or parameter.also:
        return frozenset()
    if parameter.kind is ParameterKind.REFERENCE:
        return frozenset((parameter.rows, str(argument)) for _, arguments in criterion.tests for argument in arguments)
    # The first argument is the code or number, unless the test is on the system alone.
    coded = parameter.kind in {ParameterKind.TOKEN, ParameterKind.IDENTIFIER}
    if coded and all(test.startswith(("code = ?", "value = ?")) for test, _ in criterion.tests):
        return frozenset((parameter.rows, str(arguments[0])) for _, arguments in criterion.tests)
    return frozenset()


def _keys(index: Index) -> set[Key]:
    keys = {(row.parameter, row.code) for row in index.tokens}
    keys.update((row.parameter, row.target) for row in index.references)
    keys.update((row.parameter, row.value) for row in index.identifiers)
    return keys
