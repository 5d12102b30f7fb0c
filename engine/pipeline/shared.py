"""What the listeners and the dispatches of one engine share."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from engine.pipeline.feed import Feeds
from engine.pipeline.inbound.handover import Handover
from engine.pipeline.inbound.merge_limit import MergeRateLimiter
from engine.pipeline.inbound.outcomes import Outcomes
from engine.pipeline.outbound.pauses import Pauses
from engine.pipeline.outbound.timekeeping import Timekeeper


@dataclass(frozen=True, slots=True)
class PipelineContext:
    """What the listeners and the dispatches of one engine have in common."""

    feeds: Feeds
    handover: Handover
    outcomes: Outcomes
    pauses: Pauses
    merges: MergeRateLimiter
    clock: Callable[[], datetime]
    time: Timekeeper
