"""Acts on lanes: what is held and what waits behind it, shown before one decides; release in bulk.

    lanes.list     METADATA  {"reason", "channel", "destination", "limit": 200} -> [HELD], the oldest first
    lanes.show     METADATA  {"entry": 37, "destination", "limit": 200} -> HELD and "waits": [ROW] in lane order
    lanes.release  OPERATE   {"reason", "channel", "destination", "rate"} -> RUN (see replays.py)

HELD: {"entry", "destination", "lanes": [numbers], "channel", "contact", "event", "control_id", "received_at",
"reason", "held_since", "age_seconds", "waiting": {"entries": 4, "patients": 2}, "more": false}. `more` says that the
counts are bounded and there are more. ROW: {"entry", "event", "control_id", "channel", "received_at", "state"}. An
entry that is held at several destinations is shown at each.
"""

from typing import Any, Final

from engine.errors import UsageError
from engine.ops.acts.act import Act, Actor, Given
from engine.ops.acts.role import Permission
from engine.pipeline.engine import Engine


async def _unbuilt(_engine: Engine, _actor: Actor, _given: Given) -> Any:
    raise UsageError("this is not built yet")


LANES: Final = (
    Act("lanes.list", Permission.METADATA, _unbuilt),
    Act("lanes.show", Permission.METADATA, _unbuilt),
    Act("lanes.release", Permission.OPERATE, _unbuilt),
)
