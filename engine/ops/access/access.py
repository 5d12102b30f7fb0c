"""The way in for people and programs: set up, log in, stay, confirm, log out; sessions, second factors and API tokens.

No HTTP in here: pages and API bring what was typed, the cookie's value or the bearer token, and the address. Whatever
lets somebody in, or refuses to, is in the audit trail before it is answered.
"""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final

from engine.journal.journal import Journal
from engine.ops.access.keys import Keys
from engine.ops.access.passwords import Passwords
from engine.ops.access.session import Enrolment, Refusal, Session
from engine.ops.access.throttle import Throttle
from engine.ops.acts.actor import Actor

MOST_SESSIONS: Final = 10
# That a session was used is written at most so often: it may end a little early, never late.
SEEN_EVERY: Final = timedelta(seconds=30)
USED_EVERY: Final = timedelta(hours=1)


class Access:
    """Who may come in; one for each running engine, over its journal.

    `totp_required`: an account without a second factor must set one up before it can do anything else.
    """

    def __init__(
        self, journal: Journal, keys: Keys, clock: Callable[[], datetime], *, totp_required: bool = False
    ) -> None:
        self._journal = journal
        self._keys = keys
        self._clock = clock
        self._totp_required = totp_required
        self._passwords = Passwords()
        self._throttle = Throttle(clock)

    async def setup(self, token: str, name: str, password: str, address: str = "") -> Refusal | None:
        """Set the first password of an account by its one-time token, or make the first administrator; None: done.

        The token is good once. Where it was made for an account, `name` must be that account's.
        """
        raise NotImplementedError

    async def log_in(self, name: str, password: str, code: str, address: str, old: str = "") -> Session | Refusal:
        """Begin a session; `code`: of the second factor, empty for none; `old`: the cookie so far, whose session ends.

        An unknown or disabled account, a wrong password and a wrong or used code get the same answer in the same time.
        """
        raise NotImplementedError

    async def session_of(self, cookie: str, address: str = "", *, touch: bool = True) -> Actor | None:
        """Return who a cookie stands for; None where its session is unknown, ended, idle, too old or enrolling.

        `touch` false for what a page asks by itself: it must not keep an unattended session alive. `confirmed` of the
        actor says whether the password was typed within the last five minutes.
        """
        raise NotImplementedError

    async def confirm(self, cookie: str, password: str, code: str, address: str) -> Session | Refusal:
        """Take password and code once more, for what needs them; the session goes on under a new cookie."""
        raise NotImplementedError

    async def change_password(self, cookie: str, old: str, new: str, address: str) -> Session | Refusal:
        """Set another password; all sessions of the account end, and one begins anew."""
        raise NotImplementedError

    async def enrolment(self, cookie: str) -> Enrolment | None:
        """Offer a second factor to an account without one; None where there is no session, or it has one."""
        raise NotImplementedError

    async def enrol(self, cookie: str, code: str, address: str) -> Session | Refusal:
        """Put the offered second factor in force by its first code; the session goes on under a new cookie."""
        raise NotImplementedError

    async def log_out(self, cookie: str, address: str = "") -> None:
        """End a session; nothing where there is none."""
        raise NotImplementedError

    async def actor_of(self, token: str, address: str = "") -> Actor | None:
        """Return whom a bearer token stands for; None where it is unknown, revoked or expired."""
        raise NotImplementedError

    def csrf_of(self, cookie: str) -> str:
        """Return the token that forms under this cookie carry."""
        return self._keys.csrf(cookie)

    def is_csrf(self, cookie: str, given: str) -> bool:
        """Say whether a form's token belongs to this cookie."""
        return self._keys.is_csrf(cookie, given)
