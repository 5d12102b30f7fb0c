"""The demo's other system: it gets each message by MLLP as it came in, and writes a line for it."""

from pathlib import Path
from typing import Final

from engine.ops.receiver.receiver import MllpReceiver, ReceivedMessage, ReceiverEvent

NAME: Final = "radiology"


class DemoRadiology:
    """A `receiver` on this machine that answers AA; `log` is the file that people watch."""

    def __init__(self, folder: Path) -> None:
        self.log = folder / f"{NAME}.txt"
        self.log.touch()
        self.receiver = MllpReceiver(observe=self._write)

    @property
    def received(self) -> int:
        """How many messages it got, repeats among them."""
        return self.receiver.messages.total()

    @property
    def destination(self) -> str:
        """The line of a channel file that makes it a destination, once it listens."""
        return f"  - {{name: {NAME}, type: mllp, host: 127.0.0.1, port: {self.receiver.port}}}\n"

    def _write(self, message: ReceivedMessage | ReceiverEvent) -> None:
        if not isinstance(message, ReceivedMessage) or message.header is None:
            return
        header = message.header
        what = f"{header.message_type}^{header.trigger} {header.control_id.decode('ascii', 'backslashreplace')}"
        with self.log.open("a", encoding="utf-8") as file:
            file.write(f"{message.at:%H:%M:%S} {what}, {len(message.raw)} bytes\n")
