"""What machines ask for: health, metrics, and messages sent over HTTP."""

from collections.abc import AsyncIterator

import httpx
import orjson
import pytest

from tests.flow.rig import channel_file, running
from tests.ops.web.conftest import Site, message, start

HL7 = {"content-type": "application/hl7-v2"}


@pytest.fixture(scope="module")
async def site(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Site]:
    """An engine with one channel that has a door for HTTP beside the one for MLLP."""
    listen = {"mllp": {"host": "127.0.0.1", "port": 0}, "http": {"path": "riverbend"}}
    async with running(tmp_path_factory.mktemp("machine"), listen=listen) as rig:
        other = channel_file(rig.proxy.url) | {"channel": "somewhere-else"}
        (rig.folder / "channels" / "other.yaml").write_bytes(orjson.dumps(other))
        made = await start(rig)
        yield made


@pytest.fixture
async def http(site: Site) -> AsyncIterator[httpx.AsyncClient]:
    """A program that has not said who it is."""
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{site.port}", trust_env=False, timeout=60) as client:
        yield client


async def _as(site: Site, role: str, name: str, *channels: str) -> dict[str, str]:
    return {"authorization": f"Bearer {await site.token(role, name, channels)}"}


async def test_health_tells_strangers_no_names(http: httpx.AsyncClient) -> None:
    """Alive and ready, in two words: nothing of channels or destinations."""
    alive, ready = await http.get("/livez"), await http.get("/readyz")
    assert (alive.status_code, alive.json()) == (200, {"alive": True})
    assert (ready.status_code, ready.json()) == (200, {"ready": True, "stopping": False, "journal": "ok"})


async def test_metrics_need_a_token(site: Site, http: httpx.AsyncClient) -> None:
    """Prometheus reads them with a viewer's token; a sender's is not enough."""
    assert (await http.get("/metrics")).status_code == 401
    answer = await http.get("/metrics", headers=await _as(site, "viewer", "prometheus"))
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert "adt_messages_total" in answer.text
    assert (await http.get("/metrics", headers=await _as(site, "sender", "feed-1"))).status_code == 403


async def test_a_message_over_http_is_answered_with_its_acknowledgement(site: Site, http: httpx.AsyncClient) -> None:
    """A sender's token may send, and nothing else: AA with 200, and the entry is delivered."""
    sender = await _as(site, "sender", "feed-2")
    answer = await http.post("/hl7/v2/riverbend", content=message("H1", "RB-1"), headers=sender | HL7)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/hl7-v2")
    assert "MSA|AA|H1" in answer.text
    await site.rig.until(lambda rows: any(row.state == "delivered" for row in rows))
    refused = await http.post("/hl7/v2/riverbend", content=message("H2", ""), headers=sender | HL7)
    assert (refused.status_code, "MSA|AE|H2" in refused.text) == (200, True)
    assert (await http.get("/api/v1/messages", headers=sender)).status_code == 403


@pytest.mark.parametrize(
    ("path", "role", "content", "kind", "status"),
    [
        ("riverbend", "", b"MSH", "application/hl7-v2", 401),
        ("riverbend", "viewer", b"MSH", "application/hl7-v2", 403),
        ("nowhere", "sender", b"MSH", "application/hl7-v2", 404),
        ("riverbend", "sender", b"MSH", "application/json", 415),
        ("riverbend", "sender", b"", "application/hl7-v2", 400),
        ("riverbend", "sender", b"x" * 1_100_000, "application/hl7-v2", 413),
    ],
)
async def test_what_cannot_be_taken_is_refused(
    site: Site, http: httpx.AsyncClient, path: str, role: str, content: bytes, kind: str, status: int
) -> None:
    """C-527: no token, another role, no such channel, another type, nothing, too much: each has its status."""
    headers = await _as(site, role, f"{role}-{path}-{status}") if role else {}
    answer = await http.post(f"/hl7/v2/{path}", content=content, headers=headers | {"content-type": kind})
    assert answer.status_code == status


async def test_a_token_of_another_channel_sends_nothing(site: Site, http: httpx.AsyncClient) -> None:
    """A token that is limited to a channel sends to that one."""
    good = await _as(site, "sender", "of-this", "riverbend-adt")
    answer = await http.post("/hl7/v2/riverbend", content=message("H3", "RB-3"), headers=good | HL7)
    assert "MSA|AA|H3" in answer.text
    other = await _as(site, "sender", "of-other", "somewhere-else")
    refused = await http.post("/hl7/v2/riverbend", content=message("H4", "RB-4"), headers=other | HL7)
    assert refused.status_code == 403
