"""Requests under way at the HTTP doors of channels: how many at once, in all and of one address."""

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator

from engine.config.channel import Channel
from engine.receive.reply import Peer


class RequestsUnderWay:
    """Counts the requests of each channel; `refuse` hears of one past the channel's limits: name, address, limit."""

    def __init__(self, refuse: Callable[[str, str, str], None]) -> None:
        self._refuse = refuse
        self._counts: Counter[tuple[str, str]] = Counter()

    @contextlib.contextmanager
    def counted(self, channel: Channel, peer: Peer) -> Iterator[bool]:
        """Count a request under way; False where the channel's connections, in all or of the address, are used up."""
        limits, key = channel.limits, (channel.channel, peer.address)
        total = sum(count for (name, _), count in self._counts.items() if name == channel.channel)
        full = ""
        if self._counts[key] >= limits.connections_per_address:
            full = f"limits.connections_per_address {limits.connections_per_address}"
        elif total >= limits.connections:
            full = f"limits.connections {limits.connections}"
        if full:
            self._refuse(channel.channel, peer.address, full)
            yield False
            return
        self._counts[key] += 1
        try:
            yield True
        finally:
            self._counts[key] -= 1
            if not self._counts[key]:
                del self._counts[key]
