"""What is typed at the entrance, judged: throttled by account and address, as slow for an account that is none."""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Final

from engine import telemetry
from engine.journal.access import accounts, sessions
from engine.journal.access.sessions import ApiTokenRow
from engine.journal.journal import Journal
from engine.ops.access.entering import LoginAttempt, LoginRefusal, LoginRefusalReason, digest_of, refuse_known
from engine.security.passwords import BusyError, Passwords
from engine.security.throttle import LogInThrottle

LOGGED_EVERY: Final = timedelta(minutes=1)
# That a token was used is written at most so often.
USED_EVERY: Final = timedelta(hours=1)

_log = telemetry.logger()


class Attempts:
    """Judges attempts to come in.

    `refused_log_ins`, `refused_tokens`: how many were turned away since the start, those that had to wait among them.
    """

    def __init__(self, journal: Journal, clock: Callable[[], datetime]) -> None:
        self._journal = journal
        self._clock = clock
        self._throttle = LogInThrottle(clock)
        self.passwords = Passwords()
        self.refused_log_ins = 0
        self.refused_tokens = 0
        self._token_logged_at: datetime | None = None

    async def judge(
        self, act: str, name: str, password: str, code: str | None, address: str
    ) -> LoginAttempt | LoginRefusal:
        """Compare a password with the account's; it takes as long for an account that is none."""
        attempt = LoginAttempt(act, name, address, self._clock(), len(password), code)
        if waiting := await self.throttled(attempt):
            return waiting
        account = await self._journal.read(partial(accounts.find, name=name))
        hashed = "" if account is None else account.password
        try:
            good = await self.passwords.check(hashed, password)
        except BusyError:
            return LoginRefusal(LoginRefusalReason.BUSY)
        return replace(attempt, hashed=hashed, good=good)

    async def throttled(self, attempt: LoginAttempt) -> LoginRefusal | None:
        """Count an attempt; of those that must wait the first one is recorded in the audit trail."""
        wait = self._throttle.begin(attempt.name, attempt.address)
        if wait is None:
            return None
        self.turned_away(attempt.act, "throttled")
        if wait.first:
            await self._journal.write(partial(refuse_known, attempt=attempt, reason="throttled"))
        return LoginRefusal(LoginRefusalReason.WAIT, wait.seconds)

    async def refuse(self, attempt: LoginAttempt, reason: str) -> None:
        """Record that an attempt was refused, and count it."""
        await self._journal.write(partial(refuse_known, attempt=attempt, reason=reason))
        self.turned_away(attempt.act)

    def turned_away(self, act: str, outcome: str = "refused") -> None:
        """Count somebody who was not let in."""
        self.refused_log_ins += 1
        telemetry.LOG_INS.labels(act, outcome).inc()

    def forgive(self, name: str, address: str) -> None:
        """Forget the wrong attempts of an account at an address."""
        self._throttle.succeed(name, address)

    async def bearer(self, token: str, address: str) -> ApiTokenRow | None:
        """Return the API token that is meant; None where it is unknown, revoked or expired, which is counted."""
        row = await self._journal.read(partial(sessions.token, digest=digest_of(token)))
        now = self._clock()
        if row is None or row.revoked_at is not None or now >= row.expires_at:
            self._refuse_token(address, now)
            return None
        if row.used_at is None or now - row.used_at >= USED_EVERY:
            await self._journal.write(partial(sessions.use_token, name=row.name, now=now))
        return row

    def _refuse_token(self, address: str, now: datetime) -> None:
        """Count a token that opens nothing; the log says from where, once a minute at most."""
        self.refused_tokens += 1
        telemetry.LOG_INS.labels("token", "refused").inc()
        if self._token_logged_at is None or now - self._token_logged_at >= LOGGED_EVERY:
            self._token_logged_at = now
            _log.warning("token refused", address=address, count=self.refused_tokens)
