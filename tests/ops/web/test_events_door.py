"""The FHIR door over real HTTP: tokens, methods, refusals as FHIR has them, a kill, and an event on the pages."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import httpx
import orjson
import pytest

from engine.ops.access.actor import Permission
from engine.ops.web.server import ROUTES
from tests.flow.rig import Rig, running, write
from tests.ops.web.conftest import Site, start
from tests.pipeline.test_fhir_intake import CHANNEL
from tests.pipeline.test_fhir_intake import channel_file as events_file

FHIR: Final = {"content-type": "application/fhir+json"}
PATH: Final = "/fhir/events/registry"
ADA: Final = {
    "resourceType": "Patient",
    "id": "7",
    "meta": {"versionId": "1"},
    "identifier": [{"system": "https://riverbend.example/mrn", "value": "RB-7"}],
    "name": [{"family": "Kanarivogel", "given": ["Ada"]}],
    "birthDate": "1984-02-29",
}
RAW: Final = orjson.dumps(ADA)


@pytest.fixture(scope="module")
async def site(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Site]:
    """An engine with a channel of events beside one of messages."""
    folder = tmp_path_factory.mktemp("events")
    async with running(folder) as rig:
        write(folder / "channels" / "events.yaml", events_file(limits={"block_bytes": 4096}))
        made = await start(rig)
        yield made
        await asyncio.gather(*(person.close() for person in made.people.values()))


@pytest.fixture(scope="module")
async def http(site: Site) -> AsyncIterator[httpx.AsyncClient]:
    """A FHIR server with a token to send, and no other right."""
    async with client(site.port, await site.token("sender", "record")) as opened:
        yield opened


def client(port: int, token: str) -> httpx.AsyncClient:
    """Return a program that sends FHIR with a token."""
    headers = {"authorization": f"Bearer {token}"} | FHIR
    return httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", trust_env=False, timeout=60, headers=headers)


def said(answer: httpx.Response) -> str:
    """Return what a refusal says."""
    assert answer.headers["content-type"] == "application/fhir+json"
    outcome = answer.json()
    assert outcome["resourceType"] == "OperationOutcome"
    return str(outcome["issue"][0]["details"]["text"])


async def test_an_event_is_taken_by_each_method(site: Site, http: httpx.AsyncClient) -> None:
    """200 without a body for a POST, the PUT of a rest-hook and a DELETE; the same again is no second entry."""
    for answer in (
        await http.post(PATH, content=RAW),
        await http.put(f"{PATH}/Patient/7", content=RAW),
        await http.request("DELETE", f"{PATH}/Patient/7", headers={"content-type": ""}),
    ):
        assert (answer.status_code, answer.content) == (200, b"")
    names = [row.control_id for row in site.rig.rows()]
    assert (names.count("Patient/7/1"), len([one for one in names if one.startswith("Patient/7/")])) == (1, 2)


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "words"),
    [
        ("POST", PATH, b"", 400, "set channel.payload to application/fhir+json: an event without its resource"),
        ("POST", PATH, b"{", 400, "no JSON"),
        ("PUT", f"{PATH}/Patient/8", RAW, 400, "names another resource"),
        ("POST", "/fhir/events/elsewhere", RAW, 404, "listen.fhir.path"),
        ("DELETE", "/fhir/events/elsewhere/Patient/7", b"", 404, "listen.fhir.path"),
        ("POST", PATH, b"x" * 5000, 413, "4096"),
        ("PUT", PATH, RAW, 405, "not allowed"),
        ("POST", f"{PATH}/Patient/7", RAW, 405, "not allowed"),
        ("GET", PATH, b"", 405, "not allowed"),
        ("GET", f"{PATH}/Patient/7", b"", 405, "not allowed"),
        ("PATCH", f"{PATH}/Patient/7", RAW, 405, "not allowed"),
        ("POST", f"{PATH}/a/b/c/d", RAW, 404, "not found"),
    ],
)
async def test_refusals_are_operation_outcomes(
    http: httpx.AsyncClient, method: str, path: str, body: bytes, status: int, words: str
) -> None:
    """With a text that says what to do."""
    answer = await http.request(method, path, content=body)
    assert (answer.status_code, words in said(answer)) == (status, True)
    assert "Kanarivogel" not in answer.text


async def test_the_head_of_a_door_is_405(http: httpx.AsyncClient) -> None:
    """It takes events, and shows nothing."""
    for path, allowed in ((PATH, "POST"), (f"{PATH}/Patient/7", "DELETE, PUT")):
        answer = await http.head(path)
        assert (answer.status_code, answer.headers["allow"]) == (405, allowed)


async def test_another_type_is_415(http: httpx.AsyncClient) -> None:
    """XML is FHIR, too, and nothing that is read here."""
    answer = await http.post(PATH, content=RAW, headers={"content-type": "application/fhir+xml"})
    assert (answer.status_code, "application/fhir+json" in said(answer)) == (415, True)


async def test_who_may_send(site: Site) -> None:
    """A token of a sender, and of this channel where it is limited."""
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{site.port}", trust_env=False) as stranger:
        answer = await stranger.post(PATH, content=RAW, headers=FHIR)
        assert (answer.status_code, answer.headers["www-authenticate"], "token" in said(answer)) == (
            401,
            "Bearer",
            True,
        )
    for role, name, channels, status in (
        ("viewer", "looks", (), 403),
        ("sender", "of-the-feed", ("riverbend-adt",), 403),
        ("sender", "of-this", (CHANNEL,), 200),
    ):
        async with client(site.port, await site.token(role, name, channels)) as one:
            for answer in (await one.post(PATH, content=RAW), await one.put(f"{PATH}/Patient/7", content=RAW)):
                assert answer.status_code == status
            refused = await one.post("/hl7/v2/registry", content=RAW)
            assert refused.status_code == (403 if role == "viewer" else 404)


def test_its_routes_need_the_right_to_send() -> None:
    """And nothing else does but the door for messages."""
    found = {route.key for route in ROUTES if route.needs is Permission.SEND}
    door = "/fhir/events/{path}"
    assert found == {
        "POST /hl7/v2/{path}", f"POST {door}", f"PUT {door}/{{type}}/{{id}}", f"DELETE {door}/{{type}}/{{id}}",
    }  # fmt: skip


async def test_an_event_on_pages_and_in_the_api(site: Site, http: httpx.AsyncClient) -> None:
    """Its JSON line by line, whom it is about, and a refusal in words where only a message would do."""
    grace = ADA | {"id": "9", "name": [{"family": "Grackle", "given": ["Grace"]}]}
    assert (await http.post(PATH, content=orjson.dumps(grace))).status_code == 200
    seq = next(row.seq for row in site.rig.rows() if row.control_id == "Patient/9/1")
    shown = await site.act("messages.show", entry=seq)
    assert orjson.loads(shown["message"]) == grace
    assert shown["message"].count("\n") > len(grace)
    assert (shown["segments"], shown["event"], shown["source"]) == ([], "Patient", "record")
    assert shown["who"] == {"entry": seq, "name": "Grackle, Grace", "numbers": ["RB-7"], "born": "1984-02-29"}
    assert [one["entry"] for one in (await site.act("messages.list", channel=CHANNEL, limit=1))["entries"]] == [seq]
    found = await site.act("messages.search", text="grackle", channel=CHANNEL)
    assert [one["entry"] for one in found["entries"]] == [seq]
    key = "http://127.0.0.1:9/R4|Patient/9"
    assert [one["entry"] for one in (await site.act("messages.search", patient=key))["entries"]] == [seq]
    for act, given in (
        ("messages.explain", {}),
        ("messages.edit", {"set": {"PID-5": "X"}}),
        ("messages.edit", {"message": "MSH|^~\\&|"}),
        ("messages.rehearse", {"set": {"PID-5": "X"}}),
    ):
        answer = await site.rig.ask(act, entry=seq, **given)
        assert "is an event of a FHIR server" in str(answer["error"]), (act, answer)
    for act in ("mappings.try", "mappings.compare"):
        answer = await site.rig.ask(act, channel=CHANNEL, **({"message": "MSH|"} if act == "mappings.try" else {}))
        assert "takes the events of a FHIR server" in str(answer["error"]), (act, answer)
    operator = await site.person("operator")
    page = (await operator.get(f"/messages/{seq}")).text
    assert ("The event" in page, "Grackle" in page, "/explain" in page, f"/messages/{seq}/edit" in page) == (
        True, True, False, False,
    )  # fmt: skip
    assert (await operator.get(f"/messages/{seq}/edit")).status_code == 409
    for path in ("/channels", "/messages", f"/messages/{seq}/patient", "/playground", "/duplicates"):
        assert (await operator.get(path)).status_code == 200, path
    channels = (await operator.get("/channels")).text
    assert "POST /fhir/events/registry" in channels
    assert "Events of record, by webhook; told to ehr by mapping out/adt" in channels
    keys = {one["key"]: one["origin"] for one in await site.act("destinations.settings", destination="ehr")}
    assert (keys["outgoing.version"], keys["outgoing.except_from"], "outgoing" in keys) == ("default", "default", False)


async def test_a_dry_run_shows_the_message_that_would_leave(site: Site, http: httpx.AsyncClient) -> None:
    """The message of the event, or why there is none; no receiver is asked."""
    resources = [
        ADA | {"id": "10"},
        ADA | {"id": "11", "identifier": []},
        ADA | {"id": "12", "meta": {"versionId": "2"}},
        {"resourceType": "Encounter", "id": "13", "meta": {"versionId": "1"}, "status": "planned"},
    ]
    for one in resources:
        assert (await http.post(PATH, content=orjson.dumps(one))).status_code == 200
    seqs = {row.control_id: row.seq for row in site.rig.rows()}
    found = {}
    for one in resources:
        name = f"{one['resourceType']}/{one['id']}/{one['meta']['versionId']}"  # type: ignore[index]  # of each
        shown = await site.act("messages.rehearse", entry=seqs[name])
        (found[one["id"]],) = shown["destinations"]
        assert (shown["refused"], found[one["id"]]["type"]) == (None, "mllp")
    (call,) = found["10"]["calls"]
    segments = call["body"].splitlines()
    assert "ADT^A28^ADT_A05|ADT" in segments[0]
    assert segments[2].startswith("PID|1||RB-7^")
    assert "Kanarivogel^Ada" in segments[2]
    ends = {name: (one["verdict"], one["reason"]) for name, one in found.items()}
    assert ends == {
        "10": ("delivered", "would-be-sent"),
        "11": ("held", "required-segment-missing"),
        # Nobody answers there.
        "12": ("retry", "event-server-unread"),
        "13": ("held", "patient-not-found"),
    }
    operator = await site.person("operator")
    page = await operator.post(f"/messages/{seqs['Patient/10/1']}/rehearse")
    assert ("Kanarivogel^Ada" in page.text, "as it came in" in page.text, "Edit first" in page.text) == (
        True, False, False,
    )  # fmt: skip


async def test_a_stopped_channel_answers_503(site: Site, http: httpx.AsyncClient) -> None:
    """Until somebody starts it."""
    (row,) = [one for one in await site.act("channels.list") if one["channel"] == CHANNEL]
    assert (row["state"], row["fhir"], row["http"], row["port"]) == ("listening", "registry", "", 0)
    assert (row["server"], row["events"], row["unread"], row["outgoing"]) == ("record", "webhook", "", {"ehr": "adt"})
    await site.act("channels.stop", channel=CHANNEL)
    answer = await http.post(PATH, content=RAW)
    assert (answer.status_code, said(answer)) == (503, "the channel takes no events now; send it again later")
    assert (await http.get("/readyz")).status_code == 200
    await site.act("channels.start", channel=CHANNEL)
    assert (await http.post(PATH, content=RAW)).status_code == 200


async def begun(rig: Rig, **environment: str) -> Site:
    """Start the rig's engine, which listens for nothing but HTTP."""
    await rig.engine.spawn(**environment)
    return Site(rig, (await rig.engine.line("pages listening"))["port"])


@pytest.mark.parametrize("point", ["F03", "F05"])
async def test_killed_around_the_commit_nothing_is_lost_or_there_twice(tmp_path: Path, point: str) -> None:
    """What was answered is there; what was not is sent again, and is there once."""
    rig = Rig(tmp_path)
    write(tmp_path / "channels" / "events.yaml", events_file())
    try:
        token = await (await begun(rig)).token("sender", "record")
        await rig.engine.kill()
        port = (await begun(rig, ENGINE_FAULT=f"{point}:kill:1")).port
        entries = [{"resource": ADA | {"id": str(number)}} for number in range(3)]
        bundle = orjson.dumps({"resourceType": "Bundle", "type": "transaction", "entry": entries})
        async with client(port, token) as http:
            with pytest.raises(httpx.TransportError):
                await http.post(PATH, content=bundle)
        await rig.engine.ended(60)
        assert len(rig.rows()) == (3 if point == "F05" else 0)
        async with client((await begun(rig)).port, token) as http:
            assert (await http.post(PATH, content=bundle)).status_code == 200
        assert [row.control_id for row in rig.rows()] == [f"Patient/{number}/1" for number in range(3)]
    finally:
        await rig.close()


async def test_nothing_of_a_patient_is_in_the_log(site: Site) -> None:
    """Nor in the metrics."""
    assert "Kanarivogel" not in site.rig.engine.log()
    assert "Kanarivogel" not in await site.act("metrics")
