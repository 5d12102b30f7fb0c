"""The laboratory of the tests does as it is told: what it says of the service is worth no more than this."""

import asyncio
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interchange.laboratory.answers import CR, EB, SB, blocks, field, segments
from tests.interchange.laboratory.process import Laboratory, laboratory

ORDER = (
    "MSH|^~\\&|CDIS|riverbend|LAB|ACME|20250701093100||OML^O21^OML_O21|C1|T|2.5.1||||||UNICODE UTF-8\r"
    "PID|1||4711^^^RVB^MR~4712^^^RVB^MR||Quíntero^Marisol\r"
    "ORC|NW|o1-GLU^CDIS||o1\rOBR|1|o1-GLU^CDIS||GLU^Glucose^urn:uuid:f:cedar-valley||||||||||||99^Osei\r"
    "ORC|NW|o1-LIPID^CDIS||o1\rOBR|2|o1-LIPID^CDIS||LIPID^Lipid panel^urn:uuid:f:cedar-valley||||||||||||99^Osei\r"
).encode()


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Laboratory]:
    """A laboratory that takes every order."""
    with laboratory(tmp_path / "lab") as found:
        yield found


def say(lab: Laboratory, seconds: float = 60) -> bytes:
    """Send the order on a line of its own, and return the bytes of the answer; b'' where the line was closed."""
    with socket.create_connection(("127.0.0.1", lab.port), seconds) as line:
        line.sendall(SB + ORDER + EB + CR)
        answer = b""
        while not answer.endswith(EB + CR) and (more := line.recv(65_536)):
            answer += more
        return answer


def acknowledged(answer: bytes) -> tuple[str, str, str]:
    """Return MSA-1, MSA-2 and ERR-8 of an answer."""
    found = {segment[0]: segment for segment in segments(blocks(answer)[0])}
    return field(found["MSA"], 1), field(found["MSA"], 2), field(found.get("ERR", []), 8)


def test_it_answers_by_its_script(lab: Laboratory) -> None:
    """Each line is for one order and the last one stays; what came is there byte for byte, whatever is answered."""
    lab.behave("AR no such test", "AE busy", "close", "late 0.1 CA", "nothing")
    assert acknowledged(say(lab)) == ("AR", "C1", "no such test")
    assert acknowledged(say(lab)) == ("AE", "C1", "busy")
    assert say(lab) == b""
    assert acknowledged(say(lab)) == ("CA", "C1", "")
    for _ in range(2):
        with pytest.raises(TimeoutError):
            say(lab, 0.2)
    lab.behave("AA")
    assert acknowledged(say(lab)) == ("AA", "C1", "")
    assert lab.orders == [ORDER] * 7


@pytest.mark.parametrize(
    ("options", "status", "numbers", "value", "record_number", "answer"),
    [
        ((), "F", ["o1-GLU", "o1-LIPID"], "92", "4711", "AA"),
        (("--status", "corrected", "--value", "5.5"), "C", ["o1-GLU", "o1-LIPID"], "5.5", "4711", "AE wrong"),
        (("--status", "preliminary", "--only", "GLU", "--order", "o1"), "P", ["o1-GLU"], "92", "4711", "AR"),
        (("--patient", "0815", "--order", "o1-GLU"), "F", ["o1-GLU", "o1-LIPID"], "92", "0815", "AA"),
    ],
)
def test_it_sends_results(
    lab: Laboratory,
    options: tuple[str, ...],
    status: str,
    numbers: list[str],
    value: str,
    record_number: str,
    answer: str,
) -> None:
    """An ORU^R01 with the numbers that it was given, a filler number of its own, and the status that is asked for."""
    say(lab)
    sent: list[bytes] = []

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        sent.append((await reader.readuntil(EB + CR))[1:-2])
        code, _, text = answer.partition(" ")
        writer.write(SB + f"MSH|^~\\&\rMSA|{code}|x\rERR||||||||{text}\r".encode() + EB + CR)
        await writer.drain()
        writer.close()

    async def run() -> str:
        server = await asyncio.start_server(take, "127.0.0.1", 0)
        async with server:
            return await asyncio.to_thread(lab.send, server.sockets[0].getsockname()[1], *options)

    assert asyncio.run(run()) == answer
    found = segments(sent[0])
    assert field(found[0], 9) == "ORU^R01^ORU_R01"
    assert [field(one, 2, 1) for one in found if one[0] == "OBR"] == numbers  # OBR-2
    assert {field(one, 25) for one in found if one[0] == "OBR"} == {status}  # OBR-25
    assert {field(one, 11) for one in found if one[0] == "OBX"} == {status}  # OBX-11
    assert len({field(one, 3) for one in found if one[0] == "OBR"}) == len(numbers)  # OBR-3
    assert field(next(one for one in found if one[0] == "OBX"), 5) == value  # OBX-5
    pid = next(one for one in found if one[0] == "PID")
    assert field(pid, 3, 1) == record_number  # PID-3.1
    assert (field(pid, 5).encode("latin-1") == "Quíntero^Marisol".encode()) is (record_number == "4711")  # PID-5
