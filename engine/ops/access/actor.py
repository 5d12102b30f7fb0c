"""Who asks: the account, token or operating-system user behind an operation."""

from dataclasses import dataclass
from typing import Literal

from engine.ops.access.role import Role


@dataclass(frozen=True, slots=True)
class Actor:
    """Who asks: the account (or operating-system user), its role, and the way the request came.

    `channels`: what an API token is limited to, nothing for no limit. `confirmed`: whether the password was typed
    within the last minutes; pages ask for it again where an operation needs that.
    """

    name: str
    role: Role
    via: Literal["socket", "page", "api"]
    address: str = ""
    channels: tuple[str, ...] = ()
    confirmed: bool = True
