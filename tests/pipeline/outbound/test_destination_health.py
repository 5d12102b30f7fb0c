"""How a destination has been doing: which deliveries measure it, and which waited through an outage."""

from dataclasses import replace
from datetime import timedelta

import pytest

from engine.deliver.verdict import Verdict, VerdictKind
from engine.journal.entry import Claimed, State
from engine.journal.state.tally import bucket_of
from engine.pipeline.outbound.destination_health import DestinationHealth
from tests.journal.desk import NOW, settlement

CLAIMED = Claimed(
    1, "d", b"", "adt", "ADT|RVB", "1", "A08", NOW, 0, 0, None, (1,), replay=False, forced=False
)  # fmt: skip
DELIVERED = Verdict(VerdictKind.DELIVERED, "")
LATER = NOW + timedelta(hours=1)


@pytest.mark.parametrize(
    ("blocked_until", "kept"),
    [
        (None, ("delivery", bucket_of(3_600_000_000))),
        (NOW, ("delivery", bucket_of(3_600_000_000))),
        (NOW + timedelta(seconds=1), ("delayed", 0)),
    ],
)
def test_a_delivery_that_waited_through_an_outage_is_counted_apart(
    blocked_until: object, kept: tuple[str, int]
) -> None:
    """It came before the outage was over: how long it took says nothing of the destination."""
    health = DestinationHealth("d")
    health.blocked_until = blocked_until or health.blocked_until  # type: ignore[assignment]
    health.count(CLAIMED, DELIVERED, settlement(1, at=LATER))
    ((key, count),) = health.waits.items()
    assert ((key.series, key.bucket), key.who, count) == (kept, "d", 1)


def test_what_measures_nothing_is_not_counted() -> None:
    """A replay, a delivery that was held, and one that ended before it came, by a clock that was set back."""
    health = DestinationHealth("d")
    health.count(replace(CLAIMED, replay=True), DELIVERED, settlement(1, at=LATER))
    health.count(CLAIMED, Verdict(VerdictKind.HELD, "http-422"), settlement(1, State.HELD, at=LATER))
    health.count(CLAIMED, DELIVERED, settlement(1, at=NOW - timedelta(seconds=1)))
    assert not health.waits
