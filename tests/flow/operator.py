"""Short ways for tests of what operators do: messages of one person, acts of the running engine, runs to their end."""

import asyncio
from collections.abc import Sequence
from typing import Any, Final

import orjson

from engine.ops.sender.line import BlockAnswer, send_messages
from tests.flow.rig import Rig, Row, channel_file

HEAD: Final = "MSH|^~\\&|REG|RVB|X|Y|{at}||ADT^{event}|{id}|{mode}|2.5.1\rEVN||{at}\r"
PERSON: Final = "PID|1||{number}^^^RVB^MR||{family}^Marisol||{born}|F|||||^PRN^PH^^1^503^{phone}\r"


def message(
    control_id: str,
    number: str,
    *,
    event: str = "A08",
    family: str = "",
    born: str = "19840229",
    phone: str = "5550100",
    mode: str = "P",
    more: str = "",
    at: str = "20260301080000",
) -> bytes:
    """Return one message about one person, whose family name is made of the number unless it is given."""
    family = family or "Quintero" + "".join(chr(65 + int(digit)) for digit in number if digit.isdigit())
    head = HEAD.format(event=event, id=control_id, mode=mode, at=at)
    return (head + PERSON.format(number=number, family=family, born=born, phone=phone) + more).encode()


async def started(rig: Rig, **environment: str) -> None:
    """Start the engine and wait until it takes acts."""
    await rig.engine.start(**environment)
    await rig.engine.line("started")


async def sent(rig: Rig, *raws: bytes) -> list[BlockAnswer]:
    """Send messages on one connection and return their answers."""
    host, port = await rig.address()
    return await send_messages(host, port, raws)


async def answered(rig: Rig, raw: bytes) -> BlockAnswer:
    """Send one message and return its answer."""
    (answer,) = await sent(rig, raw)
    return answer


async def done(rig: Rig, act: str, **given: Any) -> Any:
    """Do an act and return what it answers; AssertionError where it is refused."""
    answer = await rig.ask(act, **given)
    assert "error" not in answer, answer
    return answer["done"]


async def refused(rig: Rig, act: str, **given: Any) -> str:
    """Ask for an act that is refused and return why."""
    answer = await rig.ask(act, **given)
    assert "error" in answer, answer
    return str(answer["error"])


async def finished(rig: Rig, run: int, seconds: float = 60.0) -> dict[str, Any]:
    """Wait until a run is done and return it."""
    async with asyncio.timeout(seconds):
        while True:
            told: dict[str, Any] = await done(rig, "replays.progress", run=run)
            if told["state"] != "running":
                return told
            await asyncio.sleep(0.1)


async def configured(rig: Rig, **channel: Any) -> None:
    """Write the channel file anew and let the engine read it."""
    file = rig.folder / "channels" / "riverbend-adt.yaml"
    file.write_bytes(orjson.dumps(channel_file(rig.proxy.url) | channel))
    await done(rig, "reload")


def ended(*states: str, reasons: Sequence[str] = ()) -> Any:
    """Return a condition over all rows: their states in order, and their reasons where they are given."""

    def condition(rows: list[Row]) -> bool:
        told = [row.reason for row in rows]
        return [row.state for row in rows] == list(states) and (not reasons or told == list(reasons))

    return condition


async def alike(rig: Rig, family: str = "Alike", **elements: Any) -> str:
    """Make a Patient at the service as another system would, and return its id."""
    body = {
        "resourceType": "Patient",
        "name": [{"family": family, "given": ["Marisol"]}],
        "gender": "female",
        "birthDate": "1984-02-29",
    }
    return str((await asked(rig, "POST", "Patient", body | elements))["id"])


async def asked(rig: Rig, method: str, path: str, body: Any = None) -> Any:
    """Ask the service as another system would, and return its answer, None where it has no body."""
    token = await rig._new_token()
    assert rig._session is not None
    url = f"http://127.0.0.1:{rig.service_port}/fhir/R4/{path}"
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/fhir+json"}
    content = None if body is None else orjson.dumps(body)
    async with rig._session.request(method, url, data=content, headers=headers) as answer:
        assert answer.status < 300, await answer.text()
        return orjson.loads(await answer.read() or b"null")


async def merged(rig: Rig, source: str, target: str) -> None:
    """Merge two records at the service as another system would."""
    sides = (("source-patient", source), ("target-patient", target))
    pairs = [{"name": name, "valueReference": {"reference": f"Patient/{one}"}} for name, one in sides]
    await asked(rig, "POST", "Patient/$merge", {"resourceType": "Parameters", "parameter": pairs})
