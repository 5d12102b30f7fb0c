"""All operations, in one table."""

from typing import Final

from engine.ops.operations.access import ACCESS
from engine.ops.operations.alerts import ALERTS
from engine.ops.operations.audit import AUDIT
from engine.ops.operations.care import CARE
from engine.ops.operations.channels import CHANNELS
from engine.ops.operations.destinations import DESTINATIONS
from engine.ops.operations.duplicates import DUPLICATES
from engine.ops.operations.entries import ENTRIES
from engine.ops.operations.explaining import ExplainMessage
from engine.ops.operations.held import HELD
from engine.ops.operations.kept import KEPT
from engine.ops.operations.lanes import LANES
from engine.ops.operations.messages import MESSAGES
from engine.ops.operations.operation import AnyOperation
from engine.ops.operations.patients import PATIENTS
from engine.ops.operations.playground import PLAYGROUND
from engine.ops.operations.publishing import PUBLISHING
from engine.ops.operations.replays import REPLAYS
from engine.ops.operations.sharing import SHARING
from engine.ops.operations.status import STATUS

ALL: Final[tuple[AnyOperation, ...]] = (
    *MESSAGES,
    ExplainMessage,
    *PATIENTS,
    *DUPLICATES,
    *ENTRIES,
    *LANES,
    *HELD,
    *REPLAYS,
    *KEPT,
    *CHANNELS,
    *DESTINATIONS,
    *PLAYGROUND,
    *PUBLISHING,
    *SHARING,
    *ALERTS,
    *STATUS,
    *CARE,
    *ACCESS,
    *AUDIT,
)
