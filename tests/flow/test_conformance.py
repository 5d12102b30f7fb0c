"""What a channel does with messages that break their version's rules: nothing, count them, or refuse them."""

from pathlib import Path

import pytest

from engine.ops.sender.line import send_messages
from tests.flow.rig import running

GOOD = (
    "MSH|^~\\&|REG|RVB|ENG|HUB|20260302061604||ADT^A04^ADT_A01|C1|P|2.5.1\rEVN||20260302061604\r"
    "PID|1||RB1^^^RVB^MR||Quillfeather^Marisol||19840229|F\rPV1|1|O\r"
)
BAD = GOOD.replace("|C1|", "|C2|").replace("RVB^MR", "RVB^SECRET").replace("PV1|1|O\r", "")


@pytest.mark.parametrize(
    ("policy", "codes", "flags"),
    [("off", ["AA", "AA"], []), ("warn", ["AA", "AA"], ["conformance: 2"]), ("refuse", ["AA", "AE"], [])],
)
async def test_the_channel_decides(tmp_path: Path, policy: str, codes: list[str], flags: list[str]) -> None:
    """Off says nothing; warn counts on the entry and delivers; refuse answers AE and where, without values."""
    async with running(tmp_path, conformance=policy) as rig:
        await rig.engine.start()
        host, port = await rig.address()
        answers = await send_messages(host, port, [GOOD.encode(), BAD.encode()])
        assert [answer.code for answer in answers] == codes
        shown = (await rig.ask("messages.show", entry=2))["done"]
        assert [flag for flag in shown["flags"] if flag.startswith("conformance")] == flags
        rows = await rig.until(lambda rows: all(row.state in {"delivered", "rejected"} for row in rows))
        assert rows[1].state == ("rejected" if policy == "refuse" else "delivered")
        if policy == "refuse":
            assert rows[1].reason == "conformance-segment-missing"
            errors = [line.split("|") for line in answers[1].reply.decode().split("\r") if line.startswith("ERR")]
            assert [(error[2], error[3].split("^")[0]) for error in errors] == [
                ("PV1^1", "100"),
                ("PID^1^3^1^5", "103"),
            ]
            assert b"SECRET" not in answers[1].reply
