"""How long a channel's messages are kept, by how they ended."""

from collections.abc import Iterator
from typing import Final

from pydantic import Field

from engine.config.frozen import Frozen
from engine.config.wording import Placed

_CENTURY: Final = 36_525


class Kept(Frozen):
    """Days after the end of a message: its body, and all that is known of it."""

    bodies_days: float = Field(30, ge=0, le=_CENTURY, description="days the message, requests and answers are kept")
    entries_days: float = Field(
        365, ge=0, le=_CENTURY, description="days the entry itself is kept: states, codes, times"
    )

    def conflicts(self) -> Iterator[Placed]:
        """Yield an entry that would go before its body."""
        if self.entries_days < self.bodies_days:
            found = f"{self.entries_days:g}, which is less than bodies_days"
            yield ("entries_days",), found, f"at least {self.bodies_days:g}: an entry stays as long as its body"


class KeptLonger(Kept):
    """The same of what a person may still ask about."""

    bodies_days: float = Field(90, ge=0, le=_CENTURY, description="days the message, requests and answers are kept")


class Retention(Frozen):
    """What is kept of messages that ended; unfinished ones are never taken away."""

    delivered: Kept = Field(Kept(), description="of messages that were delivered")
    filtered: Kept = Field(Kept(), description="of messages that a rule filtered")
    rejected: KeptLonger = Field(KeptLonger(), description="of messages that were refused")
    discarded: KeptLonger = Field(KeptLonger(), description="of messages that an operator discarded")
