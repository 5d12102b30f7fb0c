"""Which subscriptions a write concerns, found in its transaction, so that each is owed the event by the same commit.

Most do not match: they are told apart by one code or reference of theirs in a dictionary, without a query. Those that
are left are matched as a search for this one resource would be, by the same conditions on the same rows.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from engine.fhir.schema import FhirVersion
from engine.interchange.kernel.outcome import RefusedError
from engine.interchange.rest.resource.search import follow_merges
from engine.interchange.rest.subscriptions.criteria import parse_criteria
from engine.interchange.store import subscription as rows
from engine.interchange.store.clause import Arguments, with_probes
from engine.interchange.store.index import Index
from engine.interchange.store.notification import NotificationEvent, enqueue
from engine.interchange.store.search.criterion import Criterion, ParameterKind, SearchQuery
from engine.interchange.store.subscription import Subscribed
from engine.interchange.store.transaction import StoredVersion, Transaction, milliseconds
from engine.telemetry import logger

# What a resource must have among its rows, as one of the values of one parameter.
Key = tuple[str, str]

MATCH: Final = "SELECT 1 FROM resource WHERE {where}"
THE_ONE: Final = "key = ?"
# By how many values a subscription may be told apart.
MOST_KEYS: Final = 100


class WatchedSubscription(NamedTuple):
    """A subscription, and the condition on a resource that it matches; its arguments come behind the key."""

    id: str
    version: str
    end_ms: int | None
    condition: str
    arguments: Arguments


@dataclass(slots=True)
class OfType:
    """The subscriptions to one type: those told apart by a key of theirs, and those that each write is matched with."""

    keyed: dict[Key, list[WatchedSubscription]] = field(default_factory=dict)
    others: list[WatchedSubscription] = field(default_factory=list)

    def candidates(self, keys: Callable[[], set[Key]]) -> list[WatchedSubscription]:
        """Return those that a resource with such rows may match, each once."""
        if not self.keyed:
            return self.others
        found = {one.id: one for key in keys() for one in self.keyed.get(key, ())}
        return [*self.others, *found.values()]


class SubscriptionMatcher:
    """Queues the events of writes for their subscribers; compiled criteria are cached by the tenant's token."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[str, dict[str, OfType]]] = {}

    def on_write(self, transaction: Transaction, stored: StoredVersion, index: Callable[[], Index]) -> None:
        """Queue a version that was just written for each subscription that it matches."""
        of_type = self._of(transaction).get(stored.type)
        if of_type is None:
            return
        at_ms = milliseconds(transaction.at)
        # Many ask for the same: what was found for one holds for the others.
        known: dict[tuple[str, Arguments], bool] = {}
        for one in of_type.candidates(lambda: _keys(index()) | transaction.inherited_identifiers(stored.key)):
            if one.end_ms is not None and one.end_ms <= at_ms:
                continue
            asked = (one.condition, one.arguments)
            if asked not in known:
                found = transaction.connection.execute(one.condition, (stored.key, *one.arguments)).fetchone()
                known[asked] = found is not None
            if known[asked]:
                enqueue(
                    transaction, one.id, one.version, NotificationEvent(f"{stored.type}/{stored.id}", stored=stored)
                )

    def watches(self, transaction: Transaction, type_name: str) -> bool:
        """Say whether a subscription asks for writes of a type."""
        return type_name in self._of(transaction)

    def merged(self, transaction: Transaction) -> None:
        """Let criteria that name a merged patient mean the survivor from now on."""
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
    found: dict[str, OfType] = {}
    for one in rows.active_subscriptions(transaction):
        search = _search(one)
        if search is None:
            continue
        search = follow_merges(transaction, search)
        where, arguments = with_probes(THE_ONE, (), sorted(search.criteria, key=lambda criterion: criterion.rank))
        watched = WatchedSubscription(one.id, one.version, one.end_ms, MATCH.format(where=where), arguments)
        of_type = found.setdefault(one.type, OfType())
        keys = _anchor(search)
        for key in keys:
            of_type.keyed.setdefault(key, []).append(watched)
        if not keys:
            of_type.others.append(watched)
    return found


def _search(row: Subscribed) -> SearchQuery | None:
    """Return what the criteria of a row ask for; None for those of another release, which this one cannot read."""
    version = FhirVersion.STU3 if row.version == "STU3" else FhirVersion.R4
    try:
        return parse_criteria(row.criteria, version).search
    except RefusedError:
        logger().error("subscription not understood", id=row.id)
        return None


def _anchor(search: SearchQuery) -> frozenset[Key]:
    """Return the values of the most telling criterion without which nothing matches; none where there is no such."""
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
        return frozenset((parameter.rows, str(one)) for _, arguments in criterion.tests for one in arguments)
    # Of a code or number, the first argument is itself, unless only its system is asked for.
    coded = parameter.kind in {ParameterKind.TOKEN, ParameterKind.IDENTIFIER}
    if coded and all(test.startswith(("code = ?", "value = ?")) for test, _ in criterion.tests):
        return frozenset((parameter.rows, str(arguments[0])) for _, arguments in criterion.tests)
    return frozenset()


def _keys(index: Index) -> set[Key]:
    found = {(row.parameter, row.code) for row in index.tokens}
    found.update((row.parameter, row.target) for row in index.references)
    found.update((row.parameter, row.value) for row in index.identifiers)
    return found
