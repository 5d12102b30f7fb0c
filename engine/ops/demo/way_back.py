"""The demo's way back: a clinician changes a chart at the service, and the registration system is told by a message."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import orjson

from engine.config.source import scan
from engine.errors import AdtEngineError
from engine.ops.demo.chart import DemoCharts
from engine.ops.demo.demo_days import FEED, ended
from engine.ops.demo.processes import Child
from engine.ops.demo.receivers import DemoReceiver
from engine.ops.operations.channels import Reload
from engine.ops.terminal.command import ask
from engine.pipeline.outbound.change_messages import OWN

CHANNEL: Final = "registry-back"
TELEPHONE: Final = "(555)555-0142"
NAMES: Final = {
    "sending_application": "CDIS", "receiving_application": "REG", "receiving_facility": "RIVERBEND",
}  # fmt: skip
# A change comes out once the events of all that the feed had written were looked at, in order.
TOLD_SECONDS: Final = 60.0
EVERY_SECONDS: Final = 0.5
CLOCK_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True)
class WayBack:
    """What the registration system got: the message of the change, empty where none came, and how many others.

    `own`: how many events of what the engine itself had written for the feed were not sent.
    """

    message: str
    echoes: int
    own: int

    @property
    def good(self) -> bool:
        """Whether the change was told, and nothing of the feed came back."""
        return self.event == "A31" and not self.echoes

    @property
    def event(self) -> str:
        """The trigger event of the message."""
        fields = self.message.partition("\n")[0].split("|")
        return fields[8].split("^")[1] if len(fields) > 8 else ""

    def as_row(self) -> dict[str, object]:
        """Return it for JSON."""
        return {"event": self.event, "message": self.message.splitlines(), "echoes": self.echoes, "own": self.own}


async def begin(folder: Path, engine: Child, registration: DemoReceiver) -> None:
    """Put a channel of the service's events in force, and wait until it has begun."""
    channels = folder / "channels"
    channel = _channel(scan(channels / f"{FEED}.yaml").value, registration)
    (channels / f"{CHANNEL}.yaml").write_bytes(orjson.dumps(channel, option=orjson.OPT_INDENT_2))
    # A server's clock tells seconds: what the feed wrote in the last one would be taken for somebody else's.
    await asyncio.sleep(CLOCK_SECONDS)
    await asyncio.to_thread(ask, folder / "engine", Reload())
    await engine.until_logged("events begin")


async def change(data: Path, clinician: DemoCharts, system: str, number: str, registration: DemoReceiver) -> WayBack:
    """Change the telephone in a chart and return what the registration system got; AdtEngineError where it cannot."""
    patient = await clinician.by_identifier(system, number)
    if patient is None:
        raise AdtEngineError(f"the service finds no one patient under {number}")
    await clinician.set_telephone(patient, TELEPHONE)
    with suppress(TimeoutError):
        async with asyncio.timeout(TOLD_SECONDS):
            await registration.until(TELEPHONE)
    told = TELEPHONE in registration.last
    own = sum(row.reason == OWN.reason for row in await ended(data, CHANNEL))
    return WayBack(registration.last if told else "", registration.different - told, own)


def _channel(feed: Mapping[str, Any], registration: DemoReceiver) -> dict[str, Any]:
    """Return a channel that takes the events of the server to which a feed is delivered, described as it is there."""
    server = feed["destinations"][0]
    return {
        "channel": CHANNEL,
        "listen": {"fhir": {"path": "registry", "server": server, "source": "history", "every_seconds": EVERY_SECONDS}},
        "timezone": feed["timezone"],
        "authorities": feed["authorities"],
        "destinations": [registration.destination | {"outgoing": NAMES}],
    }
