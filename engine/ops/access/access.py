"""The way in for people and programs: set up, log in, stay, confirm, log out; sessions, second factors and API tokens.

No HTTP in here: pages and API bring what was typed, the cookie's value or the bearer token, and the address. Whatever
lets somebody in, or refuses to, is in the audit trail before it is answered; JournalError where it cannot be.
"""

import secrets
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final

from engine import telemetry
from engine.journal.access import accounts, sessions
from engine.journal.access.sessions import SessionRow
from engine.journal.journal import Journal
from engine.ops.access import totp
from engine.ops.access.actor import Actor, Role, folded
from engine.ops.access.attempts import Attempts
from engine.ops.access.entering import (
    ABSOLUTE,
    CONFIRMED_FOR,
    IDLE,
    Enrolment,
    LoginAttempt,
    LoginRefusal,
    LoginRefusalReason,
    Session,
    StartedSession,
    digest_of,
    enrol,
    enter,
    leave,
)
from engine.ops.access.invitation import InvitationStatus, accept, invited
from engine.ops.access.keys import Keys
from engine.security.passwords import BusyError, weakness

# That a session was used is written at most so often: it may end a little early, never late.
SEEN_EVERY: Final = timedelta(seconds=30)
COOKIE_BYTES: Final = 32
_STANDINGS: Final = {
    InvitationStatus.VOID: LoginRefusal(LoginRefusalReason.INVITATION),
    InvitationStatus.NAME: LoginRefusal(LoginRefusalReason.NAME),
}


class Access:
    """Who may come in; one for each running engine, over its journal.

    `totp_required`: an account without a second factor must set one up before it can do anything else.
    `attempts` judges what is typed, and counts who is turned away.
    """

    def __init__(
        self, journal: Journal, keys: Keys, clock: Callable[[], datetime], *, totp_required: bool = False
    ) -> None:
        self._journal = journal
        self.keys = keys
        self._clock = clock
        self._totp_required = totp_required
        self.attempts = Attempts(journal, clock)

    async def setup(self, token: str, name: str, password: str, address: str = "") -> LoginRefusal | None:
        """Set the first password of an account by its one-time token, or make the first administrator; None: done.

        The token is good once. Where it was made for an account, `name` must be that account's.
        """
        name, digest, now = folded(name), digest_of(token), self._clock()
        attempt = LoginAttempt("set-up", name, address, now, len(password))
        if waiting := await self.attempts.throttled(attempt):
            return waiting
        found = await self._journal.read(partial(invited, digest=digest, name=name, now=now))
        if found.standing is not InvitationStatus.GOOD:
            await self.attempts.refuse(attempt, found.standing.value)
            return _STANDINGS[found.standing]
        self.attempts.forgive(name, address)
        if problem := weakness(password, name, totp=found.totp or self._totp_required):
            return LoginRefusal(LoginRefusalReason.PASSWORD, detail=problem)
        try:
            hashed = await self.attempts.passwords.hash(password)
        except BusyError:
            return LoginRefusal(LoginRefusalReason.BUSY)
        standing = await self._journal.write(partial(accept, digest=digest, attempt=attempt, hashed=hashed))
        return _STANDINGS.get(standing)

    async def log_in(self, name: str, password: str, code: str, address: str, old: str = "") -> Session | LoginRefusal:
        """Begin a session; `code`: of the second factor, empty for none; `old`: the cookie so far, whose session ends.

        An unknown or disabled account, a wrong password and a wrong or used code get the same answer in the same time.
        """
        attempt = await self.attempts.judge("log-in", folded(name), password, code, address)
        return attempt if isinstance(attempt, LoginRefusal) else await self._enter(attempt, ending=old)

    async def session_of(self, cookie: str, address: str = "", *, touch: bool = True) -> Actor | None:
        """Return the actor of a cookie; None where its session is unknown, ended, idle, too old or enrolling.

        Nor does one count that began before a second factor was required of everybody, if its account has none.

        `touch` false for what a page asks by itself: it must not keep an unattended session alive. `confirmed` of the
        actor says whether the password was typed within the last five minutes.
        """
        row = await self._live(cookie)
        if row is None or row.enrolling or (self._totp_required and not row.second_factor):
            return None
        now = self._clock()
        if touch and now - row.seen_at >= SEEN_EVERY:
            await self._journal.write(partial(sessions.see, digest=digest_of(cookie), now=now))
        confirmed = now - row.confirmed_at <= CONFIRMED_FOR
        login = f"{row.account} {row.began_at.isoformat()}"
        return Actor(row.account, Role(row.role), "page", address or row.address, confirmed=confirmed, login=login)

    async def confirm(self, cookie: str, password: str, code: str, address: str) -> Session | LoginRefusal:
        """Take password and code once more, for what needs them; the session goes on under a new cookie."""
        row = await self._live(cookie)
        if row is None or row.enrolling:
            return LoginRefusal(LoginRefusalReason.WRONG)
        attempt = await self.attempts.judge("confirm", row.account, password, code, address)
        if isinstance(attempt, LoginRefusal):
            return attempt
        return await self._enter(attempt, goes_on=row, ending=cookie)

    async def change_password(self, cookie: str, old: str, new: str, address: str) -> Session | LoginRefusal:
        """Set another password; all sessions of the account end, and one begins anew."""
        row = await self._live(cookie)
        if row is None or row.enrolling:
            return LoginRefusal(LoginRefusalReason.WRONG)
        attempt = await self.attempts.judge("change-password", row.account, old, None, address)
        if isinstance(attempt, LoginRefusal):
            return attempt
        problem = weakness(new, row.account, totp=await self._has_totp(row.account))
        if attempt.good and (problem or new == old):
            self.attempts.forgive(row.account, address)
            return LoginRefusal(
                LoginRefusalReason.PASSWORD, detail=problem or "Choose a password other than your current one."
            )
        try:
            hashed = await self.attempts.passwords.hash(new) if attempt.good else ""
        except BusyError:
            return LoginRefusal(LoginRefusalReason.BUSY)
        return await self._enter(attempt, goes_on=row, ending=cookie, hashed=hashed, length=len(new))

    async def enrolment(self, cookie: str) -> Enrolment | None:
        """Offer a second factor to an account without one, the same for as long as the session lasts.

        None: there is no such session, its account has one, or it is past enrolling and its password was not typed
        within the last five minutes.
        """
        row = await self._live(cookie)
        if row is None or not (row.enrolling or self._clock() - row.confirmed_at <= CONFIRMED_FOR):
            return None
        if await self._has_totp(row.account):
            return None
        secret = self.keys.unseal(row.account, row.offer) if row.offer else ""
        if not secret:
            secret = totp.new_secret()
            sealed = self.keys.seal(row.account, secret)
            await self._journal.write(partial(sessions.offer, digest=digest_of(cookie), sealed=sealed))
        return Enrolment(secret, totp.link(row.account, secret))

    async def enrol(self, cookie: str, code: str, address: str) -> Session | LoginRefusal:
        """Put the offered second factor in force by its first code; the session goes on under a new cookie."""
        row = await self._live(cookie)
        if row is None or not row.offer:
            return LoginRefusal(LoginRefusalReason.WRONG)
        attempt = LoginAttempt("second-factor", row.account, address, self._clock())
        if waiting := await self.attempts.throttled(attempt):
            return waiting
        step = totp.step_of(self.keys.unseal(row.account, row.offer), code, attempt.at)
        if step is None:
            await self.attempts.refuse(attempt, "wrong")
            return LoginRefusal(LoginRefusalReason.WRONG)
        self.attempts.forgive(row.account, address)
        entry = StartedSession(secrets.token_urlsafe(COOKIE_BYTES), totp_required=False, goes_on=row, ending=cookie)
        begun = await self._journal.write(partial(enrol, attempt=attempt, entry=entry, sealed=row.offer, step=step))
        return LoginRefusal(LoginRefusalReason.WRONG) if begun is None else _session(entry.cookie, begun)

    async def log_out(self, cookie: str, address: str = "") -> None:
        """End a session; nothing where there is none."""
        await self._journal.write(partial(leave, digest=digest_of(cookie), address=address, now=self._clock()))

    async def actor_of(self, token: str, address: str = "") -> Actor | None:
        """Return the actor of a bearer token; None where it is unknown, revoked or expired."""
        row = await self.attempts.bearer(token, address)
        return Actor(f"token:{row.name}", Role(row.role), "api", address, row.channels) if row else None

    async def _enter(self, attempt: LoginAttempt, **given: Any) -> Session | LoginRefusal:
        entry = StartedSession(secrets.token_urlsafe(COOKIE_BYTES), self._totp_required, **given)
        row = await self._journal.write(partial(enter, keys=self.keys, attempt=attempt, entry=entry))
        if row is None:
            self.attempts.turned_away(attempt.act)
            return LoginRefusal(LoginRefusalReason.WRONG)
        telemetry.LOG_INS.labels(attempt.act, "let in").inc()
        self.attempts.forgive(attempt.name, attempt.address)
        return _session(entry.cookie, row)

    async def _live(self, cookie: str) -> SessionRow | None:
        """Return the session of a cookie that is neither idle nor too old."""
        row = await self._journal.read(partial(sessions.find, digest=digest_of(cookie)))
        now = self._clock()
        if row is None or now - row.seen_at > IDLE or now - row.began_at > ABSOLUTE:
            return None
        return row

    async def _has_totp(self, name: str) -> bool:
        account = await self._journal.read(partial(accounts.find, name=name))
        return account is not None and bool(account.totp)


def _session(cookie: str, row: SessionRow) -> Session:
    return Session(cookie, row.account, row.enrolling, row.began_at + ABSOLUTE)
