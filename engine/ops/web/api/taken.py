"""What each act takes: the names that a request may use, and of which type each is.

A name that is none of them is refused, as a filter with a slip of the pen would otherwise mean everything.
"""

from collections.abc import Mapping
from typing import Final

from engine.ops.web.api.shape import COUNT, NUMBER, TEXT, TRUTH, Schema, named, optional, rows

Taken = Mapping[str, Schema]

_PAGE: Final[Taken] = {"before": COUNT, "limit": COUNT}
_TIME: Final[Taken] = {"since": TEXT, "until": TEXT}
_LIST: Final[Taken] = {
    **dict.fromkeys(("state", "channel", "source", "event", "control_id", "reason", "outcome"), TEXT),
    **_TIME,
    **_PAGE,
}
_SEARCH: Final[Taken] = {**_LIST, "patient": TEXT, "visit": TEXT, "text": TEXT}
_EDIT: Final[Taken] = {"message": TEXT, "set": named(TEXT)}
_AUDIT: Final[Taken] = {
    **dict.fromkeys(("actor", "act", "outcome", "patient"), TEXT), **_TIME, "entry": COUNT,
}  # fmt: skip
_MEANT: Final[Taken] = {
    "entries": rows(COUNT),
    **dict.fromkeys(("state", "channel", "event", "patient", "reason", "destination"), TEXT),
    **_TIME,
    "force": TRUTH,
    "rate": NUMBER,
}
_HELD: Final[Taken] = {"reason": TEXT, "channel": TEXT, "destination": TEXT}
_ENTRY: Final[Taken] = {"entry": COUNT}
_RUN: Final[Taken] = {"run": COUNT}
_CHANNEL: Final[Taken] = {"channel": TEXT}

TAKEN: Final[Mapping[str, Taken]] = {
    "messages.list": _LIST,
    "messages.search": _SEARCH,
    "messages.show": _ENTRY,
    "messages.raw": _ENTRY,
    "messages.facts": _ENTRY,
    "messages.explain": {**_ENTRY, "element": TEXT, "field": TEXT},
    "messages.export": {"filter": optional(_SEARCH), "reason": TEXT, **_PAGE},
    "messages.counts": _TIME,
    "messages.throughput": {**_TIME, "channel": TEXT, "points": COUNT},
    "messages.replay": {**_ENTRY, "force": TRUTH, "destination": TEXT},
    "messages.release": {**_ENTRY, "force": TRUTH},
    "messages.retry": _ENTRY,
    "messages.discard": {**_ENTRY, "reason": TEXT},
    "messages.rehearse": {**_ENTRY, **_EDIT, "destination": TEXT},
    "messages.edit": {**_ENTRY, **_EDIT, "discard_original": TRUTH, "reason": TEXT, "force": TRUTH},
    "messages.matches": {**_ENTRY, "destination": TEXT},
    "messages.resolve": {**_ENTRY, "destination": TEXT, "patient": TEXT},
    "stats": {},
    "codes.unmapped": {**_TIME, "channel": TEXT},
    "codes.values": {**_TIME, "place": TEXT},
    "lanes.list": {**_HELD, "limit": COUNT},
    "lanes.show": {**_ENTRY, "destination": TEXT, "limit": COUNT},
    "lanes.release": {**_HELD, "rate": NUMBER},
    "replays.plan": _MEANT,
    "replays.start": _MEANT,
    "replays.progress": _RUN,
    "replays.list": {"limit": COUNT},
    "replays.stop": _RUN,
    "replays.resume": _RUN,
    "alive": {},
    "channels.list": {},
    "channels.start": _CHANNEL,
    "channels.stop": _CHANNEL,
    "channels.drain": _CHANNEL,
    "channels.allow-merge": _CHANNEL,
    "reload": {},
    "metrics": {},
    "destinations.list": {},
    "destinations.pause": {"destination": TEXT, "reason": TEXT},
    "destinations.resume": {"destination": TEXT},
    "alerts.list": {"all": TRUTH, "limit": COUNT},
    "alerts.acknowledge": {"alert": COUNT},
    "reasons": {"code": TEXT, "kind": TEXT},
    "audit.list": {**_AUDIT, **_PAGE},
    "audit.verify": {},
    "audit.anchor": {},
    "audit.export": {**_AUDIT, "format": TEXT},
}
