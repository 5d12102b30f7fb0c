"""Short ways to make accounts and to come in."""

from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pyotp

from engine.journal.access import accounts
from engine.journal.journal import Journal
from engine.ops.access.access import Access
from engine.ops.access.entering import LoginRefusal, Session, digest_of
from engine.ops.access.keys import Keys

PASSWORD = "nine blue herons over riverbend"
HERE = "192.0.2.7"


class Gate:
    """An Access over a journal in a folder; `now` is what its clock says."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.now = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
        self.journal: Journal
        self.access: Access

    async def open(self, **given: Any) -> None:
        """Open the journal, and the way in as it is after a start."""
        failures: list[BaseException] = []
        self.journal = await Journal.open(self.folder, clock=lambda: self.now, fail=failures.append)
        self.access = Access(self.journal, Keys.of(self.folder), lambda: self.now, **given)

    async def close(self) -> None:
        """Close the journal."""
        await self.journal.close()

    def later(self, **given: float) -> None:
        """Move the clock."""
        self.now += timedelta(**given)

    async def invite(self, account: str = "", token: str = "token") -> str:  # noqa: S107
        """Keep a one-time token for half an hour; return it."""
        until = self.now + timedelta(minutes=30)
        await self.journal.write(partial(accounts.invite, digest=digest_of(token), account=account, expires_at=until))
        return token

    async def account(self, name: str = "ann", role: str = "operator", password: str = PASSWORD) -> None:
        """Make an account with a password, by its one-time token."""
        await self.journal.write(partial(accounts.add, name=name, role=role, now=self.now, by="test"))
        assert await self.access.setup(await self.invite(name), name, password, HERE) is None

    async def log_in(self, name: str = "ann", password: str = PASSWORD, code: str = "", **given: str) -> Session:
        """Log in; AssertionError where that is refused."""
        session = await self.access.log_in(name, password, code, given.pop("address", HERE), **given)
        assert isinstance(session, Session), session
        return session

    async def refused(
        self, name: str = "ann", password: str = PASSWORD, code: str = "", address: str = HERE
    ) -> LoginRefusal:
        """Try to log in; AssertionError where that succeeds."""
        refusal = await self.access.log_in(name, password, code, address)
        assert isinstance(refusal, LoginRefusal)
        return refusal

    async def enrolled(self, name: str = "ann") -> pyotp.TOTP:
        """Set up a second factor for an account; return its generator, whose present code is used up."""
        session = await self.log_in(name)
        offered = await self.access.enrolment(session.cookie)
        assert offered is not None
        generator = pyotp.TOTP(offered.secret)
        assert isinstance(await self.access.enrol(session.cookie, generator.at(self.now), HERE), Session)
        return generator

    async def audited(self) -> list[tuple[str, str, str, str]]:
        """Return actor, act, outcome and reason of every row of the audit trail."""
        rows = await self.journal.read(
            lambda connection: connection.execute(
                "SELECT actor, act, outcome, reason FROM audit ORDER BY seq"
            ).fetchall()
        )
        return [(actor, act, outcome, reason) for actor, act, outcome, reason in rows]
