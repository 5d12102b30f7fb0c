"""A destination with the ways of HAPI, scripted: what its caches hide is never taken for absent."""

from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Final

import aiohttp
import pytest

from tests.flow.feed import SYSTEM, FeedMessage
from tests.flow.hapi_like import FOR_EVER, HapiLike, HapiRig

KIM = {"resourceType": "Patient", "identifier": [{"system": SYSTEM, "value": "1"}]}
Told = tuple[str, Sequence[str], str]


def pid(number: str, who: str = "Kim^Ada||19540303|F") -> str:
    """Return a PID; `who` is PID-5 to PID-8."""
    return f"PID|1||{number}^^^RVB^MR||{who}"


def mrg(number: str) -> str:
    """Return an MRG."""
    return f"MRG|{number}^^^RVB^MR"


def visit(number: str) -> str:
    """Return a PV1 of an inpatient."""
    return f"PV1|1|I|W1||||||||||||||||{number}"


# What is told, and how each ends: the same as at a server that hides nothing.
STORIES: Final[dict[str, list[Told]]] = {
    "a merge": [
        ("A28", [pid("A1")], "created"),
        ("A28", [pid("A2")], "created"),
        ("A40", [pid("A1"), mrg("A2")], "merged"),
        ("A40", [pid("A1"), mrg("A2")], "already-merged"),
        ("A31", [pid("A2", "Kim^Ada^Bea||19540303|F")], "updated"),
        ("A28", [pid("A3")], "created"),
        ("A40", [pid("A3"), mrg("A1")], "merged"),
        ("A31", [pid("A2", "Kim^Ada^Cea||19540303|F")], "updated"),
    ],
    "a change of number": [
        ("A28", [pid("B1")], "created"),
        ("A47", [pid("B2"), mrg("B1")], "renamed"),
        ("A47", [pid("B2"), mrg("B1")], "already-renamed"),
        ("A31", [pid("B2", "Kim^Ada^Bea||19540303|F")], "updated"),
    ],
    "a link and its end": [
        ("A28", [pid("C1")], "created"),
        ("A28", [pid("C2")], "created"),
        ("A24", [pid("C1"), pid("C2")], "linked"),
        ("A37", [pid("C1"), pid("C2")], "unlinked"),
        ("A37", [pid("C1"), pid("C2")], "nothing-to-unlink"),
    ],
    "a number that moves": [
        ("A28", [pid("D1~D2^^^RVB^MR")], "created"),
        ("A28", [pid("D3")], "created"),
        ("A43", [pid("D3"), mrg("D2")], "moved"),
        ("A31", [pid("D2", "Kim^Ada^Bea||19540303|F")], "updated"),
        ("A43", [pid("D3"), mrg("D2")], "already-moved"),
    ],
    "a visit, and its cancellation": [
        ("A28", [pid("E1")], "created"),
        ("A05", [pid("E1"), visit("V1")], "created"),
        ("A01", [pid("E1"), visit("V1")], "updated"),
        ("A11", [pid("E1"), visit("V1")], "updated"),
        ("A23", [pid("E1"), visit("V1")], "updated"),
    ],
}


def feed(stories: Sequence[Sequence[Told]] = tuple(STORIES.values())) -> list[tuple[FeedMessage, str]]:
    """Return the messages of stories, each with how it is to end."""
    told = []
    for family, steps in enumerate(stories):
        for number, (event, segments, reason) in enumerate(steps):
            name, at = f"H{family:02d}{number:02d}", f"202603020600{number:02d}"
            head = f"MSH|^~\\&|REG|RIVERBEND|ADTENGINE|HUB|{at}||ADT^{event}|{name}|P|2.5.1"
            raw = "".join(f"{segment}\r" for segment in (head, f"EVN||{at}", *segments)).encode()
            told.append((FeedMessage(name, family, raw, ""), reason))
    return told


def visits_of(number: str, reasons: Sequence[str]) -> list[tuple[FeedMessage, str]]:
    """Return an admission, a transfer and a discharge of one patient."""
    events = zip(("A01", "A02", "A03"), reasons, strict=True)
    return feed([[(event, [pid(number), visit(f"V-{number}")], reason) for event, reason in events]])


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[HapiRig]:
    """The scripted server and a proxy that run; the test starts the engine."""
    opened = HapiRig(tmp_path)
    try:
        yield await opened.open()
    finally:
        await opened.close()


async def tell(rig: HapiRig, told: Sequence[tuple[FeedMessage, str]]) -> None:
    """Send messages and see each end as it should."""
    await rig.sender([message for message, _reason in told], 4).run()
    await rig.drained()
    rows = {row.control_id: (row.state, row.reason) for row in rig.rows()}
    expected = {message.control_id: ("delivered", reason) for message, reason in told}
    assert {name: rows[name] for name in expected} == expected


@pytest.mark.parametrize("honours", [True, False], ids=["stock", "no-cache-ignored"])
@pytest.mark.parametrize("conditional", [True, False], ids=["conditional-create", "plain-create"])
async def test_a_cached_search_hides_nothing_that_the_engine_wrote(
    rig: HapiRig, honours: bool, conditional: bool
) -> None:
    """Merges, changes of number, links and visits end as they should, however old searches are; a kill between."""
    rig.hapi.honours_no_cache, rig.hapi.cache_seconds, rig.hapi.conditional = honours, FOR_EVER, conditional
    told = feed()
    begun = [one for one in told if one[0].control_id.endswith(("00", "01"))]
    await rig.engine.start()
    await tell(rig, begun)
    await rig.engine.kill()
    await rig.engine.start()
    await tell(rig, [one for one in told if one not in begun])
    numbers = ("B1", "B2", "C1", "C2", "D1", "D2", "D3", "E1")
    assert {number: len(rig.hapi.numbered(number)) for number in numbers} == dict.fromkeys(numbers, 1)
    (survivor,) = [one for one in rig.hapi.numbered("A2") if one["active"]]
    assert {item["value"]: item.get("use") for item in survivor["identifier"]} == {"A3": None, "A2": "old", "A1": "old"}
    assert [one["status"] for one in rig.hapi.of("Encounter")] == ["entered-in-error"]
    reads = [call for call in rig.proxy.calls if call.method == "GET"]
    assert {call.headers.get("Cache-Control") for call in reads} == {"no-cache"}


@pytest.mark.parametrize("restarted", [False, True], ids=["remembered", "after a restart"])
async def test_what_the_server_lost_in_a_kill_is_made_again_once(rig: HapiRig, restarted: bool) -> None:
    """A server that forgot what it had answered: the next message finds patient and visit missing and makes them."""
    admitted, moved, again = visits_of("L1", ["created", "created", "updated"])
    await rig.engine.start()
    await tell(rig, [admitted])
    if restarted:
        await rig.engine.kill()
        await rig.engine.start()
    for reference in [f"Patient/{rig.hapi.numbered('L1')[0]['id']}", *rig.hapi.chart]:
        rig.hapi.lose(reference)
    await tell(rig, [moved])
    await tell(rig, [again])
    (patient,) = rig.hapi.numbered("L1")
    (encounter,) = rig.hapi.of("Encounter")
    assert (encounter["subject"]["reference"], encounter["status"]) == (f"Patient/{patient['id']}", "finished")


@pytest.mark.parametrize("released", [False, True], ids=["at once", "released"])
async def test_a_number_that_was_given_out_again_overwrites_nobody(rig: HapiRig, released: bool) -> None:
    """A merge retires a number that nobody knew, at once or after the merge limit held it; then it is another's."""
    wally = "Wrong^Wally||20030101|M"
    other = [("A28", [pid("G1")], ""), ("A40", [pid("G1"), mrg("G2")], "")]
    kims = [("A28", [pid("F1")], ""), ("A40", [pid("F1"), mrg("F2")], "")]
    wallys = [("A28", [pid("F2", wally)], ""), ("A01", [pid("F2", wally), visit("V-F2")], "")]
    rig.configure(merge_limit={"merges": 1 if released else 9, "minutes": 10})
    await rig.engine.start()
    await rig.sender([message for message, _reason in feed([[*other, *kims, *wallys]])], 1).run()
    if released:
        rows = await rig.until(lambda rows: [row.state for row in rows][3:] == ["held", "waiting", "waiting"])
        assert rows[3].reason == "merge-limit"
        await rig.ask("channels.allow-merge", channel="riverbend-adt")
        await rig.ask("messages.release", entry=rows[3].seq)
    rows = await rig.until(lambda rows: [row.state for row in rows][4:] == ["held", "waiting"])
    assert [row.reason for row in rows[2:5]] == ["created", "source-absent", "merged-identifier-reused"]
    (kim,) = rig.hapi.numbered("F2")
    assert (kim["name"][0]["family"], kim["birthDate"], rig.hapi.chart) == ("Kim", "1954-03-03", {})


@pytest.fixture
async def hapi() -> AsyncIterator[HapiLike]:
    """The scripted server alone."""
    server = HapiLike()
    await server.start()
    yield server
    await server.stop()


async def test_the_scripted_server_answers_a_search_from_its_cache(hapi: HapiLike) -> None:
    """A search made before a create is answered the same for a minute, unless the request asks for one of its own."""
    found = f"{hapi.base}/Patient?identifier={SYSTEM}|1"

    async def total(session: aiohttp.ClientSession, **headers: str) -> int:
        async with session.get(found, headers=headers) as answer:
            return len((await answer.json(content_type=None))["entry"])

    async with aiohttp.ClientSession() as session:
        counts = [await total(session)]
        async with session.post(f"{hapi.base}/Patient", json=KIM) as answer:
            assert (answer.status, (await answer.json(content_type=None))["id"]) == (201, "1000")
        counts += [await total(session), await total(session, **{"Cache-Control": "no-cache"})]
        assert counts == [0, 0, 1]
        hapi.lose("Patient/1000")
        assert await total(session) == 0
        hapi.honours_no_cache = False
        hapi.add("1001", identifier=KIM["identifier"])
        assert await total(session, **{"Cache-Control": "no-cache"}) == 0
        hapi.time += 60.0
        assert await total(session) == 1
