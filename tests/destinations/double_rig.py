"""The engine as a process before doubles of servers, each behind a recording proxy of its own."""

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import orjson

from engine.config.channel import Channel
from tests.deliver.fake_chart import FakeChart
from tests.destinations.aidbox_like import AidboxLike
from tests.destinations.azure_like import AzureLike
from tests.destinations.blaze_like import BlazeLike
from tests.destinations.firely_like import FirelyLike
from tests.destinations.google_like import GoogleLike
from tests.destinations.healthlake_like import HealthLakeLike
from tests.destinations.medplum_like import MedplumLike
from tests.destinations.server_like import ServerLike
from tests.flow.proxy import Proxy
from tests.flow.rig import SECRET, Rig, channel_file, destination, write

SERVERS: Final[Mapping[str, type[ServerLike]]] = {
    "azure": AzureLike,
    "google": GoogleLike,
    "healthlake": HealthLakeLike,
    "medplum": MedplumLike,
    "aidbox": AidboxLike,
    "firely": FirelyLike,
    "blaze": BlazeLike,
}
ENDS: Final = (
    "SELECT entry.control_id, destination, delivery.state, delivery.reason FROM entry JOIN delivery USING (seq)"
)
BASIC: Final = {"type": "basic", "username": "engine", "password": {"env": "ENGINE_SECRET"}}


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


def content_of(everything: Mapping[str, dict[str, Any]], only: Iterable[str] | None = None) -> Counter[bytes]:
    """Return resources by reference without ids and versions: what refers to something names its numbers instead.

    `only`: the references of those that are wanted; None: all.
    """

    def numbers(reference: str) -> list[str]:
        body = everything.get(reference, {})
        named = [f"{one.get('system')}|{one.get('value')}" for one in body.get("identifier", ())]
        return sorted(named) or [str(body.get("name", reference.partition("/")[0]))]

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            parts = {name: plain(part) for name, part in value.items() if name not in {"id", "meta"}}
            if isinstance(value.get("reference"), str):
                parts["reference"] = numbers(value["reference"])
            return parts
        return [plain(part) for part in value] if isinstance(value, list) else value

    wanted = everything if only is None else only
    return Counter(orjson.dumps(plain(everything[one]), option=orjson.OPT_SORT_KEYS) for one in wanted)


def kept(double: FakeChart) -> dict[str, dict[str, Any]]:
    """Return what a double holds, by reference."""
    return {f"Patient/{one}": body for one, body in double.patients.items()} | dict(double.chart)


class Ending(NamedTuple):
    """How a message ended at a destination."""

    state: str
    reason: str


class ProfilesRig(Rig):
    """One engine that delivers to a double of each profile; each destination has the name of its profile.

    A double of `generic` is any server. `with_service`: to the shipped service, too, through `proxy`.
    """

    def __init__(self, folder: Path, doubles: Mapping[str, ServerLike], *, with_service: bool = False) -> None:
        super().__init__(folder)
        self.doubles = doubles
        self.proxies = {name: Proxy() for name in doubles}
        self._with_service = with_service

    async def open(self, **channel: Any) -> "ProfilesRig":
        """Start doubles and proxies and write the channel file; keywords override keys of the channel."""
        self.folder.mkdir(exist_ok=True)
        there = []
        if self._with_service:
            await super().open()
            there.append(destination(self.proxy.url, name="shipped", profile="shipped"))
        for name, double in self.doubles.items():
            await double.start()
            await self.proxies[name].start(double.base.removesuffix("/fhir/R4"))
            auth: dict[str, Any] = {"type": "none"}
            if isinstance(double, AidboxLike):
                double.credentials, auth = ("engine", SECRET), BASIC
            there.append(destination(self.proxies[name].url, name=name, profile=name, auth=auth))
            del there[-1]["if_none_exist"]
        own = channel_file("http://unused.example") | {"destinations": there}
        write(self.folder / "channels" / "riverbend-adt.yaml", own | channel)
        return self

    async def close(self) -> None:
        """End the engine and close every socket."""
        await super().close()
        for name, double in self.doubles.items():
            await self.proxies[name].stop()
            await double.stop()

    def ends(self) -> dict[str, dict[str, Ending]]:
        """Return how each message ended, by destination and control ID."""
        found: dict[str, dict[str, Ending]] = {}
        for control_id, name, state, reason in self._query(ENDS):
            found.setdefault(name, {})[control_id] = Ending(state, reason)
        return found
