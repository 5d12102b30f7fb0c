"""What a FHIR server was seen to do with `If-Match`: recalled at the start, kept as it is found, logged once."""

from collections.abc import Callable
from datetime import datetime
from functools import partial

from engine import telemetry
from engine.deliver.destination import FhirDestination
from engine.deliver.wire.abilities import NO_IF_MATCH
from engine.journal.journal import Journal
from engine.journal.state import memory

_log = telemetry.logger()


class VersionChecks:
    """The findings of one destination; a relay has none, and `server` is None."""

    def __init__(self, name: str, journal: Journal, clock: Callable[[], datetime]) -> None:
        self._name = name
        self._journal = journal
        self._clock = clock
        self._overwrites = False

    async def recall(self, server: FhirDestination | None) -> None:
        """Give a server what was found in earlier lives."""
        if server is not None:
            server.proofs.known |= await self._journal.read(partial(memory.proofs, destination=self._name))

    def tell(self, server: FhirDestination | None) -> None:
        """Log once that a server ignores `If-Match`, as far as it was found: nothing else says so there."""
        overwrites = server is not None and NO_IF_MATCH in server.missing()
        if overwrites and not self._overwrites:
            _log.warning("destination ignores If-Match", destination=self._name, reason=NO_IF_MATCH)
        self._overwrites = overwrites

    async def keep(self, server: FhirDestination | None) -> None:
        """Keep what was found since."""
        for base, honoured in server.proofs.take_new() if server is not None else ():
            await self._journal.write(
                partial(memory.keep, destination=self._name, server=base, honoured=honoured, now=self._clock())
            )
