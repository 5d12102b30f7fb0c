"""What administrators do with accounts and tokens, as acts over a real journal."""

from types import SimpleNamespace
from typing import Any

import pytest

from engine.errors import AccessError, ForbiddenOperationError, UsageError
from engine.ops.access.actor import Actor, Role
from engine.ops.access.entering import Session
from engine.ops.audit.trail import AuditTrail
from engine.ops.operations import access
from engine.ops.operations.access import ACCESS
from engine.ops.operations.runner import Operations
from tests.ops.access.gate import HERE, PASSWORD, Gate

OWNER = Actor("root", Role.OWNER, "socket")
ADA = Actor("ada", Role.ADMIN, "page", HERE)


class Office:
    """The operations of access over a gate."""

    def __init__(self, gate: Gate) -> None:
        self.gate = gate
        engine: Any = SimpleNamespace(
            journal=gate.journal, files=SimpleNamespace(data=gate.folder), feeds={"riverbend-adt": None}
        )
        self._operations = Operations(engine, ACCESS, AuditTrail(gate.journal, gate.access.keys, lambda: gate.now))

    async def do(self, act: str, actor: Actor = OWNER, **given: Any) -> Any:
        """Do an operation."""
        return await self._operations.answer(act, actor, given)


@pytest.fixture
async def office(gate: Gate, monkeypatch: pytest.MonkeyPatch) -> Office:
    """Give the operations, with the gate's clock."""
    monkeypatch.setattr(access, "now", lambda: gate.now)
    return Office(gate)


async def test_from_nobody_to_a_working_team(office: Office) -> None:
    """The owner invites the first administrator, who makes an operator, who chooses a password and logs in."""
    gate = office.gate
    invitation = await office.do("users.setup")
    assert await gate.access.setup(invitation["token"], "ada", PASSWORD, HERE) is None
    made = await office.do("users.add", ADA, name="Ann", role="operator")
    assert made["name"] == "ann"
    await gate.refused("ann", "")
    assert await gate.access.setup(made["token"], "ann", PASSWORD, HERE) is None
    actor = await gate.access.session_of((await gate.log_in()).cookie)
    assert actor is not None
    assert actor.role is Role.OPERATOR
    listed = await office.do("users.list", ADA)
    assert [(one["name"], one["role"], one["password"], one["made_by"]) for one in listed] == [
        ("ada", "admin", True, "set-up"),
        ("ann", "operator", True, "ada"),
    ]
    assert "argon2" not in str(listed)


async def test_only_the_first_administrator_is_invited_without_a_name(office: Office) -> None:
    """At the terminal, and only while there is none; a second invitation voids the first."""
    gate = office.gate
    first, second = [(await office.do("users.setup"))["token"] for _ in range(2)]
    assert await gate.access.setup(first, "ada", PASSWORD, HERE) is not None
    assert await gate.access.setup(second, "ada", PASSWORD, HERE) is None
    with pytest.raises(AccessError, match="ada"):
        await office.do("users.setup")
    with pytest.raises(ForbiddenOperationError, match="terminal"):
        await office.do("users.setup", ADA)


async def test_a_name_is_given_once(office: Office) -> None:
    """A removed account's name never comes to mean somebody else."""
    await office.do("users.add", name="ann", role="viewer")
    for _ in range(2):
        with pytest.raises(AccessError, match="ann"):
            await office.do("users.add", name="ANN", role="viewer")
        if [one["name"] for one in await office.do("users.list")]:
            await office.do("users.remove", name="ann")
    assert await office.do("users.list") == []
    with pytest.raises(AccessError):
        await office.do("users.enable", name="ann")


@pytest.mark.parametrize(
    ("act", "given"),
    [
        pytest.param("users.add", {"name": "a b", "role": "viewer"}, id="name"),
        pytest.param("users.add", {"name": "ann", "role": "owner"}, id="owner"),
        pytest.param("users.add", {"name": "ann", "role": "sender"}, id="sender"),
        pytest.param("users.add", {"name": "ann", "role": "king"}, id="no role"),
        pytest.param("users.add", {"role": "viewer"}, id="no name"),
        pytest.param("users.add", {"name": ["ann"], "role": "viewer"}, id="name of another kind"),
        pytest.param("tokens.add", {"name": "ehr", "role": "admin"}, id="token that administers"),
        pytest.param("tokens.add", {"name": "ehr", "role": "owner"}, id="token that owns"),
        pytest.param("tokens.add", {"name": "ehr", "role": "viewer", "days": 400}, id="token for long"),
        pytest.param("tokens.add", {"name": "ehr", "role": "viewer", "days": -1}, id="token of the past"),
        pytest.param("tokens.add", {"name": "ehr", "role": "viewer", "days": "x"}, id="days of another kind"),
        pytest.param("tokens.add", {"name": "ehr", "role": "viewer", "channels": ["no"]}, id="no channel"),
        pytest.param("tokens.add", {"name": "ehr", "role": "viewer", "channels": "x"}, id="channels of another kind"),
    ],
)
async def test_what_cannot_be_made_is_refused(office: Office, act: str, given: dict[str, Any]) -> None:
    """Nothing is made of it."""
    with pytest.raises(UsageError):
        await office.do(act, **given)
    assert await office.do("users.list") == []
    assert await office.do("tokens.list") == []


async def test_the_last_administrator_stays_but_for_the_owner(office: Office) -> None:
    """No administrator can lock all out; nobody changes the own role; whoever owns the machine may do either."""
    gate = office.gate
    for name in ("ada", "bea"):
        await gate.account(name, "admin")
    bea = Actor("bea", Role.ADMIN, "page", HERE)
    for act, more in (("users.disable", {}), ("users.remove", {}), ("users.role", {"role": "operator"})):
        with pytest.raises(ForbiddenOperationError, match="another administrator"):
            await office.do(act, ADA, name="ada", **more)
    await office.do("users.disable", ADA, name="bea")
    for act, more in (("users.disable", {}), ("users.remove", {}), ("users.role", {"role": "operator"})):
        with pytest.raises(AccessError, match="last administrator"):
            await office.do(act, bea, name="ada", **more)
    await office.do("users.enable", name="bea")
    await office.do("users.role", ADA, name="bea", role="viewer")
    await office.do("users.disable", name="ada")
    assert (await office.do("users.setup"))["token"]


async def test_what_changes_an_account_ends_its_sessions(office: Office) -> None:
    """Disabling, a new one-time token and a voided second factor each do; enabling brings none back."""
    gate = office.gate
    await gate.account("ann")
    for act, given in (("users.disable", {}), ("users.totp", {"wanted": False, "reset": True}), ("users.password", {})):
        session = await gate.log_in()
        await office.do(act, name="ann", **given)
        await office.do("users.enable", name="ann")
        assert await gate.access.session_of(session.cookie) is None
    await gate.refused("ann")


async def test_a_lost_telephone_is_replaced(office: Office) -> None:
    """The second factor so far is void; the next log-in must set up another one."""
    gate = office.gate
    await gate.account("ann")
    await gate.enrolled()
    await office.do("users.totp", name="ann", wanted=True, reset=True)
    session = await gate.log_in()
    assert session.enrolling
    (listed,) = await office.do("users.list")
    assert (listed["second_factor"], listed["second_factor_wanted"]) == (False, True)


async def test_a_disabled_account_s_one_time_token_is_void(office: Office) -> None:
    """An invitation does not outlive what it was for."""
    gate = office.gate
    made = await office.do("users.add", name="ann", role="viewer")
    await office.do("users.disable", name="ann")
    await office.do("users.enable", name="ann")
    assert await gate.access.setup(made["token"], "ann", PASSWORD, HERE) is not None


async def test_tokens_are_shown_once_and_revoked_at_once(office: Office) -> None:
    """What is kept tells for whom it is, never the token; a name is given once."""
    gate = office.gate
    made = await office.do("tokens.add", name="ehr", role="sender", channels=["riverbend-adt"], days=30)
    assert made["token"].startswith("adt_")
    actor = await gate.access.actor_of(made["token"])
    assert actor is not None
    assert (actor.role, actor.channels) == (Role.SENDER, ("riverbend-adt",))
    (listed,) = await office.do("tokens.list")
    assert (listed["name"], listed["made_by"], listed["used_at"]) == (
        "ehr",
        "root",
        gate.now.isoformat(timespec="seconds"),
    )
    assert made["token"] not in str(listed)
    assert made["token"].encode() not in (gate.folder / "journal.db-wal").read_bytes()
    await office.do("tokens.revoke", name="EHR")
    assert await gate.access.actor_of(made["token"]) is None
    with pytest.raises(AccessError):
        await office.do("tokens.revoke", name="ehr")
    with pytest.raises(AccessError):
        await office.do("tokens.add", name="ehr", role="viewer")


async def test_all_of_it_is_audited_and_nothing_secret_is_kept(office: Office) -> None:
    """Who made whom what is told; tokens and passwords are not."""
    gate = office.gate
    secrets = [(await office.do("users.setup"))["token"]]
    secrets.append((await office.do("users.add", name="ann", role="operator"))["token"])
    secrets.append((await office.do("tokens.add", name="ehr", role="viewer"))["token"])
    await gate.access.setup(secrets[1], "ann", PASSWORD, HERE)
    session = await gate.log_in()
    assert isinstance(session, Session)
    rows = await gate.journal.read(
        lambda connection: connection.execute("SELECT act, actor, detail FROM audit ORDER BY seq").fetchall()
    )
    assert [(act, actor) for act, actor, _detail in rows] == [
        ("users.setup", "root"),
        ("users.add", "root"),
        ("tokens.add", "root"),
        ("set-up", "ann"),
        ("log-in", "ann"),
    ]
    assert rows[1][2] == '{"name":"ann","role":"operator"}'
    held = (gate.folder / "journal.db-wal").read_bytes()
    assert not [secret for secret in (*secrets, PASSWORD, session.cookie) if secret.encode() in held]
