"""Coming in: one-time tokens, log-ins, sessions and their end, by a clock that the test moves."""

import asyncio
import sqlite3
from contextlib import closing
from functools import partial

import pytest

from engine import telemetry
from engine.journal.access import accounts, sessions
from engine.journal.access.accounts import AccountState
from engine.ops.access.actor import Role
from engine.ops.access.entering import LoginRefusal, LoginRefusalReason, Session, digest_of
from tests.ops.access.gate import HERE, PASSWORD, Gate

ELSEWHERE = "198.51.100.3"


async def test_there_is_no_account_until_somebody_makes_one(gate: Gate) -> None:
    """A new journal lets nobody in, whatever is typed, and no token either."""
    for name in ("admin", "root", ""):
        assert (await gate.refused(name, "admin")).reason is LoginRefusalReason.WRONG
    assert await gate.access.actor_of("") is None
    assert await gate.access.session_of("") is None
    assert (await gate.journal.read(accounts.all_accounts)) == ()


async def test_the_first_administrator_chooses_name_and_password_once(gate: Gate) -> None:
    """The one-time token makes an administrator; a second use of it makes nothing."""
    token = await gate.invite()
    assert await gate.access.setup(token, " Ada ", PASSWORD, HERE) is None
    second = await gate.access.setup(token, "eve", PASSWORD, HERE)
    assert second is not None
    assert second.reason is LoginRefusalReason.INVITATION
    actor = await gate.access.session_of((await gate.log_in("ada")).cookie)
    assert actor is not None
    assert (actor.name, actor.role, actor.via, actor.address) == ("ada", Role.ADMIN, "page", HERE)
    assert [account.name for account in await gate.journal.read(accounts.all_accounts)] == ["ada"]


async def test_two_who_use_one_token_at_once_make_one_account(gate: Gate) -> None:
    """Of two uses in the same moment one is too late."""
    token = await gate.invite()
    done = await asyncio.gather(*(gate.access.setup(token, name, PASSWORD, HERE) for name in ("ada", "eve")))
    assert sorted(str(one.reason) if one else "" for one in done) == ["", "invitation"]
    assert len(await gate.journal.read(accounts.all_accounts)) == 1


async def test_a_one_time_token_expires_and_is_kept_as_a_digest(gate: Gate) -> None:
    """After half an hour it is void; the file never held it."""
    token = await gate.invite(token="T0ken-in-the-clear")
    gate.later(minutes=30)
    assert await gate.access.setup(token, "ada", PASSWORD, HERE) == LoginRefusal(LoginRefusalReason.INVITATION)
    with closing(sqlite3.connect(f"file:{gate.folder}/journal.db?mode=ro", uri=True)) as file:
        assert token not in "".join(file.iterdump())


async def test_a_token_for_an_account_serves_that_account_only(gate: Gate) -> None:
    """Under another name it is refused, and stays good for its own."""
    for name in ("ann", "bob"):
        await gate.journal.write(partial(accounts.add, name=name, role="viewer", now=gate.now, by="test"))
    token = await gate.invite("ann")
    for name in ("bob", "eve"):
        assert await gate.access.setup(token, name, PASSWORD, HERE) == LoginRefusal(LoginRefusalReason.NAME)
    assert await gate.access.setup(token, "ann", PASSWORD, HERE) is None


@pytest.mark.parametrize("name", ["", "a b", "-a", "a" * 65, "token:x", "<script>", "ann"])
async def test_a_name_that_cannot_be_given_is_refused(gate: Gate, name: str) -> None:
    """The first administrator's name is of plain characters and not anybody's; the token stays good."""
    await gate.account("ann")
    token = await gate.invite()
    assert await gate.access.setup(token, name, PASSWORD, HERE) == LoginRefusal(LoginRefusalReason.NAME)
    assert await gate.access.setup(token, "ada", PASSWORD, HERE) is None


async def test_a_weak_password_is_refused_with_what_would_do(gate: Gate) -> None:
    """The token stays good, so that another password can be tried."""
    token = await gate.invite()
    refusal = await gate.access.setup(token, "ada", "too short", HERE)
    assert refusal is not None
    assert refusal.reason is LoginRefusalReason.PASSWORD
    assert "15" in refusal.text
    assert await gate.access.setup(token, "ada", PASSWORD, HERE) is None


async def test_whatever_is_wrong_gets_one_answer(gate: Gate) -> None:
    """Unknown, invited, disabled, removed, wrong password, missing code: nobody learns which accounts exist."""
    for name in ("ann", "off", "gone"):
        await gate.account(name)
    await gate.journal.write(partial(accounts.add, name="new", role="viewer", now=gate.now, by="test"))
    await gate.journal.write(partial(accounts.set_state, name="off", state=AccountState.DISABLED))
    await gate.journal.write(partial(accounts.set_state, name="gone", state=AccountState.REMOVED))
    await gate.enrolled("ann")
    answers = [await gate.refused(name) for name in ("nobody", "new", "off", "gone", "ann", "x" * 9999)]
    answers.append(await gate.refused("ann", "not the password at all"))
    assert set(answers) == {LoginRefusal(LoginRefusalReason.WRONG)}


async def test_an_unknown_account_costs_one_hash_as_a_known_one_does(
    gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The work behind the answer is the same, so that its time tells nothing."""
    await gate.account("ann")
    await gate.journal.write(partial(accounts.add, name="new", role="viewer", now=gate.now, by="test"))
    checked: list[bool] = []
    check = gate.access.attempts.passwords.check

    async def counted(hashed: str, password: str) -> bool:
        checked.append(await check(hashed, password))
        return checked[-1]

    monkeypatch.setattr(gate.access.attempts.passwords, "check", counted)
    for name in ("ann", "nobody", "new"):
        await gate.refused(name, "not the password at all")
    assert checked == [False] * 3


async def test_names_are_the_same_however_they_are_typed(gate: Gate) -> None:
    """Capitals, blanks around and wide letters are the keyboard's."""
    await gate.account("ann")
    for typed in ("ANN", " ann ", "ａｎｎ"):
        assert (await gate.log_in(typed)).account == "ann"


async def test_a_session_is_new_at_each_log_in_and_the_old_one_ends(gate: Gate) -> None:
    """What a browser brought along before is worth nothing afterwards: no session can be fixed in advance."""
    await gate.account()
    assert await gate.access.session_of("chosen by a stranger") is None
    first = await gate.log_in(old="chosen by a stranger")
    assert first.cookie != "chosen by a stranger"
    second = await gate.log_in(old=first.cookie)
    assert await gate.access.session_of("chosen by a stranger") is None
    assert await gate.access.session_of(first.cookie) is None
    assert await gate.access.session_of(second.cookie) is not None
    assert len(first.cookie) >= 43  # 256 bits


async def test_a_wrong_log_in_leaves_the_old_session(gate: Gate) -> None:
    """Whoever mistypes is not thrown out of what was open."""
    await gate.account()
    first = await gate.log_in()
    assert isinstance(await gate.access.log_in("ann", "wrong", "", HERE, old=first.cookie), LoginRefusal)
    assert await gate.access.session_of(first.cookie) is not None


async def test_a_session_ends_when_idle_and_after_half_a_day(gate: Gate) -> None:
    """15 minutes without a request end it, 12 hours in any case; what a page asks by itself does not keep it."""
    await gate.account()
    session = await gate.log_in()
    for _ in range(3):
        gate.later(minutes=14)
        assert await gate.access.session_of(session.cookie) is not None
    gate.later(minutes=14)
    assert await gate.access.session_of(session.cookie, touch=False) is not None
    gate.later(minutes=2)
    assert await gate.access.session_of(session.cookie) is None
    session = await gate.log_in()
    for _ in range(72):
        gate.later(minutes=10)
        assert await gate.access.session_of(session.cookie) is not None
    assert session.ends_at == gate.now
    gate.later(seconds=1)
    assert await gate.access.session_of(session.cookie) is None


async def test_sessions_and_tokens_survive_a_restart_and_only_their_digests_are_kept(gate: Gate) -> None:
    """After a restart the cookie is still good; it stands nowhere in the file."""
    await gate.account()
    session = await gate.log_in()
    await gate.close()
    await gate.open()
    assert await gate.access.session_of(session.cookie) is not None
    assert gate.access.keys.is_csrf(session.cookie, gate.access.keys.csrf(session.cookie))
    with closing(sqlite3.connect(f"file:{gate.folder}/journal.db?mode=ro", uri=True)) as file:
        dump = "".join(file.iterdump())
    assert session.cookie not in dump
    assert PASSWORD not in dump


async def test_log_out_ends_the_session_and_is_audited(gate: Gate) -> None:
    """A second log-out of the same cookie does nothing."""
    await gate.account()
    session = await gate.log_in()
    for _ in range(2):
        await gate.access.log_out(session.cookie, HERE)
    assert await gate.access.session_of(session.cookie) is None
    assert [row for row in await gate.audited() if row[1] == "log-out"] == [("ann", "log-out", "asked", "")]


@pytest.mark.parametrize("state", [AccountState.DISABLED, AccountState.REMOVED])
async def test_a_disabled_account_has_no_session_from_then_on(gate: Gate, state: AccountState) -> None:
    """It does not wait for the session's end."""
    await gate.account()
    session = await gate.log_in()
    await gate.journal.write(partial(accounts.set_state, name="ann", state=state))
    assert await gate.access.session_of(session.cookie) is None


async def test_another_role_counts_at_once(gate: Gate) -> None:
    """A session has the role that its account has now."""
    await gate.account()
    session = await gate.log_in()
    await gate.journal.write(partial(accounts.set_role, name="ann", role="viewer"))
    actor = await gate.access.session_of(session.cookie)
    assert actor is not None
    assert actor.role is Role.VIEWER


async def test_a_new_password_ends_all_sessions_and_begins_one(gate: Gate) -> None:
    """The old password is worth nothing; the one who changed it goes on under another cookie."""
    await gate.account()
    here, there = await gate.log_in(), await gate.log_in(address=ELSEWHERE)
    new = "seven grey geese under salem"
    assert await gate.access.change_password(here.cookie, "wrong password", new, HERE) == LoginRefusal(
        LoginRefusalReason.WRONG
    )
    assert isinstance(refusal := await gate.access.change_password(here.cookie, PASSWORD, "short", HERE), LoginRefusal)
    assert refusal.reason is LoginRefusalReason.PASSWORD
    assert isinstance(await gate.access.change_password(here.cookie, PASSWORD, PASSWORD, HERE), LoginRefusal)
    assert await gate.access.session_of(there.cookie) is not None
    session = await gate.access.change_password(here.cookie, PASSWORD, new, HERE)
    assert isinstance(session, Session)
    assert await gate.access.session_of(session.cookie) is not None
    for old in (here, there):
        assert await gate.access.session_of(old.cookie) is None
    await gate.refused("ann", PASSWORD)
    await gate.log_in("ann", new)


async def test_a_confirmation_lasts_five_minutes_and_changes_the_cookie(gate: Gate) -> None:
    """What needs a typed password can be done for five minutes after; the session's end does not move."""
    await gate.account()
    first = await gate.log_in()
    gate.later(minutes=5)
    actor = await gate.access.session_of(first.cookie)
    assert actor is not None
    assert actor.confirmed
    gate.later(seconds=1)
    actor = await gate.access.session_of(first.cookie)
    assert actor is not None
    assert not actor.confirmed
    assert await gate.access.confirm(first.cookie, "wrong password", "", HERE) == LoginRefusal(LoginRefusalReason.WRONG)
    second = await gate.access.confirm(first.cookie, PASSWORD, "", HERE)
    assert isinstance(second, Session)
    assert second.ends_at == first.ends_at
    assert await gate.access.session_of(first.cookie) is None
    actor = await gate.access.session_of(second.cookie)
    assert actor is not None
    assert actor.confirmed


async def test_of_one_account_the_latest_ten_sessions_stay(gate: Gate) -> None:
    """Log-ins cannot fill the disk."""
    await gate.account()
    begun = []
    for _ in range(12):
        begun.append(await gate.log_in())
        gate.later(seconds=1)
    alive = [await gate.access.session_of(session.cookie) is not None for session in begun]
    assert alive == [False] * 2 + [True] * 10


async def test_csrf_tokens_belong_to_one_cookie(gate: Gate) -> None:
    """Another session's token, none, and one that is no ASCII are refused."""
    token = gate.access.keys.csrf("cookie")
    assert gate.access.keys.is_csrf("cookie", token)
    for given in ("", gate.access.keys.csrf("other"), "é", token[:-1]):
        assert not gate.access.keys.is_csrf("cookie", given)


async def test_log_ins_are_audited_before_they_count(gate: Gate) -> None:
    """Each success and each failure is a row; a name that is no account's is not kept, it may be a password."""
    await gate.account()
    await gate.log_in()
    await gate.refused("ann", "wrong password")
    await gate.refused(PASSWORD, "")
    assert await gate.audited() == [
        ("ann", "set-up", "asked", ""),
        ("ann", "log-in", "asked", ""),
        ("ann", "log-in", "refused", "wrong"),
        ("", "log-in", "refused", "wrong"),
    ]


async def test_a_token_is_good_until_it_expires_or_is_revoked(gate: Gate) -> None:
    """It stands for a role and its channels; unknown, expired and revoked ones for nobody."""
    made = sessions.ApiTokenRow("ehr", "operator", ("riverbend-adt",), gate.now, "ada", gate.now, None, None)
    for name, days in (("ehr", 1), ("other", 90)):
        gate.later(days=days)
        row = sessions.ApiTokenRow(name, made.role, made.channels, made.made_at, made.made_by, gate.now, None, None)
        gate.later(days=-days)
        await gate.journal.write(partial(sessions.add_token, digest=digest_of(name), made=row))
    actor = await gate.access.actor_of("ehr", ELSEWHERE)
    assert actor is not None
    assert (actor.name, actor.role, actor.via) == ("token:ehr", Role.OPERATOR, "api")
    assert (actor.address, actor.channels) == (ELSEWHERE, ("riverbend-adt",))
    gate.later(days=1)
    assert await gate.access.actor_of("ehr") is None
    assert await gate.access.actor_of("other") is not None
    await gate.journal.write(partial(sessions.revoke_token, name="other", now=gate.now))
    assert await gate.access.actor_of("other") is None
    assert await gate.access.actor_of("Other") is None


async def test_who_comes_and_who_is_refused_is_counted(gate: Gate) -> None:
    """A metric moves with each log-in, refusal and wrong token; it names no account."""

    def count(act: str, outcome: str) -> float:
        return telemetry.REGISTRY.get_sample_value("adt_log_ins_total", {"act": act, "outcome": outcome}) or 0

    asked = [("log-in", "let in"), ("log-in", "refused"), ("log-in", "throttled"), ("token", "refused")]
    before = [count(*one) for one in asked]
    await gate.account()
    await gate.log_in()
    for _ in range(6):
        await gate.refused(password="wrong")
    await gate.access.actor_of("adt_nothing")
    assert [count(*one) - old for one, old in zip(asked, before, strict=True)] == [1, 5, 1, 1]
    assert "ann" not in [
        word for line in telemetry.metrics_text().splitlines() if "log_ins" in line for word in line.split('"')
    ]


async def test_a_log_in_that_must_wait_says_how_long_and_is_audited_once(gate: Gate) -> None:
    """A right password waits too, and the same goes for names of nobody; after the wait it is let in."""
    await gate.account()
    for name in ("ann", "nobody"):
        for _ in range(5):
            assert (await gate.refused(name, "wrong")).reason is LoginRefusalReason.WRONG
        for _ in range(3):
            refusal = await gate.refused(name)
            assert (refusal.reason, refusal.wait_seconds) == (LoginRefusalReason.WAIT, 15)
    rows = await gate.audited()
    assert [row for row in rows if row[3] == "throttled"] == [
        ("ann", "log-in", "refused", "throttled"),
        ("", "log-in", "refused", "throttled"),
    ]
    gate.later(seconds=15)
    await gate.log_in()
