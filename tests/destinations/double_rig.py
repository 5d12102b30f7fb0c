"""The engine as a process before a double of a server, through the recording proxy; there is no service of ours."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from engine.config.channel import Channel
from tests.deliver.fake_chart import FakeChart
from tests.flow.rig import Rig, channel_file, destination, write


class DoubleRig(Rig):
    """A rig whose server is a double; what the double keeps is what the checker judges."""

    def __init__(self, folder: Path, double: FakeChart) -> None:
        super().__init__(folder)
        self.double = double

    async def open(self, **settings: Any) -> "DoubleRig":
        """Start double and proxy and write the channel file; keywords are settings of the destination, or policies."""
        await self.double.start()
        await self.proxy.start(self.double.base.removesuffix("/fhir/R4"))
        own = destination(self.proxy.url, auth={"type": "none"}, if_none_exist="identifier")
        policies = {key: settings.pop(key) for key in list(settings) if key in Channel.model_fields}
        channel = channel_file(self.proxy.url) | {"destinations": [own | settings]} | policies
        write(self.folder / "channels" / "riverbend-adt.yaml", channel)
        return self

    async def close(self) -> None:
        """End the engine and close every socket."""
        await super().close()
        await self.double.stop()

    async def patients(self) -> dict[str, dict[str, Any]]:
        """Return every Patient of the double by id."""
        return dict(self.double.patients)

    async def visits(self, patients: Iterable[str]) -> list[dict[str, Any]]:
        """Return every Encounter of the patients with these ids."""
        holders = {f"Patient/{logical_id}" for logical_id in patients}
        return [visit for visit in self.double.of("Encounter") if visit["subject"]["reference"] in holders]
