"""The gauges of a running engine, for `/metrics`: set by what the watch has seen."""

from pathlib import Path

from engine import telemetry
from engine.journal.file.database import FILE
from engine.pipeline.alerts.rules import EngineFacts
from engine.pipeline.engine import Engine


class Gauges:
    """The gauges of one engine; those of a destination that is gone go with it."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._commits = self._operations = 0
        self._gauged: set[str] = set()

    def set(self, facts: EngineFacts) -> None:
        """Set every gauge by what is known of the engine now."""
        for name in self._gauged - facts.destinations.keys():
            for gauge in (telemetry.QUEUE_DEPTH, telemetry.QUEUE_AGE, telemetry.HELD_LANES, telemetry.PAUSED):
                gauge.remove(name)
        self._gauged = set(facts.destinations)
        for name, destination in facts.destinations.items():
            backlog = destination.backlog
            age = (facts.now - backlog.oldest_at).total_seconds() if backlog.oldest_at else 0.0
            telemetry.QUEUE_DEPTH.labels(name).set(backlog.depth)
            telemetry.QUEUE_AGE.labels(name).set(max(age, 0.0))
            telemetry.HELD_LANES.labels(name).set(backlog.held)
            telemetry.PAUSED.labels(name).set(destination.pause is not None)
        for name, channel in facts.channels.items():
            telemetry.CONNECTIONS.labels(name).set(channel.connections)
        commits, operations = self._engine.journal.counts
        telemetry.COMMITS.inc(commits - self._commits)
        telemetry.COMMITTED.inc(operations - self._operations)
        self._commits, self._operations = commits, operations
        telemetry.ALERTS_OPEN.set(len(self._engine.alerts.open()))
        telemetry.DISK_FREE.set(facts.free_bytes)
        telemetry.JOURNAL_BYTES.set(size_of(self._engine.files.data / FILE) + facts.log_bytes)


def size_of(path: Path) -> int:
    """Return the bytes of a file, 0 where there is none."""
    return path.stat().st_size if path.exists() else 0
