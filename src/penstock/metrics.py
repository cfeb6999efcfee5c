# SPDX-License-Identifier: Apache-2.0
"""The catalogue of metrics: what rules, pages and reports can name, with unit, meaning and origin.

Every metric is read out of an `Observation`. One that is not known is None, never zero.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from penstock.errors import ConfigurationError
from penstock.records import LatencySummary, Observation


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric of an operator.

    Attributes
    ----------
    name, unit
        How it is called and what it is counted in.
    meaning
        One sentence.
    origin
        Where the number comes from.
    read
        Takes it out of an observation; None where it is not known.
    """

    name: str
    unit: str
    meaning: str
    origin: str
    read: Callable[[Observation], float | None]

    @property
    def is_reported(self) -> bool:
        """Whether an agent gives it on subscription; otherwise every look at an operator brings it."""
        return self.origin in (_JVM, _STATE, _TASKS, _HOST, _OWN)


def _latency(statistic: str) -> Callable[[Observation], float | None]:
    return lambda seen: None if seen.latency is None else seen.latency.statistic(statistic)


def _path_latency(statistic: str) -> Callable[[Observation], float | None]:
    def read(seen: Observation) -> float | None:
        followed: LatencySummary | None = seen.path_latency
        return None if followed is None else followed.statistic(statistic)

    return read


def _reported(name: str) -> Callable[[Observation], float | None]:
    return lambda seen: seen.metrics.get(name)


OWN_PREFIX = "own_"
"""Begins the names of metrics of the user's own (`penstock.metric`)."""
_JVM, _STATE, _TASKS = "the driver's JVM", "the query's state store", "the executors' tasks"
_HOST, _OWN = "the agent of a host (`penstock agent`)", "a function of the user's own (`penstock.metric`)"
_BATCHES, _KERNEL, _SOURCE = "batches of the query", "the kernel's CPU counters", "the source's arrivals"

_CHECKPOINT = "the last checkpoint"

_CATALOGUE = (
    Metric("arrival_rate", "records/s", "Records that arrive, over the window.", _SOURCE,
           lambda seen: seen.arrival_rate_rows_per_second),
    Metric("processed_rate", "records/s", "Records that are done, over the window.",
           f"{_BATCHES}; in real-time mode, {_CHECKPOINT}",
           lambda seen: seen.processed_rows_per_second),
    Metric("queue_length", "records", "Records that have arrived and are not done yet.",
           f"{_SOURCE} and {_BATCHES}; in real-time mode, {_CHECKPOINT}",
           lambda seen: seen.backlog_records),
    Metric("cpu_utilisation", "fraction", "CPU used over CPU allowed.", f"{_KERNEL}; without cgroups, time in tasks",
           lambda seen: seen.utilisation),
    Metric("cpu_used", "cores", "CPU that the executors use.", _KERNEL, lambda seen: seen.cpu_used_cores),
    Metric("cpu_throttled", "fraction", "Time in which the CPU share held the executors back.", _KERNEL,
           lambda seen: seen.cpu_throttled_fraction),
    Metric("busy", "fraction", "Time in which a batch ran, whatever the CPU did in it.",
           f"{_BATCHES}; in real-time mode, {_KERNEL} and {_CHECKPOINT}", lambda seen: seen.busy_fraction),
    Metric("back_pressure", "fraction", "Pressure at its input: above 0.5 it lets records wait, now or before long.",
           f"{_SOURCE} and {_BATCHES}", lambda seen: seen.back_pressure),
    Metric("batch_time", "s", "Mean time of a batch, over the window.", _BATCHES, lambda seen: seen.batch_seconds),
    *(
        Metric(f"latency_{name}", "s", f"The {name} of record latency at this operator, over the window.",
               f"{_SOURCE} and {_BATCHES}", _latency(name))
        for name in ("mean", "p50", "p95", "p99")
    ),
    *(
        Metric(f"path_latency_{name}", "s", f"The {name} of latency since the first arrival at the pipeline.",
               "arrivals followed from operator to operator", _path_latency(name))
        for name in ("mean", "p50", "p95", "p99")
    ),
    Metric("executors", "executors", "Executors that are there.", "the driver",
           lambda seen: None if seen.cluster.observed is None else seen.cluster.observed.executors),
    Metric("cpu_share", "fraction", "CPU share of each executor.", "the kernel's CPU quota",
           lambda seen: None if seen.cluster.observed is None else seen.cluster.observed.cpu_share),
    *(
        Metric(name, unit, meaning, origin, _reported(name))
        for name, unit, meaning, origin in (
            ("heap_used", "bytes", "Heap that the driver's JVM uses.", _JVM),
            ("executor_heap_peak", "bytes", "Most heap that an executor has used so far, over all of them.", _TASKS),
            ("gc_time", "fraction", "Part of the time in tasks that went into garbage collection.", _TASKS),
            ("task_skew", "ratio", "Time in tasks of the busiest executor over the mean of all; 1 is even.", _TASKS),
            ("state_rows", "records", "Rows that the query keeps as state.", _STATE),
            ("state_memory", "bytes", "Memory that the query's state takes.", _STATE),
            ("host_busy", "fraction", "CPU of the host that is in use, by whomever.", _HOST),
            ("host_steal", "fraction", "CPU of the host that its hypervisor gave to others.", _HOST),
            ("host_runnable", "threads", "Threads of the host that run or are ready to.", _HOST),
            ("host_memory_available", "bytes", "Memory of the host that programs could still have.", _HOST),
            ("groups_cpu_used", "cores", "CPU that the control groups of Penstock on the host use.", _HOST),
            ("groups_throttled", "fraction", "Time in which their caps held those control groups back.", _HOST),
        )
    ),
)  # fmt: skip


class _Catalogue(dict[str, Metric]):
    """Knows every name that a metric of the user's own may have, besides those that it lists."""

    def __missing__(self, name: str) -> Metric:
        if not name.startswith(OWN_PREFIX):
            raise KeyError(name)
        return Metric(name, "", "A metric of the user's own.", _OWN, _reported(name))


METRICS: Mapping[str, Metric] = _Catalogue({metric.name: metric for metric in _CATALOGUE})
"""Every metric by its name; those of the user's own are found, and not listed."""

OLDER_NAMES: Mapping[str, str] = {"utilisation": "cpu_utilisation"}
"""Names that metrics had before, each with the name of today. They are still accepted."""


def metric_named(name: str) -> Metric:
    """The metric called `name`, or called so before.

    Raises
    ------
    ConfigurationError
        There is none; the message names the nearest ones and says where all are listed.

    Examples
    --------
    >>> metric_named("queue_length").unit
    'records'
    >>> metric_named("utilisation").name
    'cpu_utilisation'
    >>> metric_named("own_sessions").origin
    "a function of the user's own (`penstock.metric`)"
    """
    try:
        return METRICS[OLDER_NAMES.get(name, name)]
    except KeyError:
        near = difflib.get_close_matches(name.lower().replace("-", "_"), [*METRICS, *OLDER_NAMES], n=3)
        names = list(dict.fromkeys(OLDER_NAMES.get(known, known) for known in near))
        hint = f"did you mean {' or '.join(names)}?" if names else f"known: {', '.join(METRICS)};"
        raise ConfigurationError(
            f"metric: unknown metric {name!r}; {hint} `penstock metrics` lists them all", field="metric"
        ) from None


def own_values(seen: Observation) -> dict[str, float | None]:
    """The metrics of the user's own that a look has brought, by their names."""
    return {name: value for name, value in sorted(seen.metrics.items()) if name.startswith(OWN_PREFIX)}


def reported_of(names: Iterable[str]) -> tuple[str, ...]:
    """Those of some metrics that an agent has to be asked for, in order."""
    return tuple(sorted(name for name in names if METRICS[name].is_reported))


def catalogue() -> list[dict[str, Any]]:
    """Every metric as plain data: name, unit, meaning, origin and older names."""
    older: dict[str, list[str]] = {}
    for old, name in OLDER_NAMES.items():
        older.setdefault(name, []).append(old)
    return [
        {"name": m.name, "unit": m.unit, "meaning": m.meaning, "origin": m.origin, "older_names": older.get(m.name, [])}
        for m in _CATALOGUE
    ]
