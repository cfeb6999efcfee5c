# SPDX-License-Identifier: Apache-2.0
"""The catalogue of metrics: each is read out of an observation, and what is not known is None."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest

from penstock.errors import ConfigurationError
from penstock.metrics import METRICS, catalogue, metric_named
from penstock.records import Allocation, ClusterState, LatencySummary, Observation, Quality
from penstock.testing import an_observation

REPORTED = (
    "heap_used",
    "executor_heap_peak",
    "gc_time",
    "task_skew",
    "state_rows",
    "state_memory",
    "host_busy",
    "host_steal",
    "host_runnable",
    "host_memory_available",
    "groups_cpu_used",
    "groups_throttled",
)
"""What agents give on subscription."""
PATH_LATENCY = LatencySummary(100, 1.1, 1.2, 1.3, 1.4, 1.5)
FULL = an_observation(
    path_latency=PATH_LATENCY,
    cluster=ClusterState(None, None, Allocation(3, 0.55)),
    busy_fraction=0.7,
    back_pressure=0.1,
    metrics={name: float(number) for number, name in enumerate(REPORTED)},
)
EMPTY = Observation("operator", 0.0, 15.0, Quality.WARMING_UP, ClusterState())
EXPECTED = {
    "arrival_rate": 1000.0,
    "processed_rate": 1000.0,
    "queue_length": 300,
    "cpu_utilisation": 0.6,
    "cpu_used": 0.6,
    "cpu_throttled": 0.0,
    "busy": 0.7,
    "back_pressure": 0.1,
    "batch_time": 0.2,
    "latency_mean": 0.3,
    "latency_p50": 0.28,
    "latency_p95": 0.5,
    "latency_p99": 0.6,
    "path_latency_mean": 1.1,
    "path_latency_p50": 1.2,
    "path_latency_p95": 1.3,
    "path_latency_p99": 1.4,
    "executors": 3,
    "cpu_share": 0.55,
    **{name: float(number) for number, name in enumerate(REPORTED)},
}


def test_every_metric_is_read_from_an_observation() -> None:
    """Each gives the number of its field, and nothing in the catalogue is left out here."""
    assert {name: metric.read(FULL) for name, metric in METRICS.items()} == EXPECTED


def test_a_metric_that_is_not_known_is_none_and_a_zero_stays_a_zero() -> None:
    """An observation of nothing has no numbers; an idle operator has zeros."""
    assert {metric.read(EMPTY) for metric in METRICS.values()} == {None}
    idle = replace(FULL, arrival_rate_rows_per_second=0.0, backlog_records=0, utilisation=0.0)
    assert [metric_named(name).read(idle) for name in ("arrival_rate", "queue_length", "cpu_utilisation")] == [
        0.0,
        0,
        0.0,
    ]


def test_the_latency_of_a_path_is_not_that_of_its_operator() -> None:
    """The one may be known without the other."""
    only_path = replace(FULL, latency=None)
    assert metric_named("latency_p95").read(only_path) is None
    assert metric_named("path_latency_p95").read(only_path) == 1.3


def test_an_unknown_name_lists_the_known_ones() -> None:
    """Whoever mistypes a metric sees all that there are."""
    with pytest.raises(ConfigurationError, match="unknown metric 'lag'; known: ") as caught:
        metric_named("lag")
    assert caught.value.field == "metric"
    assert all(name in str(caught.value) for name in METRICS)


def test_a_mistyped_name_gets_the_nearest_ones() -> None:
    """Whoever almost has the name sees it, and where all are listed."""
    with pytest.raises(ConfigurationError, match=r"did you mean queue_length\? `penstock metrics` lists them all"):
        metric_named("queue-lenght")
    with pytest.raises(ConfigurationError, match="did you mean cpu_utilisation"):
        metric_named("utilization")


def test_an_older_name_is_accepted() -> None:
    """A metric that was renamed is found by its older name, and the catalogue says so."""
    assert metric_named("utilisation") is METRICS["cpu_utilisation"]
    assert [entry["older_names"] for entry in catalogue() if entry["name"] == "cpu_utilisation"] == [["utilisation"]]


def test_the_catalogue_is_plain_data_in_the_same_order() -> None:
    """Every entry has a unit, a sentence and an origin, and no code."""
    listed = catalogue()
    assert [entry["name"] for entry in listed] == list(METRICS)
    for entry in listed:
        assert set(entry) == {"name", "unit", "meaning", "origin", "older_names"}
        assert all(isinstance(entry[key], str) and entry[key] for key in ("name", "unit", "meaning", "origin"))
        assert entry["meaning"].endswith(".")
    assert metric_named("queue_length").unit == "records"


def test_every_measured_number_of_an_observation_has_a_metric() -> None:
    """A number that the monitor gives and nobody can name would be lost: each changes some metric."""
    counters = {"records_arrived", "records_done", "last_batch_id"}
    about_itself = {"operator", "at", "window_seconds", "quality", "missing", "query_run"}
    for field in fields(Observation):
        if field.name in counters | about_itself:
            continue
        empty = {"cluster": ClusterState(), "metrics": {}}
        nothing: dict[str, Any] = {field.name: empty.get(field.name)}
        gone = replace(FULL, **nothing)
        assert any(metric.read(gone) is None for metric in METRICS.values()), f"no metric reads {field.name}"
