"""Which messages a feed may send: types (MSH-9.1), and events of ADT beside those that HL7 knows."""

from typing import Final, NamedTuple

ADT: Final = "ADT"


class Taken(NamedTuple):
    """What a channel's mapping is for: types of messages, and the trigger events of ADT that its table names.

    Of other types there is no table of events: what becomes of one that the mapping does not name, its `others` says.
    """

    types: frozenset[str] = frozenset({ADT})
    events: frozenset[str] = frozenset()

    @property
    def text(self) -> str:
        """The types, as people read them."""
        return " and ".join(sorted(self.types))


ADT_ALONE: Final = Taken()
