"""Second factors: time-based one-time codes (RFC 6238), each good once."""

from datetime import datetime
from typing import Final

import pyotp

ISSUER: Final = "adt-engine"
STEP_SECONDS: Final = 30
# The clocks of telephones are off by a little: the code before and the one after are good too.
STEPS_OFF: Final = (0, -1, 1)


def new_secret() -> str:
    """Return a new secret of 160 bits in base32."""
    return pyotp.random_base32()


def link(account: str, secret: str) -> str:
    """Return the otpauth:// link which an authenticator takes over."""
    return pyotp.TOTP(secret).provisioning_uri(name=account, issuer_name=ISSUER)


def step_of(secret: str, code: str, now: datetime) -> int | None:
    """Return the step (30 seconds since 1970) that a code belongs to; None where it is none of now.

    All steps are compared, each in constant time. Whether the code was used before is for the caller to say.
    """
    typed = "".join(code.split())
    found = None
    step = int(now.timestamp()) // STEP_SECONDS
    generator = pyotp.TOTP(secret)
    for off in STEPS_OFF:
        moment = (step + off) * STEP_SECONDS
        if pyotp.utils.strings_equal(generator.at(moment), typed):
            found = step + off
    return found
