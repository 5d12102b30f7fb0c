"""Logs and metrics with an allow list of fields, so that nothing of a patient can reach them."""

import asyncio
import logging
import sys
import threading
from collections.abc import Mapping, MutableMapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, TypeVar

import structlog
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from engine.errors import place_of

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
        "bodies",
        "entries",
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
        "digest",
        "job",
        "first",
    }
)

REGISTRY: Final = CollectorRegistry()

MESSAGES: Final = Counter(
    "adt_messages_total",
    "Messages recorded, by channel and acknowledgement code; events of a FHIR server: accepted or rejected",
    ("channel", "code"),
    registry=REGISTRY,
)
FILTER_RULES: Final = Counter(
    "adt_filter_rules_total",
    "Messages that a filter filtered, refused or sent to some destinations only, by channel, rule and what it does",
    ("channel", "rule", "does"),
    registry=REGISTRY,
)
BLOCKS: Final = Counter(
    "adt_mllp_events_total",
    "What happened on MLLP connections, by channel and kind",
    ("channel", "kind"),
    registry=REGISTRY,
)
UNFRAMED: Final = Counter(
    "adt_mllp_unframed_total",
    "Connections with bytes outside any MLLP block for 5 s, by channel, address and what the first bytes look like",
    ("channel", "address", "looks_like"),
    registry=REGISTRY,
)
SETTLED: Final = Counter(
    "adt_settled_total",
    "Deliveries settled, by destination, state and reason",
    ("destination", "state", "reason"),
    registry=REGISTRY,
)
UNMAPPED: Final = Counter(
    "adt_unmapped_codes_total",
    "Messages that were settled with a code that a table of the mapping lacks, by channel, table and field",
    ("channel", "table", "field"),
    registry=REGISTRY,
)
WARNINGS: Final = Counter(
    "adt_mapping_warnings_total",
    "What a mapping could not use of messages that were settled, by channel, reason and field",
    ("channel", "reason", "field"),
    registry=REGISTRY,
)
BREAKER: Final = Gauge(
    "adt_breaker_open", "1 while a destination gets probes only", ("destination",), registry=REGISTRY
)
PAUSED: Final = Gauge(
    "adt_destination_paused", "1 while a destination is paused until somebody resumes it", ("destination",),
    registry=REGISTRY,
)  # fmt: skip
ATTEMPTS: Final = Counter(
    "adt_attempts_total",
    "Requests that change something at a destination, by destination and class of failure (ok for none)",
    ("destination", "failure"),
    registry=REGISTRY,
)
RELAY_REPEATS: Final = Counter(
    "adt_relay_repeats_total",
    "Messages that a relay sent again after a send of which nobody can tell whether the receiver has it",
    ("destination",),
    registry=REGISTRY,
)
APPLICATION_ACKS: Final = Counter(
    "adt_relay_application_acks_total",
    "Application acknowledgements that came after the commit acknowledgement of a relayed message",
    ("destination", "code"),
    registry=REGISTRY,
)
LOOKUPS: Final = Counter(
    "adt_lookups_total",
    "Look-ups that were asked for or ended, by destination, state (waiting: to be tried again) and reason",
    ("destination", "state", "reason"),
    registry=REGISTRY,
)
NOTICES: Final = Counter(
    "adt_notices_total",
    "Notices of events that were sent or ended, by destination, state (waiting: to be tried again) and reason",
    ("destination", "state", "reason"),
    registry=REGISTRY,
)
QUEUE_DEPTH: Final = Gauge(
    "adt_queue_depth", "Entries on their way to a destination", ("destination",), registry=REGISTRY
)
QUEUE_AGE: Final = Gauge(
    "adt_queue_age_seconds",
    "Age of the oldest entry that waits for nothing but its turn at a destination, in seconds",
    ("destination",),
    registry=REGISTRY,
)
HELD_LANES: Final = Gauge("adt_held_lanes", "Entries held at a destination", ("destination",), registry=REGISTRY)
CONNECTIONS: Final = Gauge(
    "adt_connections", "MLLP connections that stand, by channel", ("channel",), registry=REGISTRY
)
ACK_SECONDS: Final = Histogram(
    "adt_ack_seconds",
    "Time from a whole block to its acknowledgement, in seconds, by channel",
    ("channel",),
    buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30),
    registry=REGISTRY,
)
DELIVERY_SECONDS: Final = Histogram(
    "adt_delivery_seconds",
    "Time from a message's receipt to its delivery, in seconds, by destination; replays not",
    ("destination",),
    buckets=(
        0.01,
        0.025,
        0.05,
        0.1,
        0.25,
        0.5,
        1,
        2.5,
        5,
        10,
        20,
        30,
        45,
        60,
        90,
        120,
        180,
        300,
        600,
        1800,
        3600,
        86400,
    ),
    registry=REGISTRY,
)
ALERTS_OPEN: Final = Gauge("adt_alerts_open", "Alerts that are open", registry=REGISTRY)
DISK_FREE: Final = Gauge("adt_disk_free_bytes", "Free bytes on the disk of the data folder", registry=REGISTRY)
JOURNAL_BYTES: Final = Gauge("adt_journal_bytes", "Size of the journal with its log, in bytes", registry=REGISTRY)
COMMITS: Final = Counter("adt_journal_commits_total", "Durable commits of the journal", registry=REGISTRY)
COMMITTED: Final = Counter(
    "adt_journal_operations_total",
    "What the commits made durable; by adt_journal_commits_total it is the size of a commit",
    registry=REGISTRY,
)

LOG_INS: Final = Counter(
    "adt_log_ins_total",
    "Log-ins, confirmations, set-ups and refused API tokens, by act and outcome",
    ("act", "outcome"),
    registry=REGISTRY,
)


_Metric = TypeVar("_Metric", Counter, Gauge, Histogram)


@lru_cache(maxsize=4096)
def series(metric: _Metric, *labels: str) -> _Metric:
    """Return one series of a metric by its labels, looked up once: what happens with each message asks for it."""
    return metric.labels(*labels)


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


def metrics_text() -> str:
    """Return all metrics in the text format of Prometheus."""
    return generate_latest(REGISTRY).decode()


class _Lines(logging.Handler):
    """Turns a library's record into one line of ours, without its text."""

    def emit(self, record: logging.LogRecord) -> None:
        """Tell where the record was made, and the error that it was made for."""
        error = record.exc_info[1] if record.exc_info else None
        _tell("library warned", error, f"{Path(record.pathname).stem}:{record.lineno}")


def hush() -> None:
    """Take over the logs of libraries, warnings, and errors that nobody caught, wherever they end."""
    logging.basicConfig(handlers=[_Lines()], level=logging.WARNING, force=True)
    logging.captureWarnings(capture=True)
    sys.excepthook = lambda _kind, error, _trace: _tell("process failed", error)
    threading.excepthook = lambda given: _tell("thread failed", given.exc_value)
    sys.unraisablehook = lambda given: _tell("finaliser failed", given.exc_value)


def hush_loop(loop: asyncio.AbstractEventLoop) -> None:
    """Take over what an event loop would write of errors that nobody awaited."""
    loop.set_exception_handler(_of_loop)


def _of_loop(_loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    _tell("task failed", context.get("exception"))


def _tell(event: str, error: BaseException | None, place: str = "") -> None:
    cause = {"error": type(error).__name__} if error is not None else {}
    where = (place_of(error) if error is not None else "") or place
    logger().error(event, file=where, **cause)
