# SPDX-License-Identifier: Apache-2.0
"""What a simulated run came to: latency along each path, CPU paid for, and for how long an objective was broken."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from penstock.ports import FloatArray
from penstock.records import Allocation, Decision, LatencySummary, Objective
from penstock.simulator.engine import PathRecords
from penstock.topology import Path, path_text

BoolArray: TypeAlias = npt.NDArray[np.bool_]

_RANKS = {"p50": 0.50, "p95": 0.95, "p99": 0.99}


@dataclass(frozen=True, eq=False, slots=True)
class PathResult:
    """One path: its latency over the run and over time.

    Attributes
    ----------
    latency
        Over all records that came to the path's end; None where none did.
    windows
        The objective's statistic over each window of time; NaN where no record ended in it. Where the objective is to
        keep up: how many records were under way at the window's end.
    is_broken
        Whether the window's statistic is above the bound. A window in which nothing ended is broken when a record
        had by its end waited for longer than the bound. Where the objective is to keep up: whether a record was older
        than the catch-up time.
    violation_time_share
        The part of the run's time that lies in broken windows.
    """

    path: Path
    objective: Objective
    latency: LatencySummary | None
    windows: FloatArray
    is_broken: BoolArray
    violation_time_share: float

    @property
    def is_met(self) -> bool | None:
        """Whether the latency over the whole run meets the objective; to keep up, whether no record got too old."""
        if self.objective.statistic is None:
            return not self.is_broken.any()
        return self.objective.is_met_by(self.latency)


@dataclass(frozen=True, eq=False, slots=True)
class SimulationResult:
    """How a policy did on a trace.

    Attributes
    ----------
    policy, seed
        What was simulated.
    seconds, records
        How long, from the first arrival to the last record's end; and how many arrived.
    paths
        Each path's latency.
    cpu_share
        Of each operator: the CPU share of an executor, averaged over executors and time.
    capacity_seconds, static_capacity_seconds
        Executors times share over time, and the same at the top of the limits throughout.
    violation_time_share
        The part of the time in which the objective of one path or more was broken.
    changes
        The decisions that changed an allocation, oldest first.
    window_seconds
        Length of the windows of `violation_time_share`.
    allocations
        For each operator since when it was asked to have what.
    records_of
        When the records of each path came and ended.
    """

    policy: str
    seed: int
    seconds: float
    records: int
    paths: tuple[PathResult, ...]
    cpu_share: Mapping[str, float]
    cpu_share_mean: float
    capacity_seconds: float
    static_capacity_seconds: float
    violation_time_share: float
    changes: tuple[Decision, ...]
    window_seconds: float
    allocations: Mapping[str, tuple[tuple[float, Allocation], ...]]
    records_of: Mapping[Path, PathRecords]

    def judged_by(self, objective: Objective) -> SimulationResult:
        """The same run, held against another objective: for policies that do not read it, or plan for a stand-in."""
        paths = tuple(
            path_result(path, objective, records, self.seconds, self.window_seconds)
            for path, records in self.records_of.items()
        )
        return replace(self, paths=paths, violation_time_share=broken_share(paths, self.seconds, self.window_seconds))

    @property
    def slowest(self) -> PathResult:
        """The path that is nearest to its bound, or farthest above it."""

        def nearness(path: PathResult) -> float:
            value, bound = path.objective.measured(path.latency), path.objective.seconds
            return -1.0 if value is None or bound is None else value / bound

        return max(self.paths, key=nearness)

    @property
    def latency(self) -> LatencySummary | None:
        """That of the slowest path."""
        return self.slowest.latency

    @property
    def is_met(self) -> bool:
        """Whether every path meets its objective over the whole run."""
        return all(path.is_met is not False for path in self.paths)

    @property
    def cost_against_static(self) -> float:
        """What was paid for as a part of what the top allocation throughout costs."""
        return self.capacity_seconds / self.static_capacity_seconds

    def to_json(self) -> dict[str, Any]:
        """The object that `penstock simulate --json` prints."""
        return {
            "policy": self.policy,
            "latency": _latency(self.latency),
            "paths": {
                path_text(path.path): {
                    **_latency(path.latency),
                    "objective": {"statistic": path.objective.statistic, "seconds": path.objective.seconds},
                    "met": path.is_met,
                    "violation_time_share": path.violation_time_share,
                }
                for path in self.paths
            },
            "cpu_share_mean": self.cpu_share_mean,
            "cpu_share": dict(self.cpu_share),
            "cost_against_static": self.cost_against_static,
            "violation_time_share": self.violation_time_share,
            "met": self.is_met,
            "decisions": len(self.changes),
            "records": self.records,
            "seconds": self.seconds,
            "seed": self.seed,
        }


def _latency(latency: LatencySummary | None) -> dict[str, float | int | None]:
    if latency is None:
        return {"mean": None, "p50": None, "p95": None, "p99": None, "max": None, "records": 0}
    return {
        "mean": latency.mean_seconds, "p50": latency.p50_seconds, "p95": latency.p95_seconds,
        "p99": latency.p99_seconds, "max": latency.max_seconds, "records": latency.records,
    }  # fmt: skip


def path_result(
    path: Path, objective: Objective, records: PathRecords, seconds: float, window_seconds: float
) -> PathResult:
    """Account for a path over a run of `seconds`."""
    ended, arrived = records.ended_at(), records.arrived_at()
    latencies = ended - arrived
    starts = window_starts(seconds, window_seconds)
    if objective.statistic is None or objective.seconds is None:
        windows = _under_way(ended, arrived, starts, seconds)
        _, broken = _windows(ended, arrived, starts, seconds=seconds, statistic="max", bound=objective.catch_up_seconds)
    else:
        windows, broken = _windows(
            ended, arrived, starts, seconds=seconds, statistic=objective.statistic, bound=objective.seconds
        )
    share = time_share(broken, seconds, window_seconds)
    return PathResult(path, objective, summary_of(latencies), windows, broken, share)


def _windows(
    ended: FloatArray, arrived: FloatArray, starts: FloatArray, *, seconds: float, statistic: str, bound: float
) -> tuple[FloatArray, BoolArray]:
    """The statistic in each window, and where it is above the bound."""
    latencies = ended - arrived
    cuts = [0, *np.searchsorted(ended, starts[1:], side="left").tolist(), len(ended)]
    windows = np.full(len(starts), math.nan)
    broken = np.zeros(len(starts), dtype=np.bool_)
    for i, (first, last) in enumerate(pairwise(cuts)):
        if last > first:
            windows[i] = _statistic(latencies[first:last], statistic)
            broken[i] = windows[i] > bound
        elif first < len(ended):
            end = float(starts[i + 1]) if i + 1 < len(starts) else seconds
            # Records end nearly in the order in which they came, so the next to end is among the oldest.
            broken[i] = end - float(arrived[first]) > bound
    return windows, broken


def _under_way(ended: FloatArray, arrived: FloatArray, starts: FloatArray, seconds: float) -> FloatArray:
    """Records under way at the end of each window."""
    edges = np.append(starts[1:], seconds)
    came = np.searchsorted(np.sort(arrived), edges, side="right")
    return (came - np.searchsorted(ended, edges, side="right")).astype(np.float64)


def window_starts(seconds: float, window_seconds: float) -> FloatArray:
    """Where the windows of a run start; the last one may be shorter."""
    return np.multiply(np.arange(max(1, math.ceil(seconds / window_seconds)), dtype=np.float64), window_seconds)


def time_share(broken: BoolArray, seconds: float, window_seconds: float) -> float:
    """The part of a run's time that lies in the windows marked."""
    if seconds <= 0.0:
        return float(broken.any())
    starts = window_starts(seconds, window_seconds)
    lengths = np.diff(np.append(starts, seconds))
    return float(lengths[broken].sum() / seconds)


def broken_share(paths: Sequence[PathResult], seconds: float, window_seconds: float) -> float:
    """The part of a run's time in which the objective of one path or more was broken."""
    return time_share(np.logical_or.reduce([path.is_broken for path in paths]), seconds, window_seconds)


def summary_of(latencies: FloatArray) -> LatencySummary | None:
    """Mean, percentiles (by rank, without interpolation) and maximum; None without records."""
    n = len(latencies)
    if not n:
        return None
    ranks = [max(1, math.ceil(p * n)) - 1 for p in _RANKS.values()]
    ordered = np.partition(latencies, [*ranks, n - 1])
    p50, p95, p99 = (float(ordered[rank]) for rank in ranks)
    return LatencySummary(n, float(latencies.mean()), p50, p95, p99, float(ordered[n - 1]))


def _statistic(latencies: FloatArray, statistic: str) -> float:
    if statistic == "mean":
        return float(latencies.mean())
    if statistic == "max":
        return float(latencies.max())
    rank = max(1, math.ceil(_RANKS[statistic] * len(latencies))) - 1
    return float(np.partition(latencies, rank)[rank])
