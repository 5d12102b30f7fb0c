"""What delivery asks to be reminded of, read from the journal for one destination."""

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Final, TypeVar

from engine.deliver.verdict import KnownIdentifier
from engine.fhir.plan import Identity, Plan
from engine.journal.entry import Settlement
from engine.journal.journal import Journal
from engine.journal.state import memory
from engine.mapping.subject.subject import lane_key

_T = TypeVar("_T")

REMEMBERED: Final = 50_000
CLAIMS_REMEMBERED: Final = 10_000


class DestinationMemory:
    """Identities, ownership and merges of one destination as the journal holds them, and the newest event times."""

    def __init__(
        self,
        destination: str,
        journal: Journal,
        other_forms: Callable[[str, Identity], tuple[Identity, ...]] = lambda _name, _identity: (),
    ) -> None:
        self._destination = destination
        self._other_forms = other_forms
        self._journal = journal
        self._newest: OrderedDict[tuple[int, str], datetime | None] = OrderedDict()
        self._claims: OrderedDict[str, dict[str, frozenset[str] | None]] = OrderedDict()

    async def known(self, identities: Sequence[Identity]) -> Mapping[Identity, KnownIdentifier]:
        """Return what is known of the identifiers; those never seen are left out."""
        found = await self._ask(memory.known, identities)
        return {
            Identity(one.system, one.value): KnownIdentifier(
                Identity(one.system, one.value), one.logical_id, one.status, one.survivor
            )
            for one in found.values()
        }

    def other_forms(self, identity: Identity) -> tuple[Identity, ...]:
        """Return the spellings in which a number was known before it had a form (`normalise`)."""
        return self._other_forms(self._destination, identity)

    async def owned(self, resource: str, source: str) -> Mapping[str, tuple[str, ...]]:
        """Return the digests a source last wrote to a resource, by slice."""
        return await self._ask(memory.owned, resource, source)

    async def claimed(self, resource: str, source: str) -> frozenset[str]:
        """Return the digests of all that other sources say of a resource."""
        held = self._claims.get(resource)
        if held is None:
            held = self._claims[resource] = {}
            if len(self._claims) > CLAIMS_REMEMBERED:
                self._claims.popitem(last=False)
        found = held.get(source)
        if found is not None:
            return found
        held[source] = None
        asked: frozenset[str] = await self._ask(memory.claimed, resource, source)
        held[source] = asked
        return asked

    async def merged(self, source: Identity, survivor: Identity) -> bool:
        """Say whether this merge was carried out before."""
        return await self._ask(memory.merged, lane_key(source), lane_key(survivor))

    async def leads(self, source: Identity, survivors: Sequence[Identity]) -> bool:
        """Say whether an identifier was merged into one of others, directly or through others."""
        return await self._ask(memory.leads, lane_key(source), [lane_key(survivor) for survivor in survivors])

    async def survivor(self, logical_id: str) -> str:
        """Return the id of the record that one was merged into; empty where that is not known."""
        return await self._journal.read(lambda connection: memory.survivor(connection, self._destination, logical_id))

    async def behind(self, lanes: tuple[int, ...], seq: int, most: int) -> list[tuple[str, bytes, str]]:
        """Return channel, bytes and event of at most `most` entries that wait behind one in its lanes, oldest first."""
        return await self._ask(memory.behind, lanes, seq, most)

    async def is_stale(self, lanes: tuple[int, ...], plan: Plan) -> bool:
        """Say whether something newer of the same source was applied to these lanes, at the coarser precision."""
        if plan.event_at is None:
            return False
        moment = _coarse(plan.event_at, plan.event_precision)
        for lane in lanes:
            newest = await self._newest_of(lane, plan.source)
            if newest is not None and moment < _coarse(newest, plan.event_precision):
                return True
        return False

    def applied(self, lanes: tuple[int, ...], plan: Plan) -> None:
        """Note that a plan is now applied to these lanes."""
        if plan.event_at is None:
            return
        # What is not remembered is read from the journal when it is asked for.
        for key in [(lane, plan.source) for lane in lanes if (lane, plan.source) in self._newest]:
            self._remember(key, max(plan.event_at, self._newest[key] or plan.event_at))

    def forget(self, lanes: tuple[int, ...], source: str) -> None:
        """Ask the journal anew of lanes in which another node has delivered."""
        self._claims.clear()
        for lane in lanes:
            self._newest.pop((lane, source), None)

    def forget_all(self) -> None:
        """Ask the journal anew of everything: what was noted here did not come to stand there."""
        self._claims.clear()
        self._newest.clear()

    def settled(self, settlement: Settlement) -> None:
        """Note that a settlement is in the journal; others are to ask anew for what its source says of resources."""
        if settlement.inherited:
            self._claims.clear()
        for one in settlement.owned:
            if self._claims.get(one.resource, {}).keys() - {one.source}:
                del self._claims[one.resource]

    async def _newest_of(self, lane: int, source: str) -> datetime | None:
        key = lane, source
        if key not in self._newest:
            newest = await self._journal.read(
                lambda connection: memory.last_applied(connection, self._destination, (lane,), source)
            )
            self._remember(key, newest)
        return self._newest[key]

    async def _ask(self, work: Callable[..., _T], *arguments: object) -> _T:
        """Return what the journal knows of the destination, by one of the functions of its memory."""
        return await self._journal.look(
            lambda context: work(context.connection, context.sealing, self._destination, *arguments)
        )

    def _remember(self, key: tuple[int, str], moment: datetime | None) -> None:
        self._newest[key] = moment
        self._newest.move_to_end(key)
        if len(self._newest) > REMEMBERED:
            self._newest.popitem(last=False)


def _coarse(moment: datetime, precision: int) -> datetime:
    if precision >= 14:
        return moment
    if precision >= 12:
        return moment.replace(second=0, microsecond=0)
    if precision >= 10:
        return moment.replace(minute=0, second=0, microsecond=0)
    return moment.replace(hour=0, minute=0, second=0, microsecond=0)
