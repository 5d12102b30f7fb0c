"""What one source says of a resource, applied with regard to what others say: their items of a list stay."""

from collections.abc import Iterable

from engine.deliver.stored import Stored
from engine.deliver.wire.exchange import Exchange
from engine.fhir.changes import Applied, apply
from engine.fhir.plan import ElementChange


async def applied(
    exchange: Exchange,
    found: Stored,
    changes: Iterable[ElementChange],
    *,
    fill: bool = False,
    required: frozenset[str] = frozenset(),
) -> Applied:
    """Return a stored resource after the changes of the plan's source; `fill` and `required` as of `apply`.

    An item that this source says no more stays as long as another one says it. The others are asked about only where
    something is to go.
    """
    changes, mine = tuple(changes), await exchange.owned_slices(found)
    result = apply(found.body, changes, mine, fill=fill, required=required)
    if not result.dropped:
        return result
    claimed = await exchange.memory.claimed(found.reference, exchange.source)
    if claimed.isdisjoint(result.dropped):
        return result
    return apply(found.body, changes, mine, fill=fill, required=required, claimed=claimed)
