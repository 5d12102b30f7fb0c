"""An engine of one channel whose destination does not answer."""

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

from tests.flow.program import Program

CHANNEL: Final = """\
channel: {name}
listen: {{mllp: {{host: 127.0.0.1, port: {port}}}}}
timezone: America/New_York
authorities: {{RVB: "https://mrn.riverbend.example"}}
destinations:
  - {{name: nowhere, base_url: "http://127.0.0.1:9/fhir/R4"}}
"""


def write_channel(folder: Path, text: str = CHANNEL.format(name="a", port=0), name: str = "a.yaml") -> None:
    """Write a file into `channels` of a folder."""
    (folder / "channels").mkdir(exist_ok=True)
    (folder / "channels" / name).write_text(text)


@contextlib.asynccontextmanager
async def alone(folder: Path, *options: str) -> AsyncIterator[Program]:
    """Run the engine in a folder until the block ends, or the test has ended it."""
    write_channel(folder)
    program = Program(folder, "run", "--channels", "channels", "--data", "data", *options)
    await program.start()
    await program.line("started")
    try:
        yield program
    finally:
        if program.alive:
            await program.kill()
