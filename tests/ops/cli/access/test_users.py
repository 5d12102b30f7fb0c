"""`adt-engine users`: accounts and tokens over the admin socket of a running engine."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from click.testing import Result
from typer.testing import CliRunner

from engine.errors import AccessError, AdtEngineError, UsageError
from engine.ops.cli.access.users import app
from tests.flow.program import Program
from tests.ops.alone import alone


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncIterator[Program]:
    """An engine without accounts."""
    async with alone(tmp_path) as program:
        yield program


async def users(folder: Path, *arguments: str) -> Result:
    """Run a command of `adt-engine users`."""
    return await asyncio.to_thread(
        CliRunner().invoke, app, [*arguments, "--data", str(folder / "data")], env={"COLUMNS": "200"}
    )


async def told(folder: Path, *arguments: str) -> Any:
    """Run a command that succeeds and return its JSON."""
    done = await users(folder, *arguments, "--json")
    assert done.exit_code == 0, done.output
    return orjson.loads(done.stdout)


async def test_accounts_from_invitation_to_removal(engine: Program, tmp_path: Path) -> None:
    """Each command does its work, tells it in a line, and no secret reaches the log."""
    done = await users(tmp_path, "list")
    assert "users setup" in done.stderr
    first = await users(tmp_path, "setup")
    secrets = [first.stdout.split("\n")[0]]
    assert len(secrets[0]) == 43  # 256 bits
    assert "/set-up" in first.stderr
    invited = await told(tmp_path, "add", "ann", "--role", "operator")
    secrets.append(invited["token"])
    for arguments, said in (
        (("role", "ann", "viewer-phi"), "ann is viewer-phi now"),
        (("disable", "ann"), "ann is disabled"),
        (("enable", "ann"), "ann is enabled"),
        (("totp", "ann"), "ann must have a second factor"),
        (("totp", "ann", "--reset", "--optional"), "ann need not have a second factor"),
    ):
        done = await users(tmp_path, *arguments)
        assert said in done.stdout, done.output
    secrets.append((await told(tmp_path, "password", "ann"))["token"])
    assert "no password yet" in (await users(tmp_path, "list")).stdout
    assert [row["role"] for row in await told(tmp_path, "list")] == ["viewer-phi"]
    assert "ann is removed" in (await users(tmp_path, "remove", "ann")).stdout
    assert await told(tmp_path, "list") == []
    await engine.stop()
    said_aloud = b"".join(engine.said)
    assert not [secret for secret in secrets if secret.encode() in said_aloud]


async def test_tokens_from_making_to_revoking(engine: Program, tmp_path: Path) -> None:
    """The token is the only line on standard output, so that a script can take it."""
    given = ("token", "add", "ehr", "--role", "sender", "--channel", "a", "--days", "30")
    done = await users(tmp_path, *given)
    assert done.stdout.startswith("adt_")
    assert done.stdout.count("\n") == 1
    assert "in force" in (await users(tmp_path, "token", "list")).stdout
    assert "ehr is revoked" in (await users(tmp_path, "token", "revoke", "ehr")).stdout
    (row,) = await told(tmp_path, "token", "list")
    assert (row["name"], row["channels"], bool(row["revoked_at"])) == ("ehr", ["a"], True)


async def test_what_is_wrong_is_told_with_the_next_step(engine: Program, tmp_path: Path) -> None:
    """Wrong use is told apart from what the engine refuses."""
    for arguments, error, words in (
        (("add", "ann", "--role", "king"), UsageError, "viewer-phi"),
        (("disable", "nobody"), AccessError, "users list"),
        (("token", "revoke", "nothing"), AccessError, "token list"),
        (("token", "add", "x", "--role", "sender", "--channel", "b"), UsageError, "channels list"),
    ):
        done = await users(tmp_path, *arguments)
        assert done.exit_code != 0
        assert words in str(done.exception)
        assert isinstance(done.exception, UsageError if error is UsageError else AdtEngineError)


async def test_without_an_engine_it_says_how_to_start_one(tmp_path: Path) -> None:
    """Accounts are the running engine's: no second writer."""
    done = await users(tmp_path, "list")
    assert "adt-engine run" in str(done.exception)
