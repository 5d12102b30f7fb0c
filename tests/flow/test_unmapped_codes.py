"""Codes that a table lacks, counted by table and field when their message is settled; the code itself stays with it."""

import asyncio
from pathlib import Path

from engine.ops.sender.line import send_messages
from tests.flow.rig import running

MESSAGE = (
    "MSH|^~\\&|REG|RVB|ENG|HUB|20260302061604||ADT^A04^ADT_A01|C1|P|2.5.1\rEVN||20260302061604\r"
    "PID|1||RB1^^^RVB^MR||Quillfeather^Marisol||19840229|F||||||||SENTINEL\rPV1|1|O\r"
)
COUNTED = 'adt_unmapped_codes_total{channel="riverbend-adt",field="PID-16",table="marital-status"} 1.0'


async def test_a_code_is_counted_once_by_its_table(tmp_path: Path) -> None:
    """One message, one count; the metric names table and field, never the code, and the note stands with the entry."""
    async with running(tmp_path) as rig:
        await rig.engine.start()
        host, port = await rig.address()
        await send_messages(host, port, [MESSAGE.encode()])
        await rig.until(lambda rows: bool(rows) and all(row.state == "delivered" for row in rows))
        async with asyncio.timeout(60):
            while COUNTED not in (metrics := (await rig.ask("metrics"))["done"]):  # noqa: ASYNC110 - another process
                await asyncio.sleep(0.05)
        assert "SENTINEL" not in metrics
        shown = (await rig.ask("messages.show", entry=1))["done"]
        assert "unmapped-code PID-16" in shown["deliveries"][0]["notes"]
