"""A small hospital's night: a merge, visits, a number that two people share, and what is held and for whom."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from engine.ops.sender.line import send_messages
from tests.flow.rig import running
from tests.ops.web.conftest import Site, message, start

HEAD = "MSH|^~\\&|REG|RVB|X|Y|20250701{at}||ADT^{event}|{id}|P|2.5.1|||||||UNICODE UTF-8\rEVN||20250701{at}\r"
PID = "PID|1||{number}^^^RVB^MR||{name}||{born}|F|||1 Elm Terrace^^Keswick^OR^97301||5550100\r"


def event(
    structure: str, control_id: str, number: str, at: str, more: str = "", name: str = "Quintero^Marisol"
) -> bytes:
    """Return an event of one person who was born on 1984-02-29."""
    pid = PID.format(number=number, name=name, born="19840229")
    return (HEAD.format(event=structure, id=control_id, at=at) + pid + more).encode()


def visit(number: str, bed: str, admitted: str) -> str:
    """Return a PV1."""
    fields = [""] * 45
    fields[1], fields[2], fields[3], fields[19], fields[44] = "1", "I", bed, f"{number}^^^RVB^VN", admitted
    return "|".join(["PV1", *fields[1:45]]) + "\r"


# A patient of two numbers: registered twice, admitted, moved, merged; then somebody whose birth date is missing.
NIGHT = (
    event("A28^ADT_A05", "N1", "RB-10", "101500"),
    event("A28^ADT_A05", "N2", "RB-11", "101600", name="Quintero^Marisol^Ruth"),
    event("A01^ADT_A01", "N3", "RB-10", "110000", visit("V-1", "3W^312^A", "20250701110000")),
    event("A02^ADT_A02", "N4", "RB-10", "120000", visit("V-1", "5E^512^A", "20250701110000")),
    event("A40^ADT_A39", "N5", "RB-10", "130000", "MRG|RB-11^^^RVB^MR\r"),
    message("N6", "RB-20", "Alderton^Hugo", born=""),
    message("N7", "RB-20", "Alderton^Hugo", born=""),
    message("N8", "RB-21", "Castellan^Greta", born=""),
)
FIRST, MERGE, HELD, BEHIND, HELD_TOO = 1, 5, 6, 7, 8
ENDED = ["delivered"] * 5 + ["held", "waiting", "held"]


@asynccontextmanager
async def night(folder: Path) -> AsyncIterator[Site]:
    """Run an engine on which that night has happened."""
    async with running(folder) as rig:
        site = await start(rig)
        for one in NIGHT:
            await send_messages(*await rig.address(), [one])
        await rig.until(lambda rows: [row.state for row in rows] == ENDED)
        try:
            yield site
        finally:
            await asyncio.gather(*(person.close() for person in site.people.values()))
