"""What destinations hold of a patient now: all asked at once, each within a time, and none waited for by the others."""

import asyncio
from collections.abc import Sequence
from typing import Final

from engine.deliver.patient.chart import Chart
from engine.errors import DeliveryError
from engine.fhir.plan import Identity
from engine.pipeline.outbound.memory import DestinationMemory
from engine.pipeline.repair.entry_operations import EntryOperations

# Whoever waits at a page sees the rest without a destination that is slower.
SECONDS: Final = 8.0
SLOW: Final = "timeout"


async def charts(operations: EntryOperations, identities: Sequence[Identity]) -> dict[str, Chart | str]:
    """Return what each destination holds under identifiers, or the reason why it could not be read."""
    names = sorted(operations.dispatches)
    return dict(zip(names, await asyncio.gather(*(_at(operations, name, identities) for name in names)), strict=True))


async def _at(operations: EntryOperations, name: str, identities: Sequence[Identity]) -> Chart | str:
    memory = DestinationMemory(name, operations.journal)
    server = operations.dispatch(name).destination
    try:
        async with asyncio.timeout(SECONDS), operations.room:
            return await server.chart(identities, memory, at=operations.clock())
    except DeliveryError as error:
        return str(error)
    except TimeoutError:
        return SLOW
