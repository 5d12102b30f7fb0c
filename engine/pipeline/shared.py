"""What the doors and the dispatches of one engine share."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from engine.pipeline.feed import Feeds
from engine.pipeline.handover import Handover
from engine.pipeline.merge_limit import MergeBrake
from engine.pipeline.outcomes import Outcomes
from engine.pipeline.pauses import Pauses
from engine.pipeline.timekeeping import Timekeeper


@dataclass(frozen=True, slots=True)
class Shared:
    """What the doors and the dispatches of one engine have in common."""

    feeds: Feeds
    handover: Handover
    outcomes: Outcomes
    pauses: Pauses
    merges: MergeBrake
    clock: Callable[[], datetime]
    time: Timekeeper
