"""All acts, in one table."""

from typing import Final

from engine.ops.acts.access import ACCESS
from engine.ops.acts.alerts import ALERTS
from engine.ops.acts.audit import AUDIT
from engine.ops.acts.care import CARE
from engine.ops.acts.channels import CHANNELS
from engine.ops.acts.destinations import DESTINATIONS
from engine.ops.acts.entries import ENTRIES
from engine.ops.acts.lanes import LANES
from engine.ops.acts.messages import MESSAGES
from engine.ops.acts.reasons import REASONS
from engine.ops.acts.replays import REPLAYS

ALL: Final = (
    *MESSAGES,
    *ENTRIES,
    *LANES,
    *REPLAYS,
    *CHANNELS,
    *DESTINATIONS,
    *ALERTS,
    *REASONS,
    *CARE,
    *ACCESS,
    *AUDIT,
)
