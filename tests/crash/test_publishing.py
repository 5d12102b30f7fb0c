"""The engine killed while it puts mapping files in force: the old ones or the new ones, whole, and the trail tells."""

from pathlib import Path
from typing import Any, Final

import pytest

from engine.ops.playground.site import digest
from tests.flow.operator import done, message, sent
from tests.flow.rig import Rig
from tests.ops.playground.bench_site import PATIENT
from tests.ops.playground.bench_site import site as mapping_site

FILE: Final = "resources/patient.yaml"
TABLE: Final = "tables/mine.yaml"
# Neither file can be used without the other: a half of this does not even start.
EDITED: Final = {
    FILE: PATIENT + "  gender: PID-8 | code(mine)\n",
    TABLE: "table: mine\nsource: ours\nlicence: ours\nsystem: http://example.org/sex\ncodes: {F: other}\n",
}
OLD: Final = (PATIENT, None)
NEW: Final = (EDITED[FILE], EDITED[TABLE])


async def start(rig: Rig, **environment: str) -> None:
    """Start the engine and wait until it has noted what it found."""
    await rig.engine.start(**environment)
    await rig.engine.line("started")


async def publish(rig: Rig) -> None:
    """Ask for the edit to be put in force; an engine that dies answers nothing."""
    base = {FILE: digest(PATIENT.encode()), TABLE: ""}
    answer = await rig.ask("mappings.publish", edited=EDITED, base=base, reason="ticket 4711", accept_lost=True)
    assert "done" in answer, answer


def on_disk(rig: Rig) -> tuple[str | None, str | None]:
    """Return the texts of the two files."""
    folder = rig.folder / "mappings"
    first, second = (file.read_text() if file.is_file() else None for file in (folder / FILE, folder / TABLE))
    return first, second


async def gender(rig: Rig, number: str) -> Any:
    """Send a message about somebody new and return the gender that the mapping in force makes of it."""
    (answer,) = await sent(rig, message(f"C{number}", f"RB-{number}", event="A28"))
    assert answer.code == "AA"
    await rig.drained()
    (patient,) = await rig.numbered(f"RB-{number}")
    return patient["gender"]


async def told(rig: Rig) -> list[tuple[str, Any]]:
    """Return what the trail says of mapping files, oldest first, with the publication that it names."""
    rows = await done(rig, "audit.list", limit=100)
    found = [(row["act"], row["detail"].get("publication")) for row in rows if row["act"].startswith("mappings.")]
    return found[::-1]


@pytest.fixture
def site(rig: Rig) -> Path:
    """The mapping files of the engine, which may write them."""
    rig.engine.arguments = (*rig.engine.arguments, "--mappings", "mappings", "--publish-mappings")
    return mapping_site(rig.folder / "mappings")


async def test_killed_at_each_step_the_old_files_are_in_force(rig: Rig, site: Path) -> None:
    """Half of them written, all written, all in use and not on record; and where the start that mends it dies, too.

    Then, without a kill, the same files are put in force, and stay so however the engine ends.
    """
    points = ("F50:kill:3", "F51:kill", "F50:kill:4")
    for number, point in enumerate(points, 1):
        await start(rig, ENGINE_FAULT=point)
        with pytest.raises((ValueError, OSError)):
            await publish(rig)
        await rig.engine.ended()
        assert on_disk(rig) != OLD, point
        if number == 1:
            await rig.engine.spawn(ENGINE_FAULT="F50:kill:1")
            await rig.engine.ended()
        await start(rig)
        await rig.engine.stop()
        assert on_disk(rig) == OLD, point
    await start(rig)
    assert await gender(rig, "1") == "female"
    assert await told(rig) == [
        (act, of) for number in (1, 2, 3) for act, of in (("mappings.publish", None), ("mappings.put-back", number))
    ]
    states = [one["state"] for one in await done(rig, "mappings.publications")]
    assert states == ["refused"] * 3
    await publish(rig)
    await rig.engine.kill()
    await start(rig)
    assert on_disk(rig) == NEW
    assert await gender(rig, "2") == "other"
    assert (await told(rig))[-1] == ("mappings.publish", None)
    assert (await done(rig, "mappings.publications"))[0]["state"] == "in force"
