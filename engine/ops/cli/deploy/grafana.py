"""`adt-engine deploy grafana`: a dashboard over `/metrics`, from a table of its panels."""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

import typer

from engine import __version__

# Grafana's grid is 24 wide.
GRID: Final = 24
WIDTH: Final = 8
HEIGHT: Final = 8
SCHEMA: Final = 39
SOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}


class Query(NamedTuple):
    """What Prometheus is asked, and how each series is called; `$instance` are the engines that are chosen."""

    expression: str
    legend: str


class Panel(NamedTuple):
    """One panel: its title, the unit of its values as Grafana names it, and its queries."""

    title: str
    unit: str
    queries: tuple[Query, ...]


def _quantiles(metric: str, label: str) -> tuple[Query, ...]:
    """Return p50 and p99 of a histogram, by a label."""
    rates = f'sum by (le, {label}) (rate({metric}_bucket{{instance=~"$instance"}}[$__rate_interval]))'
    return tuple(
        Query(f"histogram_quantile({share}, {rates})", f"{name} {{{{{label}}}}}")
        for name, share in (("p50", 0.5), ("p99", 0.99))
    )


def _rate(metric: str, *labels: str, only: str = "") -> Query:
    """Return how often something is counted in a second, by labels."""
    rates = f'rate({metric}{{instance=~"$instance"{only}}}[$__rate_interval])'
    return Query(f"sum by ({', '.join(labels)}) ({rates})", " ".join(f"{{{{{label}}}}}" for label in labels))


def _most(metric: str, label: str) -> Query:
    """Return a gauge by a label: all nodes of one journal say the same."""
    return Query(f'max by ({label}) ({metric}{{instance=~"$instance"}})', f"{{{{{label}}}}}")


def _each(metric: str) -> Query:
    """Return a gauge of each engine."""
    return Query(f'{metric}{{instance=~"$instance"}}', "{{instance}}")


PANELS: Final[tuple[Panel, ...]] = (
    Panel("Open alerts", "short", (_each("adt_alerts_open"),)),
    Panel("Destinations that get probes only", "bool_yes_no", (_most("adt_breaker_open", "destination"),)),
    Panel("Destinations that are paused", "bool_yes_no", (_most("adt_destination_paused", "destination"),)),
    Panel("Messages, by acknowledgement", "reqps", (_rate("adt_messages_total", "channel", "code"),)),
    Panel("Deliveries, by state", "reqps", (_rate("adt_settled_total", "destination", "state"),)),
    Panel(
        "Why deliveries are held",
        "reqps",
        (_rate("adt_settled_total", "destination", "reason", only=', state="held"'),),
    ),
    Panel("Waiting", "short", (_most("adt_queue_depth", "destination"),)),
    Panel("Age of the oldest that waits", "s", (_most("adt_queue_age_seconds", "destination"),)),
    Panel("Held", "short", (_most("adt_held_lanes", "destination"),)),
    Panel("Acknowledgement time", "s", _quantiles("adt_ack_seconds", "channel")),
    Panel("Delivery time, from receipt", "s", _quantiles("adt_delivery_seconds", "destination")),
    Panel("Requests, by failure", "reqps", (_rate("adt_attempts_total", "destination", "failure"),)),
    Panel("Connections", "short", (_rate("adt_mllp_events_total", "channel", "kind"), _each("adt_connections"))),
    Panel("What mappings could not use", "reqps", (_rate("adt_mapping_warnings_total", "channel", "reason", "field"),)),
    Panel("Codes that no table has", "reqps", (_rate("adt_unmapped_codes_total", "channel", "table", "field"),)),
    Panel("Free disk", "bytes", (_each("adt_disk_free_bytes"),)),
    Panel("Journal", "bytes", (_each("adt_journal_bytes"),)),
    Panel("Log-ins", "reqps", (_rate("adt_log_ins_total", "act", "outcome"),)),
)


def grafana() -> None:
    """Print a Grafana dashboard (JSON) over /metrics; import it and choose the Prometheus that asks the engine.

    Example: adt-engine deploy grafana > adt-engine.json
    """
    typer.echo(json.dumps(dashboard(), indent=1))


def dashboard() -> Mapping[str, Any]:
    """Return the dashboard as Grafana imports it."""
    return {
        "uid": "adt-engine",
        "title": "adt-engine",
        "description": f"adt-engine {__version__}: messages, deliveries, what waits and what is held",
        "schemaVersion": SCHEMA,
        "refresh": "30s",
        "time": {"from": "now-24h", "to": "now"},
        "templating": {"list": list(_variables())},
        "panels": [_panel(place, panel) for place, panel in enumerate(PANELS)],
    }


def _variables() -> Iterator[Mapping[str, Any]]:
    yield {"name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus"}
    yield {
        "name": "instance",
        "label": "Engine",
        "type": "query",
        "datasource": SOURCE,
        "query": "label_values(adt_alerts_open, instance)",
        "refresh": 2,
        "includeAll": True,
        "multi": True,
        "current": {"text": "All", "value": "$__all"},
    }


def _panel(place: int, panel: Panel) -> Mapping[str, Any]:
    across = GRID // WIDTH
    return {
        "id": place + 1,
        "type": "timeseries",
        "title": panel.title,
        "datasource": SOURCE,
        "gridPos": {"x": place % across * WIDTH, "y": place // across * HEIGHT, "w": WIDTH, "h": HEIGHT},
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "targets": [
            {
                "refId": chr(ord("A") + number),
                "datasource": SOURCE,
                "expr": query.expression,
                "legendFormat": query.legend,
            }
            for number, query in enumerate(panel.queries)
        ],
    }
