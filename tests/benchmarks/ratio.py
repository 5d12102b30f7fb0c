"""How two engines compare by runs in turn: the ratio of each pair, and how far the pairs lie apart."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from tests.benchmarks.figures import Figure, rounded


@dataclass(frozen=True, slots=True)
class Ratio:
    """A figure of A and of B as the median of each, and B / A of each pair of runs: median, least, greatest.

    The ratios are None where A is zero in all of the pairs.
    """

    unit: str
    a: float
    b: float
    median: float | None
    least: float | None
    greatest: float | None

    @classmethod
    def of(cls, a: Sequence[Figure], b: Sequence[Figure]) -> "Ratio":
        """Return how a figure compares, the first of A beside the first of B and so on."""
        pairs = [theirs.value / mine.value for mine, theirs in zip(a, b, strict=True) if mine.value]
        medians = (statistics.median(one.value for one in side) for side in (a, b))
        spread = (statistics.median(pairs), min(pairs), max(pairs)) if pairs else (None, None, None)
        return cls(a[0].unit, *medians, *spread)

    def cells(self) -> tuple[str, ...]:
        """Return A, B, the ratio and its spread as they stand in a table."""
        if self.median is None or self.least is None or self.greatest is None:
            return rounded(self.a), rounded(self.b), self.unit, "-", "-"
        spread = f"{self.least:.2f} to {self.greatest:.2f}"
        return rounded(self.a), rounded(self.b), self.unit, f"{self.median:.2f}", spread
