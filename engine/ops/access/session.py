"""The result of a log-in: a session, or why there is none."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

IDLE: Final = timedelta(minutes=15)
ABSOLUTE: Final = timedelta(hours=12)
# For so long after a password was typed its session may do what needs a confirmation.
CONFIRMED_FOR: Final = timedelta(minutes=5)


class LoginRefusalReason(StrEnum):
    """Why a log-in is refused; the same for an unknown account, a wrong password and a wrong code."""

    WRONG = "wrong"
    WAIT = "wait"
    BUSY = "busy"
    INVITATION = "invitation"
    NAME = "name"
    PASSWORD = "password"  # noqa: S105 - a reason


_TEXTS: Final = {
    LoginRefusalReason.WRONG: "Name, password or code is wrong.",
    LoginRefusalReason.WAIT: "Too many attempts: try again in a while.",
    LoginRefusalReason.BUSY: "The engine is busy: try again in a moment.",
    LoginRefusalReason.INVITATION: "This one-time token is unknown, used or too old: ask for a new one.",
    LoginRefusalReason.NAME: (
        "Choose another name: small letters, digits, dot, dash and underscore, at most 64, never used before."
    ),
    LoginRefusalReason.PASSWORD: "This password cannot be chosen.",
}


@dataclass(frozen=True, slots=True)
class LoginRefusal:
    """Why not, in a sentence for people; `wait_seconds` where trying again makes sense only later."""

    reason: LoginRefusalReason
    wait_seconds: int = 0
    detail: str = ""

    @property
    def text(self) -> str:
        """The sentence to show."""
        return self.detail or _TEXTS[self.reason]


@dataclass(frozen=True, slots=True, repr=False)
class Session:
    """A session that has just begun: `cookie` is its secret, shown here once and kept nowhere.

    `enrolling`: it may only set up a second factor (`Access.enrolment`, `Access.enrol`) or log out.
    """

    cookie: str
    account: str
    enrolling: bool
    ends_at: datetime


@dataclass(frozen=True, slots=True, repr=False)
class Enrolment:
    """A second factor on offer: the base32 secret to type, and the otpauth:// link of the same."""

    secret: str
    link: str
