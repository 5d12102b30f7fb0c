"""The interface between the listener and intake: one callable, and the values that pass between them."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from engine.receive.block import Block


@dataclass(frozen=True, slots=True)
class Peer:
    """The other end of a connection; `tls_name` is the source name of its client certificate, empty without one."""

    address: str
    port: int
    tls_name: str = ""


Written: TypeAlias = Callable[[bool], None]


@dataclass(frozen=True, slots=True)
class BlockReply:
    """The answer to one block, HL7 bytes without the bytes around a block.

    `now` takes its turn among the replies of the connection; a tuple leaves as one block each, None writes nothing.
    `later` follows outside the order. `written` and `later_written` hear True once the last byte is handed to the
    socket, False if the line was gone. `close` ends the connection after the reply. `stored` says which commit byte of
    MLLP release 2 goes before it, where the channel wants commit bytes.
    """

    now: bytes | tuple[bytes, ...] | None
    close: bool = False
    later: Awaitable[bytes | None] | None = None
    written: Written | None = None
    later_written: Written | None = None
    stored: bool = True


Answer: TypeAlias = Callable[[Block, Peer], Awaitable[BlockReply]]


class Observe(Protocol):
    """Hears what happens on connections, a short word for each kind."""

    def __call__(self, kind: str, /, **about: str) -> None:
        """Hear of one event.

        `about`: `address` of the peer, `first` (what bytes without a frame look like), `point` and `error` (where a
        fault of ours arose, and of which type).
        """
