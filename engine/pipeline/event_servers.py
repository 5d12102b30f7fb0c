"""The FHIR servers whose events channels take, to be asked for what an event refers to."""

import secrets
from collections.abc import Callable, Mapping
from datetime import datetime

from engine.config.channel import Channel
from engine.config.destination import Destination
from engine.deliver.destination import FhirDestination
from engine.deliver.fhir_reader import FhirReader

Observe = Callable[[Destination, str], None]


class EventServers:
    """A reader of each channel that takes events, by the channel's name.

    `observe` hears what becomes of the engine's own certificate for a server.
    """

    def __init__(self, clock: Callable[[], datetime], observe: Observe) -> None:
        self.readers: dict[str, FhirReader] = {}
        self._clock = clock
        self._observe = observe

    async def change(self, channels: Mapping[str, Channel]) -> None:
        """Have readers for these channels, and no others; one whose server stays as it is described is kept."""
        servers = {name: one.listen.fhir.server for name, one in channels.items() if one.listen.fhir is not None}
        old = [name for name, one in self.readers.items() if servers.get(name) != one.server.settings]
        closing = [self.readers.pop(name) for name in old]
        for name, settings in servers.items():
            if name not in self.readers:
                self.readers[name] = FhirReader(self._client(settings, channels[name]))
        for one in closing:
            await one.close()

    async def close(self) -> None:
        """Close all connections."""
        await self.change({})

    def _client(self, settings: Destination, channel: Channel) -> FhirDestination:
        def observed(kind: str) -> None:
            self._observe(settings, kind)

        return FhirDestination(
            settings, channel, clock=self._clock, new_id=lambda: secrets.token_hex(16), observe=observed
        )
