"""Logs and metrics with an allow list of fields, so that nothing of a patient can reach them."""

import logging
import sys
import traceback
from collections.abc import Mapping, MutableMapping
from pathlib import Path
from typing import Any, Final

import structlog
from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest

# Fields that may stand in a log line. None can hold anything of a patient: numbers, codes, names from configuration.
ALLOWED_FIELDS: Final = frozenset(
    {
        "event",
        "level",
        "timestamp",
        "channel",
        "destination",
        "entry",
        "control_id",
        "trigger",
        "version",
        "state",
        "reason",
        "code",
        "codes",
        "count",
        "attempt",
        "status",
        "seconds",
        "milliseconds",
        "bytes",
        "address",
        "port",
        "point",
        "mapping",
        "error",
        "file",
        "pid",
        "waits_for",
        "pending",
        "method",
        "path",
        "tenant",
        "client",
        "request",
    }
)

REGISTRY: Final = CollectorRegistry()

MESSAGES: Final = Counter(
    "adt_messages_total",
    "Messages recorded, by channel and acknowledgement code",
    ("channel", "code"),
    registry=REGISTRY,
)
BLOCKS: Final = Counter(
    "adt_mllp_events_total",
    "What happened on MLLP connections, by channel and kind",
    ("channel", "kind"),
    registry=REGISTRY,
)
SETTLED: Final = Counter(
    "adt_settled_total",
    "Deliveries settled, by destination, state and reason",
    ("destination", "state", "reason"),
    registry=REGISTRY,
)
WARNINGS: Final = Counter(
    "adt_mapping_warnings_total",
    "What a mapping could not use of messages that were settled, by channel, reason and field",
    ("channel", "reason", "field"),
    registry=REGISTRY,
)
BREAKER: Final = Gauge("adt_breaker_open", "1 while a destination is paused", ("destination",), registry=REGISTRY)


def _allow_only(_logger: Any, _name: str, event: MutableMapping[str, Any]) -> Mapping[str, Any]:
    return {key: value for key, value in event.items() if key in ALLOWED_FIELDS}


def configure(*, verbose: bool = False) -> None:
    """Write JSON log lines to standard error; everything else that logs in this process is held to warnings."""
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            _allow_only,
            structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.DEBUG if verbose else logging.INFO),
        logger_factory=structlog.WriteLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )


def logger() -> Any:
    """Return the process's logger; call it with an event name and allowed fields."""
    return structlog.get_logger()


def place_of(error: BaseException) -> str:
    """Return where an error was raised, as `module:line`; its text is left out, as it may hold anything."""
    frames = traceback.extract_tb(error.__traceback__)
    return f"{Path(frames[-1].filename).stem}:{frames[-1].lineno}" if frames else ""


def metrics_text() -> str:
    """Return all metrics in the text format of Prometheus."""
    return generate_latest(REGISTRY).decode()
