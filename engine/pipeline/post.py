"""HTTP intake: a message in the body of a POST, judged and stored as one that came by MLLP, answered with its ACK.

There is no server here: the HTTP server hands over the body and sends what is returned.
"""

import asyncio
import time
from typing import Final

from engine.config.channel import Channel
from engine.config.network import is_allowed
from engine.hl7.header import read_header
from engine.pipeline.engine import Engine
from engine.pipeline.inbound.under_way import RequestsUnderWay
from engine.receive.block import Block, BlockKind
from engine.receive.listener.admission import ALLOW_LIST
from engine.receive.reply import BlockReply, Peer

HL7: Final = "application/hl7-v2"
TYPES: Final = frozenset({HL7, "application/hl7-v2+er7", "x-application/hl7-v2+er7"})
TEXT: Final = "text/plain; charset=utf-8"

Answer = tuple[int, str, bytes]


class HttpIntake:
    """HTTP intake of one engine, by the `path` of each channel's `listen.http`."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._under_way = RequestsUnderWay(engine.listeners.refuse_post)

    def limit(self, path: str) -> int:
        """Return how many bytes of a body to read at most, before it is handed over; 0 where nobody listens."""
        channel = self._channel(path)
        return channel.limits.block_bytes if channel else 0

    async def answer(self, path: str, body: bytes, peer: Peer, content_type: str = HL7) -> Answer:
        """Answer one message: status, content type, bytes.

        200 with the acknowledgement whenever one can be built, AA or not. 202 where the sender wants none, 400 what is
        no HL7 message, 403 an address that is not allowed, 404 no such path, 413 a body over `block_bytes`, 415 another
        content type, 503 overload, a stopped channel or shutdown: nothing was stored, send it again.
        """
        channel = self._channel(path)
        if channel is None:
            return 404, TEXT, b"no channel listens here"
        refusal = self._refusal(channel, body, peer, content_type)
        if refusal is not None:
            return refusal
        intake = self._engine.listeners.intakes.get(channel.channel)
        if intake is None or self._engine.stopping:
            return 503, TEXT, b"the channel takes no messages now; send it again later"
        with self._under_way.counted(channel, peer) as admitted:
            if not admitted:
                return 503, TEXT, b"too many messages at once; send it again later"
            now = time.monotonic()
            reply = await intake.answer(Block(body, BlockKind.COMPLETE, now, now), peer)
            if reply.now is None and reply.later is None and not reply.stored and read_header(body) is not None:
                return 503, TEXT, b"the message was not stored; send it again later"
            return await _rendered(reply)

    def _channel(self, path: str) -> Channel | None:
        channels = (feed.channel for feed in self._engine.feeds.values())
        return next((channel for channel in channels if channel.listen.http and channel.listen.http.path == path), None)

    def _refusal(self, channel: Channel, body: bytes, peer: Peer, content_type: str) -> Answer | None:
        if channel.allow and not is_allowed(peer.address, channel.allow):
            self._engine.listeners.refuse_post(channel.channel, peer.address, ALLOW_LIST, "refused-address")
            return 403, TEXT, b"this address is not allowed on the channel"
        if content_type.partition(";")[0].strip().lower() not in TYPES:
            return 415, TEXT, f"send the message as {HL7}".encode()
        if len(body) > channel.limits.block_bytes:
            return 413, TEXT, f"at most {channel.limits.block_bytes} bytes".encode()
        return None if body else (400, TEXT, b"the body holds no message")


async def _rendered(reply: BlockReply) -> Answer:
    """Return a reply as HTTP has it: one answer. Of two acknowledgements the first is sent, the second is not."""
    now, written = reply.now, reply.written
    if now is None and reply.later is not None:
        now, written = await reply.later, reply.later_written
    elif reply.later is not None:
        if asyncio.iscoroutine(reply.later):
            reply.later.close()
        if reply.later_written is not None:
            reply.later_written(False)  # noqa: FBT003 - the callable's name says what
    if now is None:
        return (202, TEXT, b"") if reply.stored else (400, TEXT, b"this is no HL7 message")
    if written is not None:
        written(True)  # noqa: FBT003 - the callable's name says what
    return 200, HL7, now if isinstance(now, bytes) else b"".join(now)
