"""The server of a draft: what it puts down, what it answers for now, and what it leaves of it."""

import orjson
import pytest

from engine.deliver.stored import Cache, ServerResource
from engine.deliver.wire.recording_server import Layer, RecordingServer
from engine.deliver.wire.response_log import name_of
from engine.errors import PermanentDeliveryError
from engine.fhir.plan import Identity
from tests.deliver.fake_fhir import Step

ONE, TWO = Identity("s", "1"), Identity("s", "2")
CONDITION = (("If-None-Exist", "identifier=s%7C9"),)


@pytest.fixture
def draft(site, server, identifier):
    """A draft at a server that has one Patient."""
    server.add("a", identifier=[identifier("1")])
    return RecordingServer(site.open().destination._server)


def encoded(**elements) -> bytes:
    """A Patient as it is sent."""
    return orjson.dumps({"resourceType": "Patient", **elements})


async def test_a_read_is_kept_once(draft, server):
    """What the server answered is given again, and then no more; what was not asked was not answered."""
    url = f"{server.base}/Patient/a"
    answer = await draft.ask("GET", url, ())
    assert draft.response_log.take(name_of("GET", url)) == answer
    assert draft.response_log.take(name_of("GET", url)) is None
    assert draft.response_log.take(name_of("GET", f"{server.base}/Patient/b")) is None


async def test_a_search_that_shows_what_is_not_there_yet_is_kept_for_nobody(draft, server, identifier):
    """A draft finds what it has put down; whoever asks afterwards has to ask the server."""
    number = identifier("9")
    url = f"{server.base}/Patient?identifier={number['system']}%7C9"
    await draft.ask("POST", f"{server.base}/Patient", CONDITION, encoded(identifier=[number]))
    answer = await draft.ask("GET", url, ())
    assert [one["resource"]["identifier"] for one in answer.json["entry"]] == [[number]]
    assert draft.response_log.take(name_of("GET", url)) is None
    assert [request for request in server.requests if not request.startswith("GET")] == []


async def test_a_failure_to_answer_fails_again(draft, server):
    """A read that broke off breaks off in the same way where it is asked for again, without a second wait."""
    server.script.append(Step("GET", drop=True))
    url = f"{server.base}/Patient/a"
    for ask in (lambda: draft.ask("GET", url, ()), None):
        with pytest.raises(Exception, match="connection-lost"):
            await ask() if ask else draft.response_log.take(name_of("GET", url))
    assert len(server.requests) == 1


async def test_two_writes_of_one_resource_are_one(draft, server):
    """What is made and then changed is made as it is in the end; an update keeps the version that it began from."""
    made = await draft.ask("POST", f"{server.base}/Patient", CONDITION, encoded(gender="male"))
    own = made.json["id"]
    await draft.ask("PUT", f"{server.base}/Patient/{own}", (), encoded(id=own, meta={"x": 1}, gender="female"))
    for gender in ("male", "female"):
        tag = (("If-Match", 'W/"1"'),)
        await draft.ask(
            "PUT", f"{server.base}/Patient/a", tag, encoded(id="a", meta={"versionId": gender}, gender=gender)
        )
    first, second = draft.writes.values()
    assert (first.method, first.body) == ("POST", {"resourceType": "Patient", "gender": "female"})
    assert (second.method, second.headers) == ("PUT", (("If-Match", 'W/"1"'),))
    assert second.body == {"resourceType": "Patient", "id": "a", "meta": {"versionId": "male"}, "gender": "female"}
    assert (draft.count, server.requests) == (4, [])


@pytest.mark.parametrize(
    ("method", "headers"),
    [("DELETE", ()), ("POST", ()), ("PUT", (("If-None-Match", "*"),))],
    ids=["delete", "create-without-a-condition", "create-by-id"],
)
async def test_anything_else_is_left_to_requests(draft, server, method, headers):
    """Only conditional creates and updates are put down."""
    with pytest.raises(PermanentDeliveryError, match="not-drafted"):
        await draft.ask(method, f"{server.base}/Patient", headers, encoded())


def test_a_layer_changes_nothing_below_until_it_is_kept() -> None:
    """Put, drop and forget are seen in the layer alone; keeping it does the same below, but for what is left out."""
    below = Cache(10)
    for name, identity in (("a", ONE), ("b", TWO)):
        below.put(ServerResource(name, "", {}), (identity,), "me", {"x": (name,)})
    layer = Layer(below)
    layer.forget((ONE,))
    layer.put(ServerResource("b", "t", {}), (TWO,), "me", {"x": ("new",)})
    layer.put(ServerResource("c", "t", {}), (ONE,), "me", {})
    seen = layer.find((ONE,)), layer.owned("a", "me"), layer.owned("b", "me")
    assert (seen[0] and seen[0].logical_id, seen[1], seen[2]) == ("c", None, {"x": ("new",)})
    found = below.find((ONE,))
    assert (found and found.logical_id, below.owned("b", "me")) == ("a", {"x": ("b",)})
    layer.keep({"b"})
    found = below.find((ONE,))
    assert (found and found.logical_id, below.owned("b", "me"), len(below)) == ("c", {"x": ("b",)}, 2)
