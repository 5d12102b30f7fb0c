"""What `doctor` says of the FHIR servers whose events channels take."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from engine.ops.cli.examine.check import Check
from engine.ops.cli.examine.events import events
from engine.pipeline.configuration import Files, configure
from tests.pipeline.inbound.history_server import HistoryServer, channel_of


@pytest.fixture
async def server() -> AsyncIterator[HistoryServer]:
    """A server without any version."""
    found = await HistoryServer().start()
    yield found
    await found.stop()


async def check(folder: Path, base: str, source: str = "history", **keys: Any) -> Check:
    """Return what is found of a channel."""
    channel = channel_of(base, source, **keys).model_dump(mode="json", exclude_unset=True)
    (folder / "back.yaml").write_bytes(orjson.dumps(channel))
    (one,) = await events(configure(Files(folder, None, folder), machine=False))
    assert one.what == "events of back"
    return one


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("history", "has a history of Patient and Encounter"),
        ("webhook", "/fhir/events/registry"),
        ("subscription", "takes Subscriptions"),
    ],
)
async def test_a_server_that_can_do_it(tmp_path: Path, server: HistoryServer, source: str, says: str) -> None:
    """Good, whoever brings the events; nothing is written there."""
    server.lists = ("Patient", "Encounter", "Subscription")
    found = await check(tmp_path, server.base, source)
    assert (found.standing, found.do) == ("ok", "")
    assert says in found.found
    assert server.subscriptions == {}
    assert all(one.startswith("GET ") for one in server.asked)


@pytest.mark.parametrize(
    ("source", "standing", "says"),
    [("history", "mend", "gives no history of Patient and Encounter"), ("subscription", "look", "deletions are lost")],
)
async def test_a_server_without_a_history(
    tmp_path: Path, server: HistoryServer, source: str, standing: str, says: str
) -> None:
    """To be mended where nothing else brings events."""
    server.unsupported = 501
    found = await check(tmp_path, server.base, source)
    assert found.standing == standing
    assert says in found.found
    assert found.do


async def test_a_server_without_subscriptions(tmp_path: Path, server: HistoryServer) -> None:
    """As it says itself."""
    server.lists = ("Patient", "Encounter")
    found = await check(tmp_path, server.base, "subscription")
    assert (found.standing, "lists no Subscription" in found.found) == ("mend", True)


async def test_the_shipped_service_sends_to_https_only(tmp_path: Path, server: HistoryServer) -> None:
    """And no server reaches the engine's own machine by its name for itself, unless it is there."""
    server.lists = ("Subscription",)
    settings = {"profile": "shipped", "if_none_exist": "demographics"}
    found = await check(tmp_path, server.base, "subscription", settings=settings, endpoint="http://engine.example")
    assert (found.standing, found.do) == ("mend", "give the engine's https address")
    found = await check(tmp_path, server.base, "subscription", endpoint="https://127.0.0.1:8443")
    assert (found.standing, "reaches the engine" in found.do) == ("look", True)


@pytest.mark.parametrize("status", [503, 401])
async def test_a_server_that_does_not_answer(tmp_path: Path, server: HistoryServer, status: int) -> None:
    """Is named with what it says and the next step."""
    server.answers += [0, status, status]
    found = await check(tmp_path, server.base)
    assert found.standing == "mend"
    assert server.base in found.found
    assert found.do


async def test_nobody_there(tmp_path: Path) -> None:
    """Is said in words."""
    found = await check(tmp_path, "http://127.0.0.1:9/fhir")
    assert (found.standing, "connection refused" in found.found) == ("mend", True)
