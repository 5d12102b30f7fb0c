"""Nothing of a patient leaves by a side door: canaries through every path, then a search of all that was said."""

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Final

import orjson
import pytest

from engine.ops.access.actor import Permission
from engine.ops.operations.messages import MESSAGES, ShowFacts
from tests.flow.program import Program
from tests.flow.proxy import PATIENT, Call, Fault
from tests.flow.rig import SECRET, Rig, running
from tests.flow.sender import END_BLOCK, START_BLOCK
from tests.ops.reading import reading
from tests.ops.web.person import Person

FAMILY: Final = "Kanarivogel"
GIVEN: Final = "Quetzalina"
STREET: Final = "77 Pelikanstieg"
CITY: Final = "Flamingohausen"
PHONE: Final = "5550176"
SSN: Final = "987-65-4329"
KIN: Final = "Wiedehopf"
MRN: Final = "KNRMRN"  # every number begins so
BIRTH: Final = "19470611"
CANARIES: Final = (FAMILY, GIVEN, STREET, CITY, PHONE, SSN, KIN, MRN, BIRTH, "1947-06-11", SECRET)

OUTCOME: Final = (
    '{{"resourceType":"OperationOutcome","issue":[{{"severity":"error","code":"{code}",'
    f'"diagnostics":"{FAMILY} {GIVEN} of {STREET} has {MRN}1 already"}}}}]}}}}'
)


def _outcome(status: int, code: str) -> Fault:
    body = OUTCOME.format(code=code).encode()
    return Fault(status=status, headers={"Content-Type": "application/fhir+json"}, body=body)


TROUBLES: Final[dict[str, Fault]] = {
    "400": _outcome(400, "invalid"),
    "404": _outcome(404, "not-found"),
    "409": _outcome(409, "duplicate"),
    "412": _outcome(412, "multiple-matches"),
    "422": _outcome(422, "invalid"),
    "500": _outcome(500, "exception"),
    "504": Fault(status=504, after_commit=True, body=f"<html>{FAMILY} at {STREET}</html>".encode()),
    "drop": Fault(drop=True),
    "garbage": Fault(status=200, headers={"Content-Type": "application/fhir+json"}, body=f"{{{FAMILY}".encode()),
    "code": _outcome(422, f"{FAMILY}"),
    "redirect": Fault(status=302, headers={"Location": f"/fhir/R4/Patient?name={FAMILY}"}),
}


def _message(
    number: str, *, trigger: str = "A28", header: str = "", pid: str | None = None, more: str = "", structure: str = ""
) -> bytes:
    """Return a message full of canaries; `header` are the fields from MSH-10 on."""
    tail = header or f"C{number}|P|2.5.1"
    said = pid if pid is not None else f"{MRN}{number}^^^RVB^MR~{SSN}^^^USSSA^SS"
    lines = (
        f"MSH|^~\\&|REG|RIVERBEND|ADTENGINE|HUB|20260302060000||ADT^{trigger}{structure}|{tail}",
        f"EVN|{trigger}|20260302060000",
        f"PID|1||{said}||{FAMILY}{number}^{GIVEN}||{BIRTH}|F|||{STREET}^^{CITY}^OR^97301^USA^H||^PRN^PH^^1^503^{PHONE}",
        f"NK1|1|{KIN}^{GIVEN}|SPO|{STREET}^^{CITY}|{PHONE}",
        "PV1|1|O",
    )
    return "".join(f"{line}\r" for line in lines).encode() + more.encode()


BROKEN: Final[tuple[bytes, ...]] = (
    _message("1", pid=""),
    _message("2", pid="0000"),
    _message("3", pid=f"{MRN}3^^^NOBODY^MR", trigger="A40", more=f"MRG|{MRN}4^^^NOBODY^MR\r"),
    _message("4", trigger="A40", more=f"MRG|{MRN}4^^^RVB^MR\r"),
    _message("5", trigger="A40", more=f"MRG|{MRN}99^^^RVB^MR||||||{FAMILY}^{GIVEN}\r"),
    _message("6", trigger="Z77"),
    _message("7", trigger="A19"),
    _message("8", header="|P|2.5.1"),
    _message("9", header="C9|T|2.5.1"),
    _message("10", header="C10|P|9.9"),
    _message("11", header="C11|P|2.5.1|||||||UNICODE UTF-8").replace(b"Quetzalina", b"Quetzalin\xe4"),
    _message("12", header="C12|P|2.5.1|||||||ISO IR87").replace(b"Quetzalina", b"\x1b$B\xff\xff\x1b(B"),
    _message("13", header="C13|P|2.5.1|||AL|AL"),
    _message("14", header="C14|P|2.5.1|||AL|AL", pid=""),
    _message("15").replace(BIRTH.encode(), f"{FAMILY}-{BIRTH}".encode()),
    _message("16").replace(b"|F|||", f"|{KIN}|||".encode()),
    _message("17", pid=f"{MRN}17&{FAMILY}&{STREET}^^^{FAMILY}&{CITY}&DNS^MR"),
    _message("18").replace(b"PID|1||", b"PID|1|\\X4B\\|\\"),
    _message("19").replace(b"MSH|^~\\&|", b"MSH|^~"),
    _message("20", more="MSH|" + FAMILY + "\r" + f"ZZZ|{FAMILY}^{STREET}\r"),
    f"PID|1||{MRN}21^^^RVB^MR||{FAMILY}^{GIVEN}\r".encode(),
    f"{FAMILY} {GIVEN}, {STREET}".encode(),
    b"BHS|^~\\&|REG|RIVERBEND\r" + _message("22") + _message("23", pid="") + b"BTS|2\r",
    _message("24", more="A" * 1_100_000),
)


async def _say(address: tuple[str, int], block: bytes, *, torn: bool = False) -> bytes:
    """Send one block on a line of its own and return everything that came back within a moment."""
    reader, writer = await asyncio.open_connection(*address)
    try:
        writer.write(START_BLOCK + block + (b"" if torn else END_BLOCK))
        await writer.drain()
        if torn:
            return b""
        async with asyncio.timeout(60):
            heard = await reader.readuntil(END_BLOCK)
    except (OSError, asyncio.IncompleteReadError, TimeoutError):
        return b""
    finally:
        writer.close()
        await asyncio.gather(writer.wait_closed(), return_exceptions=True)
    return heard


def _script(wanted: str) -> Callable[[Call], Fault | None]:
    """Return a script by which every call about one patient goes wrong in one way."""
    return lambda call: TROUBLES[wanted] if call.path.startswith(PATIENT) and call.writes else None


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    """A service and a proxy that run; the test starts the engine."""
    async with running(tmp_path) as opened:
        yield opened


def _leaks(said: bytes) -> list[str]:
    """Return the canaries found in what was said."""
    lower = said.lower()
    return [canary for canary in CANARIES if canary.lower().encode() in lower]


def assert_silent(what: str, said: bytes) -> None:
    """Fail with the first place at which a canary sings."""
    for canary in _leaks(said):
        at = said.lower().index(canary.lower().encode())
        pytest.fail(f"{what} says {canary!r}: ...{said[max(at - 200, 0) : at + 100]!r}")


def assert_facts_silent(rig: Rig) -> None:
    """Fail where something that a viewer without patient data may ask for has a canary."""
    data = rig.folder / "data"
    for row in rig.rows():
        assert_silent(f"messages.facts of entry {row.seq}", orjson.dumps(reading(ShowFacts)(data, {"entry": row.seq})))
    for what in MESSAGES:
        if what.permission is Permission.METADATA and what is not ShowFacts:
            assert_silent(what.name, orjson.dumps(reading(what)(data, {})))


async def test_acknowledgements_and_logs_say_nothing_of_a_patient_at_the_door(rig: Rig) -> None:
    """Good, refused, malformed, undecodable, torn and oversized messages: neither answer nor log line has a canary."""
    await rig.engine.start()
    address = await rig.address()
    heard = [await _say(address, _message(f"G{index}")) for index in range(3)]
    assert all(b"MSA|AA" in answer for answer in heard)
    heard += [await _say(address, block) for block in BROKEN]
    await _say(address, _message("25")[:300], torn=True)
    assert sum(b"MSA|AE" in answer for answer in heard) > 5
    await rig.drained()
    assert_facts_silent(rig)
    metrics = (await rig.ask("metrics"))["done"]
    assert await rig.engine.stop() == 0
    assert "adt_messages_total" in metrics
    assert_silent("a metric", metrics.encode())
    for answer in heard:
        assert_silent("an acknowledgement", answer)
    assert_silent("the engine's log", b"".join(rig.engine.said))
    assert_silent("the service's log", b"".join(rig.service.said))


async def test_logs_say_nothing_of_a_patient_when_the_destination_fails(rig: Rig) -> None:
    """Answers that quote the patient back, in every way to fail, reach no log line and no reason."""
    await rig.engine.start()
    address = await rig.address()
    for index, trouble in enumerate(TROUBLES):
        rig.proxy.script = _script(trouble)
        faults = rig.proxy.faults
        assert b"MSA|AA" in await _say(address, _message(f"{index}F{trouble}"))
        await rig.until(lambda rows, faults=faults: len(rows) > 0 and rig.proxy.faults > faults)
        rig.proxy.script = lambda _call: None
        await rig.until(lambda rows: rows[-1].state in {"delivered", "held", "rejected"})
    rows = rig.rows()
    assert any(row.state == "held" for row in rows)
    for row in rows:
        assert_silent(f"the reason of entry {row.seq}", f"{row.reason} {row.notes}".encode())
    assert_facts_silent(rig)
    assert_silent("a metric", (await rig.ask("metrics"))["done"].encode())
    assert await rig.engine.stop() == 0
    assert_silent("the engine's log", b"".join(rig.engine.said))


COMMANDS: Final = (
    ("messages", "list", "--data", "data"),
    ("messages", "list", "--data", "data", "--json"),
    ("messages", "show", "99999", "--data", "data"),
    ("messages", "replay", "99999", "--data", "data"),
    ("messages", "replay", "1", "--data", "nowhere"),
    ("messages", "list", "--data", "nowhere"),
    ("run", "--channels", "nowhere", "--data", "data"),
    ("mappings", "try", "broken.hl7"),
    ("doctor",),
)


async def test_commands_that_list_or_fail_say_nothing_of_a_patient(rig: Rig) -> None:
    """Lists of messages and errors of commands name entries, control IDs and codes only."""
    await rig.engine.start()
    address = await rig.address()
    rig.proxy.script = _script("422")
    await _say(address, _message("1"))
    await _say(address, BROKEN[0])
    await rig.until(lambda rows: bool(rows) and rows[0].state == "held")
    (rig.folder / "broken.hl7").write_bytes(f"PID|1||{MRN}21||{FAMILY}\r".encode())
    for arguments in COMMANDS:
        command = Program(rig.folder, *arguments, environment={"ENGINE_SECRET": SECRET})
        await command.spawn()
        try:
            await command.ended()
        finally:
            if command.alive:
                await command.kill()
        assert b"Traceback" not in b"".join(command.said), command.log()
        assert_silent(f"adt-engine {' '.join(arguments)}", b"".join(command.said))


ADDRESS: Final = re.compile(r'(?:href|action|src|sse-connect|hx-\w+)="([^"]*)"')
# What somebody may type into an address or a wrong field all the same.
TYPED: Final = (
    f"/messages/{MRN}1",
    f"/{FAMILY}",
    f"/messages?patient={MRN}1",
    f"/messages?state={FAMILY}",
    f"/runs/{SSN}",
)


async def test_pages_put_nothing_of_a_patient_into_addresses_errors_or_the_log(rig: Rig) -> None:
    """Searched for, looked at, explained, rehearsed, mistyped: no address that we make, no error and no line has it."""
    await rig.engine.start()
    address = await rig.address()
    for block in (_message("G1"), *BROKEN[:16]):
        await _say(address, block)
    await rig.until(lambda rows: all(row.state not in {"received", "claimed"} for row in rows))
    await rig.engine.line("started")
    person = Person((await rig.engine.line("pages listening"))["port"])
    invited = (await rig.ask("users.add", name="ann", role="operator"))["done"]
    assert (await person.set_up(invited["token"], "ann")).status_code == 303
    made, errors = await _visited(person, len(rig.rows()))
    token = (await rig.ask("tokens.add", name="metrics", role="viewer", days=1))["done"]["token"]
    metrics = await person.http.get("/metrics", headers={"authorization": f"Bearer {token}"})
    await person.get("/account")
    await person.post("/log-out")
    await person.log_in(FAMILY, f"{GIVEN} {STREET} {MRN}")
    await person.close()
    assert await rig.engine.stop() == 0
    assert len(made) > 100
    assert_silent("an address", "\n".join(made).encode())
    assert_silent("an error", "\n".join(errors).encode())
    assert_silent("a metric", metrics.content)
    assert_silent("the engine's log", b"".join(rig.engine.said))


async def test_what_is_tried_is_kept_nowhere(rig: Rig) -> None:
    """A message and a mapping typed to be tried: not in the log, the journal, the audit trail, nor a file anywhere."""
    await rig.engine.start()
    await rig.engine.line("started")
    text = _message("77").decode().replace("\r", "\n")
    edited = {"resources/patient.yaml": f"resource: Patient\nextends: shipped/patient\nelements: {{x: '{KIN}'}}\n"}
    for edits in ({}, edited, {"tests/t.yaml": f"tests: [{{case: {KIN}, file: /etc/passwd, expect: {{x: y}}}}]"}):
        made = await rig.ask("mappings.try", message=text, edited=edits)
        assert "done" in made, made
    assert made["done"]["plan"]
    refused = await rig.ask("mappings.try", message=FAMILY, edited={f"{FAMILY}.txt": STREET})
    assert_silent("a refusal", orjson.dumps(refused))
    metrics = (await rig.ask("metrics"))["done"]
    assert await rig.engine.stop() == 0
    assert_silent("a metric", metrics.encode())
    assert_silent("the engine's log", b"".join(rig.engine.said))
    for file in sorted(rig.folder.rglob("*")):
        if file.is_file():
            assert_silent(f"the file {file.name}", file.read_bytes().replace(SECRET.encode(), b""))


async def _visited(person: Person, entries: int) -> tuple[set[str], list[str]]:
    """Open all that shows patients; return the addresses on the pages, and what was said where it was refused."""
    made: set[str] = set()
    errors: list[str] = []
    searches = ({"patient": f"{MRN}G1"}, {"visit": MRN}, {"text": FAMILY}, {"since": FAMILY})
    for form in searches:
        await person.get("/messages")
        answer = await person.post("/messages/search", form)
        made.add(answer.headers.get("location", ""))
        if answer.status_code == 303:
            await person.get(answer.headers["location"])
            made |= set(ADDRESS.findall(person.page))
    for seq in range(1, entries + 1):
        for path in (f"/messages/{seq}", f"/messages/{seq}/explain", f"/messages/{seq}/edit"):
            assert (await person.get(path)).status_code == 200, path
            made |= set(ADDRESS.findall(person.page))
        answer = await person.post(f"/messages/{seq}/rehearse")
        made |= set(ADDRESS.findall(answer.text))
    of_entries = (
        f"/{name}" for seq in range(1, entries + 1) for name in (f"messages/{seq}/patient", f"duplicates/{seq}")
    )
    for path in ("/lanes", "/overview", "/duplicates?show=all", *of_entries):
        answer = await person.get(path)
        made |= set(ADDRESS.findall(person.page))
        if answer.status_code != 200:
            errors.append(answer.text)
    for found in (f"{MRN}G1", FAMILY, f"{MRN}G1"[1:], FAMILY[1:6], f"{FAMILY[:4]}zzz"):
        answer = await person.post("/find", {"find": found})
        made.add(answer.headers["location"])
        await person.get(answer.headers["location"])
        made |= set(ADDRESS.findall(person.page))
    for path in ("/codes", "/alerts", "/channels"):
        errors.append((await person.get(path)).text)  # none of these is of a patient
        made |= set(ADDRESS.findall(person.page))
    for path in TYPED:
        answer = await person.get(path)
        if answer.status_code >= 400:
            errors.append(answer.text)
    return made, errors
