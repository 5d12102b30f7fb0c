"""The FHIR servers whose events channels take, to be asked for what an event refers to."""

from collections.abc import Callable, Mapping

from engine.config.channel import Channel
from engine.config.fhir_events import FhirEvents
from engine.deliver.fhir_reader import FhirReader


class EventServers:
    """A reader of each channel that takes events, by the channel's name; `reader_of` makes one."""

    def __init__(self, reader_of: Callable[[Channel, FhirEvents], FhirReader]) -> None:
        self.readers: dict[str, FhirReader] = {}
        self._reader_of = reader_of

    async def change(self, channels: Mapping[str, Channel]) -> None:
        """Have readers for these channels, and no others; one whose server stays as it is described is kept."""
        events = {name: one.listen.fhir for name, one in channels.items() if one.listen.fhir is not None}
        servers = {name: one.server for name, one in events.items()}
        old = [name for name, one in self.readers.items() if servers.get(name) != one.server.settings]
        closing = [self.readers.pop(name) for name in old]
        for name, of in events.items():
            if name not in self.readers:
                self.readers[name] = self._reader_of(channels[name], of)
        for one in closing:
            await one.close()

    async def close(self) -> None:
        """Close all connections."""
        await self.change({})
