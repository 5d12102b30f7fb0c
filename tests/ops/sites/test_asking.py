"""One engine asked by its API: what it says, what it lacks, and why it could not be asked; the token is nowhere."""

import ssl
from pathlib import Path
from typing import Any

import orjson
import pytest
import trustme
from aiohttp import web

from engine.config.secret import Secret
from engine.config.sites import SiteSettings
from engine.ops.sites.asking import SiteAnswer, ask
from engine.ops.sites.monitor import SiteStatus
from engine.ops.sites.summary import SiteView, page_of, site_json, site_view
from tests.flow.rig import free_port
from tests.ops.sites.scripted import CHANNEL, COUNTS, DESTINATION, NOON, TOKEN, VARIABLE, Scripted, alert, scripted

SECONDS = 30


def view_of(site: SiteSettings, answer: SiteAnswer) -> SiteView:
    """Return a site as it is shown."""
    return site_view(SiteStatus(site, answer))


async def shown(server: Scripted) -> SiteView:
    """Ask a server and return what is shown of it."""
    return view_of(server.site(), await ask(server.site(), SECONDS))


async def test_all_that_an_engine_says_is_read(north: Scripted) -> None:
    """Version, channels, counts, destinations and alerts; links lead to that engine's pages."""
    view = await shown(north)
    assert (view.kind, view.fault, view.version, view.differs, view.missing) == ("bad", None, "0.9.0", True, ())
    channels, waiting, cdis = view.stages
    assert (channels.state, channels.lines) == ("1 of 1 listening", ("9 in the last hour", "1 refused"))
    assert (waiting.state, page_of(view.url, waiting)) == ("421 waiting", f"{north.url}/lanes")
    assert (cdis.name, cdis.state) == ("cdis", "does not answer: connection refused")
    assert cdis.destination is not None
    assert cdis.destination.since == NOON
    assert [(one.kind, one.sentence) for one in view.alerts] == [("destination-down", "cdis does not answer.")]


async def test_only_reads_without_patients_are_asked_for(north: Scripted) -> None:
    """Five addresses, each once; none of them names a patient or a message."""
    await shown(north)
    assert north.queries == [
        "/api/v1/channels",
        "/api/v1/messages/counts?since=1h",
        "/api/v1/destinations",
        "/api/v1/alerts?limit=1000",
        "/api/v1/openapi.json",
    ]


async def test_a_known_version_is_not_asked_for(north: Scripted) -> None:
    """The description of the API is long."""
    answer = await ask(north.site(), SECONDS, "1.2.3")
    assert (answer.version, north.asked["/api/v1/openapi.json"]) == ("1.2.3", 0)


async def test_alerts_come_gravest_first_then_oldest_then_those_that_somebody_has(north: Scripted) -> None:
    """An acknowledged one is last, however grave."""
    later = NOON.replace("12:", "13:")
    north.answers["/alerts"] = [
        alert("queue-age", acknowledged_at=NOON, acknowledged_by="ann"),
        alert("new-source", "can wait"),
        alert("held-lanes", "to decide"),
        alert("no-sender", opened_at=later),
        alert("destination-down"),
    ]
    view = await shown(north)
    kinds = [one.kind for one in view.alerts]
    assert kinds == ["destination-down", "no-sender", "held-lanes", "new-source", "queue-age"]


async def test_more_alerts_than_a_page_takes_are_counted(north: Scripted) -> None:
    """The rest is on that engine's own page."""
    north.answers["/alerts"] = [alert("no-sender") for _ in range(25)]
    view = await shown(north)
    assert (len(view.alerts), view.more) == (20, 5)


WELL: dict[str, Any] = {
    "/destinations": [DESTINATION | {"state": "ready", "reason": "", "since": None}],
    "/alerts": [],
    "/messages/counts": COUNTS | {"queues": {}},
}


def without(row: dict[str, Any], *names: str) -> dict[str, Any]:
    """Return a row of an older engine, which lacks some fields."""
    return {name: value for name, value in row.items() if name not in names}


@pytest.mark.parametrize(
    ("answers", "missing"),
    [
        pytest.param({}, [], id="nothing"),
        pytest.param({"/channels": None}, ["channels.list: not in its API"], id="channels"),
        pytest.param({"/messages/counts": None}, ["messages.counts: not in its API"], id="counts"),
        pytest.param({"/destinations": None}, ["destinations.list: not in its API"], id="destinations"),
        pytest.param({"/alerts": None}, ["alerts.list: not in its API"], id="alerts"),
        pytest.param({"/openapi.json": None}, ["its version: not said"], id="version"),
        pytest.param({"/openapi.json": [1]}, ["its version: not said"], id="another description"),
        pytest.param(
            {"/channels": [without(CHANNEL, "rules", "lacks")]},
            ["its API does not say lacks, rules"],
            id="fields of a channel",
        ),
        pytest.param(
            {"/alerts": [without(alert("no-sender", acknowledged_at=NOON), "severity")]},
            ["its API does not say severity"],
            id="severity",
        ),
        pytest.param(
            {"/channels": [CHANNEL | {"state": "dreaming"}]},
            ["channels.list: not understood (state)"],
            id="a state of a newer engine",
        ),
        pytest.param({"/channels": [7]}, ["channels.list: not understood"], id="no channel"),
        pytest.param({"/channels": {"a": 1}}, ["channels.list: not understood (not a list)"], id="no list"),
        pytest.param(
            {"/messages/counts": COUNTS | {"received": {"adt": {"came": 9}}}},
            ["messages.counts: not understood (received)"],
            id="other counts",
        ),
        pytest.param({"/alerts": web.Response(text="<html>")}, ["alerts.list: not JSON"], id="no JSON"),
        pytest.param({"/alerts": web.Response(status=503)}, ["alerts.list: HTTP 503"], id="not now"),
        pytest.param({"/channels": [CHANNEL | {"of a newer engine": 1}]}, [], id="more than is known"),
    ],
)
async def test_what_an_engine_lacks_is_said_and_the_rest_is_shown(
    north: Scripted, answers: dict[str, Any], missing: list[str]
) -> None:
    """Never green where something is not known; nothing else is lost."""
    north.answers |= WELL | answers
    view = await shown(north)
    assert list(view.missing) == missing
    assert view.kind == ("warn" if missing else "good")
    assert view.fault is None
    for stage, path in zip(view.stages, ("/channels", "/messages/counts", "/destinations"), strict=True):
        known = not any(line.startswith(path[1:].replace("/", ".")) for line in missing)
        assert (stage.state != "not known") is known
    assert orjson.dumps(site_json(view))


@pytest.mark.parametrize(
    ("status", "does", "said"),
    [
        (403, "forbids what is asked", "role viewer without --channel"),
        (421, "refuses the address", "a host that its certificate names"),
    ],
)
async def test_a_refusal_says_what_to_do(north: Scripted, status: int, does: str, said: str) -> None:
    """With the reason that the engine gives."""
    body = orjson.dumps({"detail": "this token is limited to adt"})
    north.answers["/channels"] = web.Response(status=status, body=body)
    fault = (await shown(north)).fault
    assert fault is not None
    assert (fault.does, said in fault.remedy) == (does, True)
    assert ("limited to adt" in fault.cause) is (status == 403)


async def test_a_wrong_token_is_said_with_what_to_do(north: Scripted, monkeypatch: pytest.MonkeyPatch) -> None:
    """Asked once, not five times."""
    monkeypatch.setenv(VARIABLE, "another-token")
    view = await shown(north)
    assert view.fault is not None
    assert (view.kind, view.state) == ("bad", "refuses the token")
    assert "users token add NAME --role viewer" in view.fault.remedy
    assert north.asked.total() == 1


async def test_what_is_no_engine_is_said(north: Scripted) -> None:
    """A server that has none of the addresses."""
    north.answers.clear()
    fault = (await shown(north)).fault
    assert fault is not None
    assert (fault.does, fault.remedy) == ("is not understood", "correct `url`: is it an adt-engine?")


async def test_a_redirect_is_not_followed(north: Scripted) -> None:
    """The token goes nowhere else."""
    for path in north.answers:
        north.answers[path] = web.Response(status=302, headers={"Location": f"{north.url}/elsewhere"})
    assert (await shown(north)).fault is not None
    assert north.asked["/elsewhere"] == 0


@pytest.mark.parametrize("token", ["a\r\nb", "tökén"])
async def test_a_token_that_is_no_header_is_not_sent(
    north: Scripted, monkeypatch: pytest.MonkeyPatch, token: str
) -> None:
    """Nor shown."""
    monkeypatch.setenv(VARIABLE, token)
    view = await shown(north)
    assert view.fault is not None
    assert (view.fault.does, north.asked.total()) == ("cannot be asked", 0)
    assert token not in repr(view)


async def test_a_token_that_an_engine_repeats_is_not_shown(north: Scripted) -> None:
    """Wherever it writes it."""
    north.answers["/alerts"] = [alert("no-sender", detail=f"Bearer {TOKEN}", subject=TOKEN)]
    north.answers["/openapi.json"] = {"info": {"version": TOKEN}}
    assert TOKEN not in repr(await shown(north))
    north.answers["/channels"] = web.Response(status=403, body=orjson.dumps({"detail": TOKEN}))
    assert TOKEN not in repr(await shown(north))


async def test_a_secret_that_cannot_be_read_is_said(north: Scripted, tmp_path: Path) -> None:
    """By its reference; the engine is not asked."""
    file = tmp_path / "north.token"
    file.write_text(TOKEN)
    file.chmod(0o644)
    site = north.site().model_copy(update={"token": Secret(env=None, file=str(file))})
    fault = view_of(site, await ask(site, SECONDS)).fault
    assert fault is not None
    assert (fault.does, "chmod 600" in fault.cause, north.asked.total()) == ("cannot be asked", True, 0)


async def test_nobody_listens_is_said(north: Scripted) -> None:
    """As a person says it."""
    site = north.site().model_copy(update={"url": f"http://127.0.0.1:{free_port()}"})
    fault = (await ask(site, SECONDS)).fault
    assert fault is not None
    assert (fault.does, fault.cause) == ("does not answer", "connection refused")


async def test_an_engine_that_does_not_answer_in_time_is_said(north: Scripted) -> None:
    """All questions together have one limit."""
    north.gate.clear()
    fault = (await ask(north.site(), 0.2)).fault
    assert fault is not None
    assert (fault.does, fault.cause) == ("does not answer", "no answer in time")


async def test_a_certificate_is_verified(tmp_path: Path) -> None:
    """Without its authority, or for another name, nothing is sent; with `ca_file` it is asked."""
    authority, other = trustme.CA(), trustme.CA()
    for issued, ca, does in (
        (authority.issue_cert("127.0.0.1"), authority, ""),
        (authority.issue_cert("127.0.0.1"), other, "is not trusted"),
        (authority.issue_cert("127.0.0.1"), None, "is not trusted"),
        (authority.issue_cert("north.example"), authority, "is not trusted"),
    ):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        issued.configure_cert(context)
        async with scripted(context) as north:
            file = tmp_path / "authority.pem"
            if ca is not None:
                ca.cert_pem.write_to_path(str(file))
            site = north.site(ca_file=str(file) if ca is not None else None)
            answer = await ask(site, SECONDS)
            assert (answer.fault.does if answer.fault else "") == does
            assert bool(north.asked.total()) is not bool(does)
            if answer.fault is not None:
                assert "ca_file" in answer.fault.remedy


async def test_an_authority_that_is_none_is_said(north: Scripted, tmp_path: Path) -> None:
    """By its file."""
    file = tmp_path / "authority.pem"
    file.write_text("nothing")
    fault = (await ask(north.site(ca_file=str(file)), SECONDS)).fault
    assert fault is not None
    assert (fault.does, fault.remedy) == ("cannot be asked", "correct `ca_file`")
