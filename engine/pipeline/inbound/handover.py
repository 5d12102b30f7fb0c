"""Messages handed from intake to dispatch, so that what was parsed at the door is not parsed again."""

from collections import OrderedDict

from engine.hl7.message import Message


class Handover:
    """A shelf of parsed messages by entry; what has fallen off is parsed anew from the journal's bytes.

    Bounded by the messages' own bytes: parsed, they take six times as much.
    """

    def __init__(self, most_bytes: int = 1_048_576) -> None:
        self._room = most_bytes
        self._messages: OrderedDict[int, Message] = OrderedDict()

    def put(self, seq: int, message: Message) -> None:
        """Leave a message for dispatch, in place of what an entry had; the oldest make room."""
        self.take(seq)
        self._messages[seq] = message
        self._room -= len(message.raw)
        while self._room < 0:
            _, oldest = self._messages.popitem(last=False)
            self._room += len(oldest.raw)

    def take(self, seq: int) -> Message | None:
        """Return the message of an entry and forget it; None where it is not on the shelf."""
        message = self._messages.pop(seq, None)
        if message is not None:
            self._room += len(message.raw)
        return message
