"""How fast bulk runs go, by what was seen of them within the last minute; kept in memory, so a restart begins anew."""

import time
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Final

from engine.journal.write.bulk_replay import Run, RunState

WINDOW_SECONDS: Final = 60.0
APART_SECONDS: Final = 1.0
MOST_RUNS: Final = 100


class RunRates:
    """The rates of runs: each look at one that is running is a sample, at most one a second."""

    def __init__(self, ticks: Callable[[], float] = time.monotonic) -> None:
        self._ticks = ticks
        self._samples: OrderedDict[int, deque[tuple[float, int]]] = OrderedDict()

    def rate(self, run: Run) -> float | None:
        """Return how many entries a second end, None where that is not known yet or the run is not running."""
        if run.state is not RunState.RUNNING:
            self._samples.pop(run.number, None)
            return None
        now, samples = self._ticks(), self._samples.setdefault(run.number, deque())
        self._samples.move_to_end(run.number)
        while len(self._samples) > MOST_RUNS:
            self._samples.popitem(last=False)
        while samples and now - samples[0][0] > WINDOW_SECONDS:
            samples.popleft()
        if not samples or now - samples[-1][0] >= APART_SECONDS:
            samples.append((now, run.done))
        began, done = samples[0]
        return (run.done - done) / (now - began) if now - began >= APART_SECONDS else None
