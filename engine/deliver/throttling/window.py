"""How many deliveries may be under way at once: a pure value that shrinks while the destination is slow."""

from dataclasses import dataclass, replace
from typing import Final

SLOW_FACTOR: Final = 4.0
SLOW_MILLISECONDS: Final = 1000.0
_SMOOTH: Final = 0.05


@dataclass(frozen=True, slots=True)
class ConcurrencyWindow:
    """Additive increase, multiplicative decrease, between 1 and `most`; `usual` is a smoothed answer time."""

    most: int
    size: float
    usual: float = 0.0

    @property
    def limit(self) -> int:
        """How many deliveries may be under way."""
        return max(1, int(self.size))

    def answered(self, milliseconds: float) -> "ConcurrencyWindow":
        """Return the window after an answer: one that took long for this destination shrinks it."""
        slow = self.usual > 0 and milliseconds > max(self.usual * SLOW_FACTOR, SLOW_MILLISECONDS)
        usual = milliseconds if not self.usual else self.usual + _SMOOTH * (milliseconds - self.usual)
        if slow:
            return replace(self, size=max(1.0, self.size * 0.8), usual=usual)
        return replace(self, size=min(float(self.most), self.size + 1.0 / max(self.size, 1.0)), usual=usual)

    def failed(self) -> "ConcurrencyWindow":
        """Return the window after a transient failure: half as wide."""
        return replace(self, size=max(1.0, self.size / 2))


def window(most: int) -> ConcurrencyWindow:
    """Return a window that starts fully open."""
    return ConcurrencyWindow(most, float(most))
