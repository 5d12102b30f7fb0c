"""Fixed headers of a destination: with each request to its FHIR bases, and to nobody else."""

import pytest

from engine.deliver.verdict import Failure, VerdictKind
from engine.fhir.plan import Plan, Upsert
from tests.deliver.conftest import AT

SECRET = "SENTINEL-of-header"
HEADERS = {"X-Tenant": "north", "X-Api-Key": {"env": "API_KEY"}}


@pytest.fixture(autouse=True)
def key(monkeypatch):
    """The secret in the environment."""
    monkeypatch.setenv("API_KEY", SECRET)


async def test_each_request_to_the_server_has_them_and_the_token_endpoint_has_not(site, server, patient, monkeypatch):
    """Reads, writes and the CapabilityStatement; nothing of a secret in what is shown of them."""
    monkeypatch.setenv("CLIENT_SECRET", "x")
    auth = {
        "type": "client_credentials",
        "token_url": server.base.replace("/fhir/R4", "/oauth/token"),
        "client_id": "engine",
    }
    site.open(headers=HEADERS, auth=auth | {"client_secret": {"env": "CLIENT_SECRET"}})
    await site.destination.check()
    verdict = await site.send(Upsert(patient("1")))
    assert verdict.kind is VerdictKind.DELIVERED
    for line, sent in zip(server.requests, server.headers, strict=True):
        fixed = (sent.get("X-Tenant"), sent.get("X-Api-Key"))
        assert fixed == ((None, None) if "oauth/token" in line else ("north", SECRET)), line
    assert SECRET not in repr((verdict, site.destination.settings, site.channel))
    assert SECRET not in site.channel.model_dump_json()


async def test_dry_runs_and_look_ups_have_them(site, server, patient):
    """Whatever is asked of the server goes by the same settings."""
    server.lookup_paths = {"DocumentReference/$p360-retrieve"}
    site.open(headers=HEADERS)
    assert (await site.send(Upsert(patient("1")))).kind is VerdictKind.DELIVERED
    plan = Plan("A08", "ADT|RVB", AT, 14, (Upsert(patient("2")),))
    assert (await site.destination.dry_run(plan, site.memory, at=AT)).calls
    await site.destination.look_up("Patient/p1", AT)
    assert server.looked_up == ["p1"]
    assert {sent.get("X-Api-Key") for sent in server.headers} == {SECRET}


async def test_a_secret_that_changed_is_used_without_a_restart(site, server, patient, monkeypatch):
    """After some seconds, and at once where the server refuses the former one."""
    site.open(headers=HEADERS)
    await site.send(Upsert(patient("1")))
    monkeypatch.setenv("API_KEY", "second")
    await site.send(Upsert(patient("2")))
    assert server.headers[-1]["X-Api-Key"] == SECRET
    site.ticks = 6.0
    await site.send(Upsert(patient("3")))
    assert server.headers[-1]["X-Api-Key"] == "second"
    monkeypatch.setenv("API_KEY", "third")
    server.accepted_tokens = set()
    await site.send(Upsert(patient("4")))
    server.accepted_tokens = None
    await site.send(Upsert(patient("4")))
    assert server.headers[-1]["X-Api-Key"] == "third"


@pytest.mark.parametrize(
    ("value", "code"), [("", "secret-unreadable"), ("a\r\nX: SENTINEL", "header-unusable"), ("é", "header-unusable")]
)
async def test_a_secret_that_cannot_be_sent_holds_no_message(site, server, patient, monkeypatch, value, code):
    """It is the destination that cannot be used; nothing was sent."""
    site.open(headers=HEADERS)
    monkeypatch.setenv("API_KEY", value)
    verdict = await site.send(Upsert(patient("1")))
    assert (verdict.kind, verdict.reason, verdict.failure) == (VerdictKind.RETRY, code, Failure.DESTINATION)
    assert server.requests == []
