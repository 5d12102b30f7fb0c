"""The printed dashboard: whole, and each metric and label in it is one of ours."""

import json
import re
from itertools import combinations
from typing import Any

import pytest

from engine import telemetry
from tests.interchange.nursery import ran

# What Prometheus adds to each series of a target, and to a histogram's.
ADDED = {"instance", "le"}


@pytest.fixture(scope="module")
def dashboard() -> Any:
    """What the command prints."""
    done = ran("deploy", "grafana")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def samples() -> dict[str, set[str]]:
    """Return the names under which the engine's metrics are asked for, with the labels of each."""
    found = {}
    for name, collector in telemetry.REGISTRY._names_to_collectors.items():
        found[name] = {*collector._labelnames, *ADDED}
    return found


def test_each_metric_of_the_dashboard_exists_with_its_labels(dashboard: Any) -> None:
    """A metric that is renamed would leave an empty panel, at night."""
    known = samples()
    asked = [query for panel in dashboard["panels"] for query in panel["targets"]]
    assert asked
    for query in asked:
        (metric,) = re.findall(r"adt_\w+", query["expr"])
        assert metric in known, metric
        labels = {name for group in re.findall(r"by \(([^)]*)\)", query["expr"]) for name in group.split(", ")}
        labels |= set(re.findall(r"{{(\w+)}}", query["legendFormat"]))
        labels |= set(re.findall(r"(\w+)=", re.sub(r"=~", "=", query["expr"])))
        assert labels <= known[metric], (metric, labels)


def test_what_an_operator_is_woken_for_stands_in_it(dashboard: Any) -> None:
    """Alerts, destinations that take nothing, queues, holds, times and the disk."""
    text = json.dumps(dashboard)
    for metric in (
        *("adt_alerts_open", "adt_breaker_open", "adt_destination_paused", "adt_queue_depth", "adt_queue_age_seconds"),
        *("adt_held_lanes", "adt_ack_seconds_bucket", "adt_delivery_seconds_bucket", "adt_disk_free_bytes"),
    ):
        assert metric in text


def test_no_panel_lies_on_another(dashboard: Any) -> None:
    """Each has an id and a place of its own within the grid."""
    places = [panel["gridPos"] for panel in dashboard["panels"]]
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(places)
    assert all(place["x"] + place["w"] <= 24 for place in places)
    for one, other in combinations(places, 2):
        apart = abs(one["x"] - other["x"]) >= one["w"] or abs(one["y"] - other["y"]) >= one["h"]
        assert apart, (one, other)
