# SPDX-License-Identifier: Apache-2.0
"""The demand of an operator that serves records one by one, learnt from the CPU its executors use.

A query in Spark's real-time mode does not report the time of single records. What is known is how much CPU all of them
used and how many records came: over a window, cores used by records per second are CPU seconds per record. Windows
count by their records, older ones less (a ratio of sums: Cochran, Sampling Techniques, 1977, Ch. 6); the standard
error is that of the windows' scatter about it, so windows must not overlap.

Assumptions, each of which a measurement can refute:

* **A record's time varies like an exponential distribution** (SCV 1). Sums of CPU do not show how single records vary;
  regular expressions over lines of like length vary less, a few huge records among small ones vary more.
* All CPU is the records': what a JVM does without any (polls, garbage, compiling) is counted in. At low rates a record
  therefore looks dearer than it is, and a plan for more records errs on the safe side.
* Records arrive and are served at the same rate over a window. The caller leaves out windows in which a query falls
  behind or catches up.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from penstock.errors import ConfigurationError, NotReadyError
from penstock.markov import PH
from penstock.performance.demand import RecordDemand

_LEAST_WINDOWS = 3
_EARLIER_WINDOWS = 3.0
"""What an earlier run has taught counts as so many windows at most: what is measured now soon counts for more."""
_EARLIER_SPREAD = 0.5
"""Relative error of that: the machine may be twice as fast or half as fast now, and a young JVM takes longer."""
_LEAST_SUM, _MOST_SUM = 1e-30, 1e30
"""Beyond these, sums are of no cluster, and no demand could be computed with them."""
_LEAST_COUNT = 1.001
"""Windows, by their weights: one alone has no scatter."""


@dataclass(frozen=True, slots=True)
class LearntCpuDemand:
    """A demand, and what it rests on: CPU seconds of a record, and how many windows, older ones counting less."""

    demand: RecordDemand
    cpu_seconds: float
    windows: float


@dataclass(frozen=True, slots=True)
class CpuMemory:
    """All that windows have taught: weighted sums over them, older ones counting less.

    Attributes
    ----------
    weights, weights_squared
        Of the windows.
    cores, records
        Weighted sums of cores used and of records a second.
    squares
        Sums, with squared weights, of cores^2, cores x records and records^2: for the scatter about any ratio.
    """

    weights: float
    weights_squared: float
    cores: float
    records: float
    squares: tuple[float, float, float]

    def __post_init__(self) -> None:
        sums = (self.weights, self.weights_squared, self.cores, self.records, *self.squares)
        is_possible = all(_LEAST_SUM < one < _MOST_SUM for one in sums)
        if not is_possible or self.weights**2 < _LEAST_COUNT * self.weights_squared:
            raise ConfigurationError(f"windows: {sums} are sums of none", field="windows")


class CpuDemandLearner:
    """Learns a `RecordDemand` from CPU used and records arrived.

    Parameters
    ----------
    tasks_per_executor
        Tasks that an executor runs at once. One executor is one server of the model: with several tasks it is as much
        faster.
    half_life_windows
        After so many windows a window counts half.

    Examples
    --------
    >>> learner = CpuDemandLearner()
    >>> for cores, records_per_second in ((0.2, 100.0), (0.41, 200.0), (0.3, 150.0)):
    ...     learner.observe(cores, records_per_second)
    >>> learnt = learner.learnt()
    >>> round(learnt.demand.service.mean, 5), round(learnt.demand.spread, 3)
    (0.00202, 0.009)
    """

    def __init__(self, *, tasks_per_executor: float = 1.0, half_life_windows: float = 20.0) -> None:
        for field, value in (("tasks_per_executor", tasks_per_executor), ("half_life_windows", half_life_windows)):
            if not (math.isfinite(value) and value > 0):
                raise ConfigurationError(f"{field}: {value!r} must be above 0", field=field)
        self._tasks = tasks_per_executor
        self._keep = 0.5 ** (1.0 / half_life_windows)
        self._seen = 0
        self._weights = self._weights_squared = 0.0
        self._cores = self._records = 0.0
        self._squares = (0.0, 0.0, 0.0)
        self._earlier_records = 0.0
        """The part of the records that an earlier run has seen."""

    @property
    def memory(self) -> CpuMemory | None:
        """What a later run can begin with; None: that is too little."""
        if self._seen < _LEAST_WINDOWS:
            return None
        try:
            return CpuMemory(self._weights, self._weights_squared, self._cores, self._records, self._squares)
        except ConfigurationError:
            return None  # no CPU was used, or next to none

    def begin_with(self, memory: CpuMemory) -> None:
        """Start with what an earlier run was taught. How fast the machine is now is not known from it."""
        if self._seen:
            return
        less = min(1.0, _EARLIER_WINDOWS / memory.weights)
        self._seen = _LEAST_WINDOWS
        self._weights, self._weights_squared = less * memory.weights, less * less * memory.weights_squared
        self._cores, self._records = less * memory.cores, less * memory.records
        cores, both, records = memory.squares
        self._squares = (less * less * cores, less * less * both, less * less * records)
        self._earlier_records = self._records

    def observe(self, used_cores: float, records_per_second: float) -> None:
        """Learn from one window, which no other one overlaps."""
        for field, value in (("used_cores", used_cores), ("records_per_second", records_per_second)):
            if not (math.isfinite(value) and value >= 0):
                raise ConfigurationError(f"{field}: {value!r} must be finite and not negative", field=field)
        if records_per_second == 0:
            return  # CPU used without records belongs to no record
        keep = self._keep
        self._weights = keep * self._weights + 1.0
        self._weights_squared = keep * keep * self._weights_squared + 1.0
        self._cores = keep * self._cores + used_cores
        self._records = keep * self._records + records_per_second
        self._earlier_records *= keep
        cores, both, records = self._squares
        self._squares = (
            keep * keep * cores + used_cores * used_cores,
            keep * keep * both + used_cores * records_per_second,
            keep * keep * records + records_per_second * records_per_second,
        )
        self._seen += 1

    def learnt(self) -> LearntCpuDemand:
        """Give the demand as it is known now.

        Raises
        ------
        NotReadyError
            Too few windows, with the number needed, or no CPU used in any of them.
        """
        if self._seen < _LEAST_WINDOWS:
            raise NotReadyError(
                f"{self._seen} windows of CPU and arrivals so far; {_LEAST_WINDOWS} are needed",
                needed=_LEAST_WINDOWS,
                available=self._seen,
            )
        ratio = self._cores / self._records
        if ratio <= 0:
            raise NotReadyError("the counters show no CPU use so far")
        cores, both, records = self._squares
        count = self._weights**2 / self._weights_squared
        scatter = max(cores - 2.0 * ratio * both + ratio * ratio * records, 0.0) * count / (count - 1.0)
        earlier = _EARLIER_SPREAD * self._earlier_records / self._records
        spread = math.hypot(math.sqrt(scatter) / self._cores, earlier)
        service = PH.exponential(mean=ratio / self._tasks)
        return LearntCpuDemand(RecordDemand(service, spread=spread), ratio, self._weights)
