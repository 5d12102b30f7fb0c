"""How long a channel's messages are kept, by how they ended."""

from pydantic import Field, model_validator

from engine.config.frozen import Frozen


class Kept(Frozen):
    """Days after the end of a message: its body, and all that is known of it."""

    bodies_days: float = Field(30, ge=0, description="days the message, requests and answers are kept")
    entries_days: float = Field(365, ge=0, description="days the entry itself is kept: states, codes, times")

    @model_validator(mode="after")
    def _ordered(self) -> "Kept":
        if self.entries_days < self.bodies_days:
            raise ValueError("entries_days is less than bodies_days; an entry stays at least as long as its body")
        return self


class KeptLonger(Kept):
    """The same of what a person may still ask about."""

    bodies_days: float = Field(90, ge=0, description="days the message, requests and answers are kept")


class Retention(Frozen):
    """What is kept of messages that ended; unfinished ones are never taken away."""

    delivered: Kept = Field(Kept(), description="of messages that were delivered")
    filtered: Kept = Field(Kept(), description="of messages that a rule filtered")
    rejected: KeptLonger = Field(KeptLonger(), description="of messages that were refused")
    discarded: KeptLonger = Field(KeptLonger(), description="of messages that an operator discarded")
