"""Messages handed from intake to dispatch, so that what was parsed at the door is not parsed again."""

from collections import OrderedDict

from engine.hl7.message import Message


class Handover:
    """A bounded shelf of parsed messages by entry; what has fallen off is parsed anew from the journal's bytes."""

    def __init__(self, most: int = 1024) -> None:
        self._most = most
        self._messages: OrderedDict[int, Message] = OrderedDict()

    def put(self, seq: int, message: Message) -> None:
        """Leave a message for dispatch."""
        self._messages[seq] = message
        if len(self._messages) > self._most:
            self._messages.popitem(last=False)

    def take(self, seq: int) -> Message | None:
        """Return the message of an entry and forget it; None where it is not on the shelf."""
        return self._messages.pop(seq, None)
