"""The demo's other systems: each gets messages by MLLP, and writes down in a file what it got."""

import asyncio
from pathlib import Path
from typing import Final

from engine.ops.receiver.receiver import MllpReceiver, ReceivedMessage, ReceiverEvent, Repeat

RADIOLOGY: Final = "radiology"
REGISTRATION: Final = "registration"


class DemoReceiver:
    """A `receiver` on this machine that answers AA; `log` is the file that people watch.

    `whole`: the file has the messages themselves, else a line for each; `last` is the newest one.
    """

    def __init__(self, folder: Path, name: str, *, whole: bool = False) -> None:
        self.name = name
        self.log = folder / f"{name}.txt"
        self.log.touch()
        self.receiver = MllpReceiver(observe=self._write)
        self.last = ""
        self._whole = whole
        self._came = asyncio.Event()

    @property
    def received(self) -> int:
        """How many messages it got, repeats among them."""
        return self.receiver.messages.total()

    @property
    def different(self) -> int:
        """How many messages it got, each once."""
        return self.received - self.receiver.messages[Repeat.SAME]

    @property
    def destination(self) -> dict[str, object]:
        """The keys of a channel file that make it a destination, once it listens."""
        return {"name": self.name, "type": "mllp", "host": "127.0.0.1", "port": self.receiver.port}

    async def until(self, text: str) -> None:
        """Wait until the newest message holds a text."""
        while text not in self.last:
            self._came.clear()
            await self._came.wait()

    def _write(self, message: ReceivedMessage | ReceiverEvent) -> None:
        if not isinstance(message, ReceivedMessage) or message.header is None:
            return
        header = message.header
        what = f"{header.message_type}^{header.trigger} {header.control_id.decode('ascii', 'backslashreplace')}"
        self.last = message.raw.decode("utf-8", "backslashreplace").replace("\r", "\n").rstrip()
        shown = "".join(f"  {segment}\n" for segment in self.last.splitlines()) if self._whole else ""
        with self.log.open("a", encoding="utf-8") as file:
            file.write(f"{message.at:%H:%M:%S} {what}, {len(message.raw)} bytes\n{shown}")
        self._came.set()
