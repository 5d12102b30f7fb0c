"""Filters of a channel: what becomes of the messages of which a condition holds, by a named rule."""

from collections.abc import Iterator
from typing import Final, Literal

from pydantic import Field

from engine.config.frozen import Frozen
from engine.config.text import Line, Name
from engine.config.wording import Placed

# What each message is held against stays bounded, in a channel file as in an event file.
MOST_FILTERS: Final = 50


class Filter(Frozen):
    """One line: it filters or refuses, or sends to some of the channel's destinations only."""

    rule: Name = Field(
        description="the name under which its messages are journaled, counted and searched", examples=["unnamed"]
    )
    when: Line = Field(description="its condition, as in mappings", examples=["event"])
    do: Literal["filter", "refuse"] | None = Field(
        None, description="filter: accepted (AA) and sent nowhere; refuse: AR 207 with the rule's name"
    )
    send_to: tuple[Name, ...] = Field(
        (), description="in place of do: the destinations that get it, and no others", examples=[["unnamed"]]
    )

    def conflicts(self) -> Iterator[Placed]:
        """Yield a line that does nothing, or two things, and a destination that it names twice."""
        if bool(self.send_to) == (self.do is not None):
            found = f"{self.do} with send_to" if self.do else "missing, and no send_to"
            yield ("do",), found, "give one of do: filter, do: refuse, send_to: [DESTINATION]"
        for number, name in enumerate(self.send_to):
            if name in self.send_to[:number]:
                yield ("send_to", number), f"{name} again", "name each destination once"
