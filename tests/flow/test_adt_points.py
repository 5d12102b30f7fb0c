"""The service's points about messages of version 2, held by the engine before it: the ACK, and what the service has.

Where the engine decides otherwise than a point (C-517, C-518, C-520, C-521), the test says what it does instead.
"""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from engine.ops.sender.line import BlockAnswer
from tests.flow.feed import SYSTEM
from tests.flow.operator import answered, sent
from tests.flow.rig import Rig, running

HEAD = "MSH|^~\\&|REG|RVB|X|Y|20250701101500||{type}|{id}|{processing}|{version}\rEVN||20250701101500\r"


def message(
    event: str,
    control_id: str,
    number: str,
    *,
    name: str = "Quintero^Marisol",
    born: str = "19840229",
    address: str = "12 Alder Way^^Troy^OR",
    more: str = "",
    **head: str,
) -> bytes:
    """Return one message about one person."""
    told = {"type": f"ADT^{event}", "id": control_id, "processing": "P", "version": "2.5.1"} | head
    person = f"PID|1||{number}^^^RVB^MR||{name}||{born}|F|||{address}\r"
    return (HEAD.format(**told) + person + more).encode()


def visit(number: str, place: str) -> str:
    """Return the segment of a stay."""
    return f"PV1|1|I|{place}^101^A^RVB{'|' * 16}{number}^^^RVB^VN\r"


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    """A service and an engine that acknowledges what is delivered."""
    channel: dict[str, Any] = {"acknowledge": {"when": "delivered", "within_seconds": 20}}
    async with running(tmp_path, **channel) as opened:
        await opened.engine.start()
        yield opened


async def taken(rig: Rig, *messages: bytes) -> None:
    """Send messages, each of which is AA."""
    assert [answer.code for answer in await sent(rig, *messages)] == ["AA"] * len(messages)


def codes(answer: BlockAnswer) -> tuple[str, list[str]]:
    """Return the code of an answer, and those of its ERR."""
    return answer.code, [code for code, _ in answer.errors]


async def the(rig: Rig, number: str) -> dict[str, Any]:
    """Return the one patient of a number."""
    (found,) = await rig.numbered(number)
    return found


async def test_a_stay_from_admission_to_its_end(rig: Rig) -> None:
    """C-510, C-511, C-512: A01 makes patient and visit, A08 updates one patient, A02 moves, A03 ends, A11 cancels."""
    await taken(rig, message("A01", "C1", "RB-1", more=visit("V-1", "3W")))
    patient = await the(rig, "RB-1")
    (stay,) = await rig.visits([patient["id"]])
    assert (stay["status"], stay["location"][-1]["location"]["display"].split()[0]) == ("in-progress", "3W")
    await taken(rig, message("A08", "C2", "RB-1", address="9 Elm Street^^Bend^OR", more=visit("V-1", "3W")))
    changed = await the(rig, "RB-1")
    assert (changed["id"], changed["address"][0]["city"], len(await rig.patients())) == (patient["id"], "Bend", 1)
    await taken(rig, message("A02", "C3", "RB-1", more=visit("V-1", "4E")))
    (stay,) = await rig.visits([patient["id"]])
    now = [one["location"]["display"] for one in stay["location"] if one.get("status") != "completed"]
    assert [one.split()[0] for one in now] == ["4E"]
    await taken(rig, message("A03", "C4", "RB-1", more=visit("V-1", "4E")))
    await taken(rig, message("A01", "C5", "RB-1", more=visit("V-2", "5N")))
    await taken(rig, message("A11", "C6", "RB-1", more=visit("V-2", "5N")))
    stays = {one["identifier"][0]["value"]: one["status"] for one in await rig.visits([patient["id"]])}
    assert stays == {"V-1": "finished", "V-2": "cancelled"}


async def test_a_merge_of_one_number_or_one_record_is_refused(rig: Rig) -> None:
    """C-513, C-514: an A40 that names one patient on both sides is AE 205 with ERR, and the chart is as it was."""
    both = message("A28", "C1", "RB-1").replace(b"RB-1^^^RVB^MR", b"RB-1^^^RVB^MR~RB-2^^^RVB^MR")
    await taken(rig, both)
    before = await rig.patients()
    for control_id, merged in (("C2", "RB-1"), ("C3", "RB-2")):
        answer = await answered(rig, message("A40", control_id, "RB-1", more=f"MRG|{merged}^^^RVB^MR\r"))
        assert codes(answer) == ("AE", ["205"])
        assert b"\rERR|" in answer.reply
    assert await rig.patients() == before


async def test_a_merge_of_two_is_made_once(rig: Rig) -> None:
    """C-515, C-516, C-523: an A40 merges two patients, again it changes nothing; the old number leads on."""
    await taken(rig, message("A28", "C1", "RB-1"), message("A28", "C2", "RB-2", name="Quintero^Mari", born="19840301"))
    old = await the(rig, "RB-2")
    merge = message("A40", "C3", "RB-1", more="MRG|RB-2^^^RVB^MR\r")
    await taken(rig, merge)
    survivor = await the(rig, "RB-1")
    merged = (await rig.patients())[old["id"]]
    assert (merged["active"], merged["link"][0]["type"]) == (False, "replaced-by")
    assert merged["link"][0]["other"]["reference"].endswith(f"Patient/{survivor['id']}")
    before = await rig.patients()
    await taken(rig, merge.replace(b"|C3|", b"|C4|"))
    assert await rig.patients() == before
    await taken(rig, message("A08", "C5", "RB-2", address="9 Elm Street^^Bend^OR"))
    now = await rig.patients()
    assert now[survivor["id"]]["address"][0]["city"] == "Bend"
    assert now[old["id"]] == merged


async def test_a_merge_with_somebody_unknown(rig: Rig) -> None:
    """C-517: an unknown merged number becomes the survivor's; an unknown survivor is made."""
    await taken(rig, message("A28", "C1", "RB-1"))
    first = await the(rig, "RB-1")
    await taken(rig, message("A40", "C2", "RB-1", more="MRG|RB-9^^^RVB^MR\r"))
    assert (await the(rig, "RB-1"))["id"] == first["id"]
    await taken(rig, message("A40", "C3", "RB-5", more="MRG|RB-1^^^RVB^MR\r"))
    survivor = await the(rig, "RB-5")
    living = [patient["id"] for patient in (await rig.patients()).values() if patient.get("active") is not False]
    assert living == [survivor["id"]]
    refused = await answered(rig, message("A40", "C4", "RB-5", more="MRG|RB-7^^^ELSEWHERE^MR\r"))
    assert codes(refused) == ("AE", ["204"])


async def test_a_deleted_person_is_inactive(rig: Rig) -> None:
    """C-518: A29 makes the patient inactive and keeps chart and number: a true delete is not the engine's."""
    await taken(rig, message("A28", "C1", "RB-1"), message("A29", "C2", "RB-1"))
    assert (await the(rig, "RB-1"))["active"] is False


async def test_acknowledgements(rig: Rig) -> None:
    """C-519: MSA-2 is MSH-10 of the message, MSH-9 ACK^<event>^ACK, and sender and receiver change places."""
    answer = await answered(rig, message("A28", "C-519", "RB-1"))
    header, acknowledged = (line.split("|") for line in answer.reply.decode().strip("\x0b\x1c\r").split("\r")[:2])
    assert (header[2:6], header[8]) == (["X", "Y", "REG", "RVB"], "ACK^A28^ACK")
    assert acknowledged[:3] == ["MSA", "AA", "C-519"]


@pytest.mark.parametrize(
    ("head", "code"),
    [
        pytest.param({"type": "DFT^P03"}, "200", id="type"),
        pytest.param({"type": "ADT^A99"}, "201", id="event"),
        pytest.param({"processing": "Z"}, "202", id="processing id"),
        pytest.param({"version": "9.9"}, "203", id="version"),
    ],
)
async def test_what_is_not_spoken(rig: Rig, head: dict[str, str], code: str) -> None:
    """C-520: an unknown type, event, processing id or version is AR with its code, and nothing is made of it."""
    assert codes(await answered(rig, message("A28", "C1", "RB-1", **head))) == ("AR", [code])
    assert await rig.patients() == {}


async def test_without_a_birth_date_nobody_is_made(rig: Rig) -> None:
    """C-521: what the service requires and the message lacks is held; its sender hears of it, nothing is stored."""
    assert (await answered(rig, message("A28", "C1", "RB-1", born=""))).code == "AE"
    assert ([row.reason for row in rig.rows()], await rig.patients()) == (["missing-required"], {})


async def test_the_same_message_twice(rig: Rig) -> None:
    """C-522: the same bytes again have the same answer and are applied once."""
    raw = message("A28", "C1", "RB-1")
    first, again = await answered(rig, raw), await answered(rig, raw)
    assert (codes(first), codes(again)) == (("AA", []), ("AA", []))
    assert (len(rig.rows()), (await the(rig, "RB-1"))["meta"]["versionId"]) == (1, "1")


async def test_two_blocks_in_one_segment_of_tcp(rig: Rig) -> None:
    """C-526: two messages in one write have two answers in order; what is no block does not end the connection."""
    host, port = await rig.address()
    reader, writer = await asyncio.open_connection(host, port)
    blocks = [b"\x0b%s\x1c\r" % message("A28", f"C{number}", f"RB-{number}") for number in (1, 2, 3)]
    writer.write(blocks[0] + blocks[1])
    answers = [await reader.readuntil(b"\x1c\r") for _ in range(2)]
    writer.write(b"\x0bMSH|^~\\&|no end" + blocks[2])
    while b"|C3" not in answers[-1]:
        answers.append(await reader.readuntil(b"\x1c\r"))
    writer.close()
    assert [b"MSA|AA|C%d" % number in one for number, one in enumerate(answers[:2], 1)] == [True, True]
    assert b"MSA|AA|C3" in answers[-1]


async def test_escapes_and_repetitions(rig: Rig) -> None:
    """C-529: escape sequences and repetitions in PID-5, PID-11 and PID-13 are what they stand for."""
    more = message(
        "A28",
        "C1",
        "RB-1",
        name="O\\T\\Neil^Ana~Smith^Ann^^^^^M",
        address="1 A \\F\\ B^^Troy^OR~2 C Street^^Bend^OR|||",
    ).replace(b"OR|||\r", b"OR||5035550101~5035550102\r")
    await taken(rig, more)
    found = await the(rig, "RB-1")
    assert [one["family"] for one in found["name"]] == ["O&Neil", "Smith"]
    assert [one["line"] for one in found["address"]] == [["1 A | B"], ["2 C Street"]]
    assert len(found["telecom"]) == 2
    assert SYSTEM in {one["system"] for one in found["identifier"]}
