"""Bugs that others reported, each reduced to an input of ours: what is answered, how it ends, what is stored then."""

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from engine.receive.block import enclose
from tests.flow.feed import SYSTEM
from tests.flow.operator import done, started
from tests.flow.rig import Rig, Row, running

ROWS: Final[list[dict[str, Any]]] = yaml.safe_load(Path(__file__).with_name("reports.yaml").read_text(encoding="utf-8"))
KINDS: Final = {
    "framing": 10,
    "line ends": 8,
    "character sets": 10,
    "escapes": 8,
    "acknowledgements": 10,
    "merges and identity": 8,
    "searches": 10,
}
SECONDS: Final = 20.0
BYTES: Final = {"<VT>": "\x0b", "<FS>": "\x1c", "<CR>": "\r", "<LF>": "\n", "<NUL>": "\0", "<LONG>": "x" * 400_000}
HEADER: Final = "MSH|^~\\&|REG|RVB|ENG|RVB|20260301080000||ADT^{}|{}|P|2.5.1"
EVENT: Final = "EVN||20260301080000"
USUAL: Final = re.compile(r"(A\d\d) (\S+)")
ACCEPTED: Final = {"AA", "CA"}


@pytest.fixture(scope="module")
async def rig(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Rig]:
    """One engine and one service for all rows."""
    async with running(tmp_path_factory.mktemp("reports")) as opened:
        await started(opened)
        yield opened


def test_the_log_is_whole() -> None:
    """At least sixty rows of seven kinds, without a gap; each says what is right and what was seen, no report twice."""
    assert [row["number"] for row in ROWS] == [*range(1, len(ROWS) + 1)]
    assert len(ROWS) >= 60
    for kind, least in KINDS.items():
        assert sum(row["kind"] == kind for row in ROWS) >= least, kind
    for row in ROWS:
        assert set(row) >= {"kind", "report", "right", "seen"}, row["number"]
        assert set(row["report"]) == {"project", "issue", "about"}, row["number"]
        assert set(row["seen"]) == {"date", "what"}, row["number"]
        assert row.get("answers") or row.get("refused") or row.get("entries") or row.get("asks"), row["number"]
    reports = [(row["report"]["project"], row["report"]["issue"]) for row in ROWS]
    assert sorted({report for report in reports if reports.count(report) > 1}) == []


@pytest.mark.parametrize("row", [pytest.param(row, id=f"R{row['number']:02d}") for row in ROWS])
async def test_a_report(rig: Rig, row: dict[str, Any]) -> None:
    """The row's bytes are answered as it says, the entries end as it says, and the service then answers as it says."""
    known = max((one.seq for one in rig.rows()), default=0)
    if pieces := written(row):
        await said(rig, row, pieces, known)
    if "entries" in row:
        await ended(rig, row, known)
    names = {"S": SYSTEM}
    for call in row.get("calls", ()):
        await called(rig, call, names)
    for ask in row.get("asks", ()):
        await asked(rig, ask, names)


def written(row: Mapping[str, Any]) -> list[bytes]:
    """Return the bytes of a row, in the pieces in which they are written."""
    codec = row.get("codec", "utf-8")
    if "pieces" in row:
        return [_raw(piece, row.get("ends", "\r"), codec) for piece in row["pieces"]]
    blocks = [enclose(_raw(segments, row.get("ends", "\r"), codec)) for segments in row.get("messages", ())]
    return [b"".join(blocks)] if blocks else []


def _raw(text: str | Sequence[str], end: str, codec: str) -> bytes:
    if not isinstance(text, str):
        lines = [_usual(line, end) for line in text]
        text = end.join([*lines, ""])
    for name, byte in BYTES.items():
        text = text.replace(name, byte)
    return text.encode(codec)


def _usual(line: str, end: str) -> str:
    found = USUAL.fullmatch(line)
    return f"{HEADER.format(found[1], found[2])}{end}{EVENT}" if found else line


async def said(rig: Rig, row: Mapping[str, Any], pieces: Sequence[bytes], known: int) -> None:
    """Write the pieces on one connection and hold what is answered."""
    wanted = row.get("answers", [])
    reader, writer = await asyncio.open_connection(*await rig.address())
    try:
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
        came = b""
        async with asyncio.timeout(SECONDS):
            while came.count(b"\x1c\r") < len(wanted) and (more := await reader.read(1 << 16)):
                came += more
            if not row.get("refused"):
                if not wanted:
                    await rig.until(lambda rows: any(one.seq > known for one in rows), SECONDS)
                writer.write_eof()
                came += await reader.read()
            else:
                with contextlib.suppress(TimeoutError):
                    came += await asyncio.wait_for(reader.read(1 << 16), 5)
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
    answers = [block.removeprefix(b"\x0b") for block in came.split(b"\x1c\r")[:-1]]
    if row.get("refused"):
        assert not {part(answer, "MSA-1", row) for answer in answers} & ACCEPTED, answers
        return
    told = [{path: part(answer, path, row) for path in one} for one, answer in zip(wanted, answers, strict=False)]
    assert (told, len(answers)) == (wanted, len(wanted)), answers


def part(answer: bytes, path: str, row: Mapping[str, Any]) -> str | None:
    """Return a part of an acknowledgement (`ERR-3.1`), None where nothing stands there."""
    codec = row.get("codec", "utf-8")
    text = answer.decode(codec).removeprefix("\ufeff")
    field, component = text[3], text[4]
    name, _, places = path.partition("-")
    number, _, inner = places.partition(".")
    line = next((line for line in text.split("\r") if line.startswith(name + field)), "")
    fields = line.split(field)
    at = int(number) - (name in {"MSH", "BHS", "FHS"})
    value = fields[at] if at < len(fields) else ""
    if inner:
        parts = value.split(component)
        value = parts[int(inner) - 1] if int(inner) <= len(parts) else ""
    return value or None


async def ended(rig: Rig, row: Mapping[str, Any], known: int) -> None:
    """Hold how each message of the row ends, and what is noted of them."""
    wanted: list[str] = row["entries"]

    def new(rows: Sequence[Row]) -> list[Row]:
        return [row for row in rows if row.seq > known]

    def ends(rows: Sequence[Row]) -> list[str]:
        found = new(rows)
        return [
            f"{one.state} {one.reason}" if " " in wish else one.state
            for one, wish in zip(found, [*wanted, *[" "] * len(found)], strict=False)
        ]

    with contextlib.suppress(AssertionError):
        await rig.until(lambda rows: ends(rows) == wanted, SECONDS)
    rows = rig.rows()
    assert ends(rows) == wanted, rig.engine.log()
    noted: list[str] = []
    for one in new(rows):
        noted += [one.notes, *(await done(rig, "messages.show", entry=one.seq))["flags"]]
    for wish in row.get("noted", ()):
        assert any(wish in note for note in noted), noted


async def called(rig: Rig, call: Mapping[str, Any], names: dict[str, str]) -> None:
    """Make one request and keep the id that it answers under the row's name for it."""
    ((method, path),) = [(one, call[one]) for one in ("post", "put", "get") if one in call]
    status, body = await rig.call(
        method.upper(), f"/{_filled(path, names)}", _filled(call.get("body"), names), call.get("headers", {})
    )
    assert status == call.get("status", 201), body
    if "as" in call:
        names[call["as"]] = body["id"]


async def asked(rig: Rig, ask: Mapping[str, Any], names: Mapping[str, str]) -> None:
    """Ask one question and hold all that is found, or how it is refused."""
    path = _filled(ask["get"], names)
    status, body = await rig.call("GET", f"/{path}")
    assert status == ask.get("status", 200), body
    if "issue" in ask:
        assert body["issue"][0]["code"] == ask["issue"]
    if "is" in ask:
        wanted = _filled(ask["is"], names)
        assert {path: at(body, path) for path in wanted} == wanted, body
    if not ask.keys() & {"found", "each"}:
        return
    entries = body.get("entry", [])
    total = body["total"]
    while ask.get("walk") and (link := {one["relation"]: one["url"] for one in body["link"]}.get("next")):
        status, body = await rig.call("GET", link.partition("/fhir/R4")[2])
        assert status == 200, body
        entries += body.get("entry", [])
    resources = [entry["resource"] for entry in entries]
    for path, values in ask.get("each", {}).items():
        assert sorted(at(resource, path) for resource in resources) == sorted(values)
    wanted = _filled(ask.get("found", []), names)
    shown = [{path: at(one, path) for path in wish} for wish, one in zip(wanted, resources, strict=False)]
    assert "each" in ask or (shown, len(resources)) == (wanted, len(wanted)), resources
    assert total == ask.get("total", len(wanted))


def at(resource: Any, path: str) -> Any:
    """Return what stands at a path (`name.0.family`), None where nothing does."""
    for step in path.split("."):
        if isinstance(resource, list):
            resource = resource[int(step)] if int(step) < len(resource) else None
        elif isinstance(resource, dict):
            resource = resource.get(step)
    return resource


def _filled(value: Any, names: Mapping[str, str]) -> Any:
    """Return a value with `$name` replaced by what is known under that name."""
    if isinstance(value, str):
        return re.sub(r"\$([A-Za-z]\w*)", lambda found: names.get(found[1], found[0]), value)
    if isinstance(value, list):
        return [_filled(one, names) for one in value]
    if isinstance(value, dict):
        return {key: _filled(one, names) for key, one in value.items()}
    return value
