"""`adt-engine sites list`: every site asked at once, a row each, and how the command ends."""

import asyncio
from pathlib import Path
from typing import Any

import orjson
import pytest
from typer.testing import CliRunner

from engine.__main__ import app
from tests.ops.sites.scripted import NOON, TOKEN, VARIABLE, Scripted, alert, scripted
from tests.ops.sites.test_asking import WELL

RUNNER = CliRunner()


async def listed(folder: Path, servers: dict[str, Scripted], *options: str) -> Any:
    """Write a sites.yaml of scripted engines and run the command."""
    rows = [{"name": name, "url": one.url, "token": {"env": VARIABLE}} for name, one in servers.items()]
    (folder / "sites.yaml").write_bytes(orjson.dumps({"sites": rows}))
    return await asyncio.to_thread(RUNNER.invoke, app, ["sites", "list", "--channels", str(folder), *options])


@pytest.mark.parametrize(
    ("answers", "worst", "codes"),
    [
        pytest.param(WELL, "good", (0, 0), id="well"),
        pytest.param(WELL | {"/alerts": [alert("new-source", "can wait")]}, "good", (0, 0), id="can wait"),
        pytest.param(WELL | {"/alerts": [alert("held-lanes", "to decide")]}, "warn", (0, 1), id="to decide"),
        pytest.param(WELL | {"/openapi.json": None}, "warn", (0, 1), id="not all is known"),
        pytest.param(WELL | {"/alerts": [alert("no-sender")]}, "bad", (1, 1), id="urgent"),
        pytest.param({"/alerts": []}, "bad", (1, 1), id="a destination down"),
        pytest.param(
            WELL | {"/alerts": [alert("no-sender", acknowledged_at=NOON, acknowledged_by="ann")]},
            *("good", (0, 0)),
            id="somebody has it",
        ),
    ],
)
async def test_it_ends_by_the_worst_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answers: dict[str, Any], worst: str, codes: tuple[int, int]
) -> None:
    """1 for what is bad, with --strict also for what a person has to decide or nobody knows."""
    monkeypatch.setenv(VARIABLE, TOKEN)
    async with scripted() as north:
        north.answers |= answers
        plain = await listed(tmp_path, {"North": north}, "--json")
        strict = await listed(tmp_path, {"North": north}, "--json", "--strict")
    assert (plain.exit_code, strict.exit_code) == codes
    found = orjson.loads(plain.stdout)
    assert found["worst"] == worst
    assert found["sites"][0]["version_differs"] is bool(found["sites"][0]["version"])


async def test_a_row_says_state_cause_and_since(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The gravest first; alerts, what is missing and what to do are below, on standard error of a pipe."""
    monkeypatch.setenv(VARIABLE, TOKEN)
    async with scripted() as north, scripted() as south:
        north.answers |= WELL
        south.answers["/messages/counts"] = None
        done = await listed(tmp_path, {"North": north, "South": south})
    rows = [line.split("\t") for line in done.stdout.splitlines()]
    assert rows[0] == ["Site", "State", "Version", "Channels", "Waiting", "Destinations", "Alerts #", "Cause"]
    assert rows[1] == [
        *("South", "messages do not flow", "0.9.0 (other)", "1 of 1 listening", "not known"),
        *("cdis does not answer: connection refused", "1", ""),
    ]
    assert rows[2][:7] == ["North", "well", "0.9.0 (other)", "1 of 1 listening", "0 waiting", "cdis ready", "0"]
    assert "South: urgent: cdis does not answer. Since 2026-03-01 12:00:00 UTC" in done.stderr
    assert "South: not known: messages.counts: not in its API" in done.stderr


async def test_a_token_is_on_no_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a right one, which the engine repeats, nor a wrong one, with which it is said what to do."""
    async with scripted() as north:
        north.answers["/alerts"] = [alert("no-sender", detail=TOKEN)]
        for token, said in ((TOKEN, "***"), ("of-nobody", "next: make one there")):
            monkeypatch.setenv(VARIABLE, token)
            done = await listed(tmp_path, {"North": north})
            assert (done.exit_code, said in done.stderr) == (1, True)
            assert token not in done.stdout + done.stderr
