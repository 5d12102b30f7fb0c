"""A name with a control character, through the whole engine: the patient is not held for it, and nobody is mixed up."""

from engine.ops.sender.line import send_messages
from tests.flow.operator import done, ended, message, started
from tests.flow.rig import Rig

BAD = [chr(number) for number in range(32) if chr(number) not in "\t\r\n\x0b\x1c"] + ["\ufffe", "\uffff"]


async def test_control_characters_hold_nobody(rig: Rig) -> None:
    """Names, addresses, numbers and every such character; what follows for the same patient is not held behind it."""
    await started(rig)
    feed = [
        message(f"C{number}", f"RB-{number}", family=f"Quin{mark}tero{mark}").replace(
            b"|2.5.1\r", b"|2.5.1|||||||UNICODE UTF-8\r", 1
        )
        for number, mark in enumerate(BAD)
    ]
    feed.append(message("D0", "RB-0", family="Quintero"))
    await send_messages(*await rig.address(), feed)
    await rig.until(ended(*["delivered"] * len(feed)))
    assert (await done(rig, "messages.show", entry=1))["flags"] == ["control-characters PID"]
    assert (await done(rig, "messages.show", entry=len(feed)))["flags"] == []
    families = {body["name"][0]["family"] for body in (await rig.patients()).values()}
    assert families == {"Quin\ufffdtero", "Quintero"}


async def test_a_number_with_a_nul_is_not_the_number_without_it(rig: Rig) -> None:
    """Padded with NULs it is the same number; with one inside it is a number of its own."""
    await started(rig)
    await send_messages(
        *await rig.address(),
        [message("C1", "RB-1"), message("C2", "RB-1\x00\x00", phone="5550102"), message("C3", "RB\x00-1")],
    )
    await rig.until(ended("delivered", "delivered", "delivered", reasons=["created", "updated", "created"]))
    numbers = sorted(body["identifier"][0]["value"] for body in (await rig.patients()).values())
    assert numbers == ["RB-1", "RB\ufffd-1"]
