"""Which messages a feed may send: types (MSH-9.1), and events of ADT besides those that HL7 knows."""

from collections.abc import Iterable
from typing import Final, NamedTuple

ADT: Final = "ADT"


def types_of(events: Iterable[str]) -> frozenset[str]:
    """Return the types of messages of events as they are named: `A01` of ADT, `ORU^R01` of ORU; without any ADT."""
    return frozenset(event.partition("^")[0] if "^" in event else ADT for event in events) or frozenset({ADT})


class AcceptedMessages(NamedTuple):
    """What a channel's mapping is for: types of messages, and the trigger events of ADT that its table names.

    Of other types there is no table of events: what becomes of one that the mapping does not name, its `others` says.
    """

    types: frozenset[str] = frozenset({ADT})
    events: frozenset[str] = frozenset()

    @property
    def text(self) -> str:
        """The types, as people read them."""
        return " and ".join(sorted(self.types))


ADT_ALONE: Final = AcceptedMessages()
