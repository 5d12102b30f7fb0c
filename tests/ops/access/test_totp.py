"""Second factors: set up by a code, asked for from then on, each code good once."""

from functools import partial

import pyotp
import pytest

from engine.journal.access import accounts
from engine.ops.access.entering import LoginRefusal, LoginRefusalReason, Session
from tests.ops.access.gate import HERE, PASSWORD, Gate

SHORT = "blue-heron"


async def test_from_the_enrolment_on_a_code_is_asked_for(gate: Gate) -> None:
    """Without, and with a wrong one, the answer is the one of a wrong password."""
    await gate.account()
    generator = await gate.enrolled()
    gate.later(minutes=1)
    for code in ("", "000000", "x" * 500, "１２３４５６"):
        assert (await gate.refused(code=code)).reason is LoginRefusalReason.WRONG
    assert (await gate.log_in(code=f" {generator.at(gate.now)[:3]} {generator.at(gate.now)[3:]}")).account == "ann"


async def test_a_code_is_good_once(gate: Gate) -> None:
    """The code that set it up and the one that logged in are used up; so is an older one that was not used."""
    await gate.account()
    generator = await gate.enrolled()
    assert (await gate.refused(code=generator.at(gate.now))).reason is LoginRefusalReason.WRONG
    gate.later(seconds=60)
    used, older = generator.at(gate.now), generator.at(gate.now.timestamp() - 30)
    await gate.log_in(code=used)
    for code in (used, older):
        assert (await gate.refused(code=code)).reason is LoginRefusalReason.WRONG
    gate.later(seconds=30)
    await gate.log_in(code=generator.at(gate.now))


async def test_a_code_is_not_used_up_by_a_wrong_password(gate: Gate) -> None:
    """Whoever mistypes the password need not wait for the next code."""
    await gate.account()
    generator = await gate.enrolled()
    gate.later(seconds=60)
    code = generator.at(gate.now)
    await gate.refused(password="not the password at all", code=code)
    await gate.log_in(code=code)


async def test_clocks_may_differ_by_half_a_minute(gate: Gate) -> None:
    """One step back and one ahead are taken, two are not."""
    await gate.account()
    generator = await gate.enrolled()
    gate.later(minutes=10)
    for seconds, good in ((-60, False), (60, False), (-30, True), (30, True)):
        code = generator.at(gate.now.timestamp() + seconds)
        assert isinstance(await gate.access.log_in("ann", PASSWORD, code, HERE), Session) is good


async def test_used_codes_are_remembered_over_a_restart(gate: Gate) -> None:
    """A restart does not make a code good again."""
    await gate.account()
    generator = await gate.enrolled()
    gate.later(minutes=1)
    code = generator.at(gate.now)
    await gate.log_in(code=code)
    await gate.close()
    await gate.open()
    assert (await gate.refused(code=code)).reason is LoginRefusalReason.WRONG


async def test_where_it_is_required_nothing_else_can_be_done_first(gate: Gate) -> None:
    """The session is nobody's until a code was given; then it goes on under another cookie."""
    await gate.account()
    await gate.close()
    await gate.open(totp_required=True)
    session = await gate.log_in()
    assert session.enrolling
    assert await gate.access.session_of(session.cookie) is None
    assert isinstance(await gate.access.change_password(session.cookie, PASSWORD, "x" * 20, HERE), LoginRefusal)
    assert isinstance(await gate.access.confirm(session.cookie, PASSWORD, "", HERE), LoginRefusal)
    offered = await gate.access.enrolment(session.cookie)
    again = await gate.access.enrolment(session.cookie)
    assert offered is not None
    assert offered == again
    assert offered.link.startswith("otpauth://totp/adt-engine:ann?secret=")
    assert isinstance(await gate.access.enrol(session.cookie, "000000", HERE), LoginRefusal)
    after = await gate.access.enrol(session.cookie, pyotp.TOTP(offered.secret).at(gate.now), HERE)
    assert isinstance(after, Session)
    assert not after.enrolling
    assert await gate.access.session_of(session.cookie) is None
    assert await gate.access.session_of(after.cookie) is not None
    assert ("ann", "second-factor", "asked", "") in await gate.audited()


async def test_a_session_from_before_it_was_required_is_worth_nothing(gate: Gate) -> None:
    """An engine that moves off loopback lets nobody go on without a code; who has a second factor goes on."""
    await gate.account()
    await gate.account("bob")
    ann, generator = await gate.log_in(), await gate.enrolled("bob")
    gate.later(seconds=30)
    bob = await gate.log_in("bob", code=generator.at(gate.now))
    await gate.close()
    await gate.open(totp_required=True)
    assert await gate.access.session_of(ann.cookie) is None
    assert await gate.access.session_of(bob.cookie) is not None


async def test_an_administrator_may_ask_one_account_for_it(gate: Gate) -> None:
    """From the next log-in on, that account must set one up."""
    await gate.account()
    await gate.journal.write(partial(accounts.want_totp, name="ann", wanted=True))
    assert (await gate.log_in()).enrolling


async def test_a_short_password_needs_a_second_factor(gate: Gate) -> None:
    """Eight characters will do where a code is asked for; if that is taken back, it must be set up anew."""
    await gate.journal.write(partial(accounts.add, name="ann", role="viewer", now=gate.now, by="test"))
    await gate.journal.write(partial(accounts.want_totp, name="ann", wanted=True))
    assert await gate.access.setup(await gate.invite("ann"), "ann", SHORT, HERE) is None
    await gate.journal.write(partial(accounts.want_totp, name="ann", wanted=False))
    assert (await gate.log_in(password=SHORT)).enrolling


async def test_it_is_not_offered_to_an_unattended_session(gate: Gate) -> None:
    """Whoever finds a screen open cannot bind the account to their telephone; nor is a second one offered."""
    await gate.account()
    session = await gate.log_in()
    gate.later(minutes=6)
    assert await gate.access.enrolment(session.cookie) is None
    assert isinstance(await gate.access.enrol(session.cookie, "000000", HERE), LoginRefusal)
    await gate.enrolled()
    assert await gate.access.enrolment(session.cookie) is None


async def test_codes_cannot_be_guessed(gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wrong codes count as wrong log-ins, those of an enrolment too."""
    await gate.account()
    session = await gate.log_in()
    await gate.access.enrolment(session.cookie)
    answers = [await gate.access.enrol(session.cookie, "000000", HERE) for _ in range(6)]
    assert [answer.reason for answer in answers if isinstance(answer, LoginRefusal)] == [
        LoginRefusalReason.WRONG
    ] * 5 + [LoginRefusalReason.WAIT]


async def test_the_secret_is_sealed_in_the_file(gate: Gate) -> None:
    """A copy of the journal without the key file gives no codes."""
    await gate.account()
    generator = await gate.enrolled()
    account = await gate.journal.read(partial(accounts.find, name="ann"))
    assert account is not None
    assert generator.secret.encode() not in (gate.folder / "journal.db-wal").read_bytes()
    assert gate.access.keys.unseal("ann", account.totp) == generator.secret
    assert gate.access.keys.unseal("bob", account.totp) == ""
