"""Prometheus metrics of the service: codes, types, counts and seconds, no patient data."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import datetime
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from engine.interchange.kernel.outcome import Category
from engine.interchange.store.job import unfinished
from engine.interchange.store.notification import waiting
from engine.interchange.store.store import Store
from engine.interchange.store.transaction import milliseconds
from engine.interchange.store.transmission import counts
from engine.interchange.store.writer import StoreAwayError
from engine.interchange.web.http.call import HttpCall

SECONDS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, 30.0)
JOB_SECONDS: Final = (0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0, 120.0, 600.0)
MEDIA_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
Labels = tuple[str, str, str, str]


class _Numbers(Collector):
    """Gauges of the store and the meter, collected at each scrape."""

    def __init__(self, store: Store, meter: "Meter", clock: Callable[[], datetime]) -> None:
        self._store = store
        self._clock = clock
        self._meter = meter

    def collect(self) -> Iterator[Metric]:
        """Return the current values."""
        in_flight = "FHIR requests that are being answered"
        yield GaugeMetricFamily("adt_interchange_in_flight", in_flight, self._meter.in_flight)
        commits, writes = self._store.commits
        yield CounterMetricFamily("adt_interchange_commits", "Commits of the store", commits)
        yield CounterMetricFamily("adt_interchange_writes", "Writes within these commits", writes)
        failed = self._store.failed or self._store.away
        yield GaugeMetricFamily("adt_interchange_store_failed", "1 while the store takes no writes", failed)
        with suppress(StoreAwayError):
            yield from self._kept()

    def _kept(self) -> Iterator[Metric]:
        """Return the numbers from the database, of all its processes."""
        jobs = GaugeMetricFamily(
            "adt_interchange_jobs", "Jobs that have not ended, by kind and state", labels=("kind", "state")
        )
        for kind, state, number in unfinished(self._store.reader()):
            jobs.add_metric((kind, state), number)
        yield jobs
        orders = GaugeMetricFamily(
            "adt_interchange_orders", "Orders on their way to laboratories, by standing", labels=("standing",)
        )
        oldest = GaugeMetricFamily(
            "adt_interchange_orders_oldest_seconds", "How long the oldest of them is there", labels=("standing",)
        )
        at_ms = milliseconds(self._clock())
        for standing, number, since_ms in counts(self._store.reader()):
            orders.add_metric((standing,), number)
            oldest.add_metric((standing,), max(0, at_ms - since_ms) / 1000)
        yield orders
        yield oldest
        number, oldest_ms = waiting(self._store.reader())
        yield GaugeMetricFamily("adt_interchange_webhooks_waiting", "Events waiting to be sent to subscribers", number)
        since = max(0, at_ms - oldest_ms) / 1000 if oldest_ms is not None else 0
        yield GaugeMetricFamily("adt_interchange_webhooks_oldest_seconds", "How long the oldest of them waits", since)


class Meter:
    """Metrics of one service; each service of a process has its own registry."""

    def __init__(self, store: Store, clock: Callable[[], datetime]) -> None:
        self.registry = CollectorRegistry()
        self.in_flight = 0
        self.registry.register(_Numbers(store, self, clock))
        self._requests = Counter(
            "adt_interchange_requests_total",
            "FHIR requests, by interaction, resource type, FHIR version and class of status",
            ("interaction", "type", "version", "status"),
            registry=self.registry,
        )
        self._seconds = Histogram(
            "adt_interchange_request_seconds",
            "Time from the end of a request's head to its answer, by interaction and resource type",
            ("interaction", "type"),
            buckets=SECONDS,
            registry=self.registry,
        )
        self._refusals = Counter(
            "adt_interchange_refusals_total",
            "Requests refused, by category; throttled is the rate limit",
            ("category",),
            registry=self.registry,
        )
        self._tokens = Counter(
            "adt_interchange_tokens_total", "Tokens issued, by grant", ("grant",), registry=self.registry
        )
        self._jobs = Counter(
            "adt_interchange_jobs_ended_total",
            "Jobs that ended, by kind and state: done, failed or cancelled",
            ("kind", "state"),
            registry=self.registry,
        )
        self._job_seconds = Histogram(
            "adt_interchange_job_seconds",
            "Time from taking a job up to its end, by kind",
            ("kind",),
            buckets=JOB_SECONDS,
            registry=self.registry,
        )
        self._transmissions = Counter(
            "adt_interchange_transmissions_total",
            "Times that an order was sent to a laboratory, or could not be, by what came of it",
            ("outcome",),
            registry=self.registry,
        )
        self._webhooks = Counter(
            "adt_interchange_webhooks_total",
            "Times that an event was sent to a subscriber, by what came of it",
            ("outcome",),
            registry=self.registry,
        )
        self._children: dict[Labels, tuple[Counter, Histogram]] = {}

    def count(self, call: HttpCall, version: str, status: int, seconds: float) -> None:
        """Count one answered request; without an interaction under `none`."""
        interaction = call.interaction
        labels = (
            interaction.code if interaction else "none",
            interaction.type if interaction else "",
            version,
            f"{status // 100}xx",
        )
        children = self._children.get(labels)
        if children is None:
            children = self._requests.labels(*labels), self._seconds.labels(*labels[:2])
            self._children[labels] = children
        children[0].inc()
        children[1].observe(seconds)
        if call.refusal is not None:
            self.refused(call.refusal)

    def refused(self, category: Category) -> None:
        """Count a refusal."""
        self._refusals.labels(category.name.lower().replace("_", "-")).inc()

    def job_ended(self, kind: str, state: str, seconds: float) -> None:
        """Count a job that has ended."""
        self._jobs.labels(kind, state).inc()
        self._job_seconds.labels(kind).observe(seconds)

    def transmitted(self, outcome: str) -> None:
        """Count one attempt to send an order."""
        self._transmissions.labels(outcome).inc()

    def notified(self, outcome: str) -> None:
        """Count one attempt to send an event to a subscriber."""
        self._webhooks.labels(outcome).inc()

    def issued(self, grant: str) -> None:
        """Count a token that was issued by a grant."""
        self._tokens.labels(grant).inc()

    def text(self) -> bytes:
        """Return all metrics in the text format of Prometheus."""
        return generate_latest(self.registry)
