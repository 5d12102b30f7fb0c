"""The page on relays: its channel files run, and do what the page says."""

import re
from pathlib import Path
from typing import Any, Final

import yaml

from engine.ops.sender.line import send_messages
from tests.flow.program import Program
from tests.flow.rig import write
from tests.ops.relays import LOOPBACK, Receiver
from tests.ops.web.conftest import message

PAGE: Final = (Path(__file__).resolve().parents[3] / "engine/ops/docs/relay.md").read_text("utf-8")
HEAD: Final = b"MSH|^~\\&|LAB|RVB|X|Y|20250701||%s|%s|P|2.5.1\r"
ORDER: Final = HEAD % (b"ORM^O01", b"O1") + b"PID|1||RB-1^^^RVB^MR\rORC|NW|7\r"
RESULT: Final = HEAD % (b"ORU^R01", b"R1") + b"PID|1||RB-1^^^RVB^MR\rOBX|1|ST|a||x\r"
BED: Final = HEAD % (b"ADT^A20", b"B1") + b"EVN|A20|20250701\rNPU|3W^312\r"
NOBODY: Final = message("N1", "")


def file_under(heading: str) -> dict[str, Any]:
    """Return the channel file that the page shows under a heading."""
    text = PAGE.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    found: dict[str, Any] = yaml.safe_load(re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)[0])
    return found


async def passed_on(
    folder: Path, channel: dict[str, Any], feed: tuple[bytes, ...], count: int
) -> tuple[list[bytes], list[str]]:
    """Run an engine with a channel whose relay leads to a receiver; return what that got, and the acknowledgements."""
    async with Receiver() as receiver:
        channel["listen"]["mllp"]["port"] = 0
        channel["destinations"][-1]["port"] = receiver.port
        write(folder / "channels" / "a.yaml", channel)
        engine = Program(folder, "run", "--channels", "channels", "--data", "data")
        try:
            await engine.start()
            answers = await send_messages(LOOPBACK, await engine.up(), list(feed))
            await receiver.gets(count)
            await engine.stop()
        finally:
            if engine.alive:
                await engine.kill()
        return receiver.got, [answer.acks[0].code if answer.acks else "" for answer in answers]


async def test_in_front_of_another_engine(tmp_path: Path) -> None:
    """The whole feed arrives byte for byte, in order; what was refused does not, nor does an acknowledgement."""
    feed = (message("C1", "RB-1"), ORDER, NOBODY, RESULT, BED, message("C2", "RB-2"))
    got, codes = await passed_on(tmp_path, file_under("In front of your engine"), feed, 5)
    assert codes == ["AA", "AA", "AE", "AA", "AA", "AA"]
    assert got == [one for one in feed if one != NOBODY]


async def test_beside_a_server(tmp_path: Path) -> None:
    """What the channel delivers, whatever the server does (nobody listens there); no other type, nothing filtered."""
    channel = file_under("Beside a FHIR server")
    feed = (message("C1", "RB-1"), ORDER, BED, message("C2", "RB-2"))
    channel["destinations"][0]["base_url"] = f"http://{LOOPBACK}:1/fhir/R4"
    got, codes = await passed_on(tmp_path, channel, feed, 2)
    assert codes == ["AA", "AR", "AA", "AA"]
    assert got == [message("C1", "RB-1"), message("C2", "RB-2")]
