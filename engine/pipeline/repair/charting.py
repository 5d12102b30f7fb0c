"""What destinations hold of a patient now: all asked at once, each within a time, and none waited for by the others."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

from engine.deliver.destination import FhirDestination
from engine.deliver.patient.chart import Alike, PatientChart
from engine.errors import DeliveryError
from engine.fhir.plan import Identity
from engine.pipeline.outbound.memory import DestinationMemory
from engine.pipeline.repair.entry_operations import EntryOperations

# A person who waits at a page sees the rest without a destination that is slower.
SECONDS: Final = 8.0
SLOW: Final = "timeout"

T = TypeVar("T")


async def charts(operations: EntryOperations, identities: Sequence[Identity]) -> dict[str, PatientChart | str]:
    """Return what each destination holds under identifiers, or the reason why it could not be read."""
    return await _each(operations, lambda server, memory: server.chart(identities, memory, at=operations.clock()))


async def alike(operations: EntryOperations, identities: Sequence[Identity]) -> dict[str, Alike | str]:
    """Return the patient's record and its possible duplicates at each destination, or why it could not be read."""
    return await _each(operations, lambda server, memory: server.alike(identities, memory, at=operations.clock()))


async def _each(
    operations: EntryOperations, ask: Callable[[FhirDestination, DestinationMemory], Awaitable[T]]
) -> dict[str, T | str]:
    names = sorted(operations.dispatches)
    return dict(zip(names, await asyncio.gather(*(_at(operations, name, ask) for name in names)), strict=True))


async def _at(
    operations: EntryOperations, name: str, ask: Callable[[FhirDestination, DestinationMemory], Awaitable[T]]
) -> T | str:
    memory = DestinationMemory(name, operations.journal)
    try:
        async with asyncio.timeout(SECONDS), operations.room:
            return await ask(operations.dispatch(name).destination, memory)
    except DeliveryError as error:
        return str(error)
    except TimeoutError:
        return SLOW
