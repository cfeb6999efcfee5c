# SPDX-License-Identifier: Apache-2.0
"""Throughput of real-time queries over executors and network delay, out of the time of a fetch.

A real-time query sends no tasks out while it works: m tasks, one for each partition, run side by side for the whole of
a long batch. What waits for the network is each task's consumer. It asks its broker for the next records when it has
handed out those it has, and these take k round trips: one for the request, more while TCP finds out how much it may
send at once. So the fetch stands in the place of the batch: a task works c N on the N records of a fetch, and waits

    Z = max(0, k ND_max - o c N)

for the next, where o is the part of a fetch that is handed out after the next one was asked for. The tasks of one
executor share its CPU, and while one waits others use it. That is the machine-repairman model: p customers, one
processor that is shared, a delay that is not. Its throughput depends on the means alone (Baskett, Chandy, Muntz and
Palacios, J. ACM 22(2), 1975), and mean value analysis gives it (Reiser and Lavenberg, J. ACM 27(2), 1980): from q = 0,
for j = 1 ... p

    R = D (1 + q)       X = j / (Z + R)       q = X R.

With D = c and Z counted for each record, X is in records a second, and N drops out: k / N is one parameter.

What the tasks of an executor write goes over one connection, beside their work. It has at most W bytes under way, so
with b bytes of a result no more than W / (b ND_max) records a second leave an executor, whatever its tasks do; b / W is
the third parameter. m tasks over n executors are ceil(m / n) on some and floor(m / n) on the others, and

    MST = sum over the executors of min(X, W / (b ND_max)).

With one task each, MST = n / (c + Z): the whole wait shows. With many tasks each, MST = n / c: it is hidden, until the
sink is the narrowest. With the CPU share s a record takes c / s. docs/background/delay-and-batches.md derives it.

Calibration is progressive, as of the other laws with a delay: c from one configuration, k / N from two that differ in
their delay, b / W from three or more with delays at several sizes. Where samples leave both open, waiting for fetches
explains as much as it can, and the sink the rest.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from scipy.optimize import least_squares

from penstock.errors import ConfigurationError
from penstock.performance.throughput.curve_model import CurveModel, Flags
from penstock.performance.throughput.power_law import OUTLIER, delay_in_seconds, free_parameters
from penstock.performance.throughput.sample_table import SampleTable
from penstock.ports import FloatArray
from penstock.records import Allocation

_STARTS = (0.05, 0.5, 3.0, 12.0)
"""Waits over the longest delay that fits begin with, in records of one executor: where all is hidden, nothing moves."""
_AS_GOOD = 1.02
"""A fit whose cost is at most so many times the least is as good."""


@dataclass(frozen=True, eq=False)
class FetchTimeModel(CurveModel):
    """The law of real-time queries.

    Attributes
    ----------
    delay_of
        As of `PowerLawModel`; to the broker too.
    tasks
        Of the query: the partitions of its topic. None: one for each executor.
    overlap
        The part of a fetch that is handed out after the next was asked for: ``max.poll.records`` over its records.
    """

    name: ClassVar[str] = "fetch-time"
    parameter_names: ClassVar[tuple[str, ...]] = (
        "per_record_seconds",
        "round_trips_per_record",
        "sink_round_trips_per_record",
    )
    ends_at_one_size: ClassVar[bool] = False

    delay_of: Callable[[Allocation], float] | None = None
    tasks: int | None = field(default=None, kw_only=True)
    overlap: float = field(default=0.0, kw_only=True)
    half_life_seconds: float | None = field(default=86_400.0, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.tasks is not None and self.tasks < 1:
            raise ConfigurationError(f"tasks: {self.tasks!r} must be a whole number from 1, or None", field="tasks")
        if not 0.0 <= self.overlap <= 1.0:
            raise ConfigurationError(f"overlap: {self.overlap!r} must be a part, from 0 to 1", field="overlap")

    def delay_for(self, allocation: Allocation) -> float:
        """What `delay_of` says."""
        return delay_in_seconds(self.delay_of, allocation)

    def size_count(self, table: SampleTable) -> int:
        """Configurations differ in executors, speed or delay."""
        return table.configurations

    @property
    def calibration_state(self) -> str:
        """Which parameters samples have set, and which keep their defaults."""
        return self.state_of(self.parameter_names)

    def curve(self, values: FloatArray, executors: FloatArray, speed: FloatArray, delay: FloatArray) -> FloatArray:
        """The module's formulas."""
        return self._rates(values, executors, speed, delay)[0]

    def log_gradient(
        self, values: FloatArray, executors: FloatArray, speed: FloatArray, delay: FloatArray
    ) -> FloatArray:
        """By the time of a record, and the round trips of one at the source and at the sink."""
        rates, by_work, by_wait, by_sink = self._rates(values, executors, speed, delay)
        waits = values[1] * delay > self.overlap * values[0] / speed
        by_record = by_work / speed - np.where(waits, self.overlap / speed, 0.0) * by_wait
        by_trips = np.where(waits, delay, 0.0) * by_wait
        return np.column_stack((by_record, by_trips, by_sink * delay)) / rates[:, None]

    def _rates(
        self, values: FloatArray, executors: FloatArray, speed: FloatArray, delay: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """The throughput, and its slopes by the work, the wait at the source and the wait at the sink of a record."""
        work, sink = values[0] / speed, values[2] * delay
        wait = np.maximum(values[1] * delay - self.overlap * work, 0.0)
        tasks = executors if self.tasks is None else np.full_like(executors, self.tasks)
        fewer = np.floor(tasks / executors + 1e-9)
        with_more = tasks - fewer * executors
        # At most two numbers of tasks: some executors have one more than the others.
        some, others = (_within(_shared(each, work, wait), sink) for each in (fewer + 1.0, fewer))
        rates, by_work, by_wait, by_sink = (
            np.asarray(with_more * more + (executors - with_more) * less, dtype=np.float64)
            for more, less in zip(some, others, strict=True)
        )
        return rates, by_work, by_wait, by_sink

    def proportional(self, rate_per_executor: float) -> FloatArray:
        """All time is that of records."""
        return np.array([1.0 / rate_per_executor, 0.0, 0.0])

    def calibrated(self, table: SampleTable) -> tuple[FloatArray, Flags]:
        """What the number of configurations allows."""
        far = table.delay > 1e-9
        several = bool(np.ptp(table.executors[far]) > 1e-9) if far.any() else False
        free = free_parameters(table, 3, [(1, table.several_delays), (2, several)])
        root = np.sqrt(table.weight)
        record = self.proportional(float(np.median(table.rate / table.capacity)))[0]
        # In units of one executor's record, and of that over the longest delay, so that steps compare.
        trip = record / (float(np.max(table.delay)) or 1.0)
        units = np.array([record, trip, trip])

        def with_free(chosen: FloatArray) -> FloatArray:
            merged = np.array([1.0, 0.0, 0.0])
            merged[free] = chosen
            found: FloatArray = merged * units
            return found

        def misses(chosen: FloatArray) -> FloatArray:
            rates = self.curve(with_free(chosen), table.executors, table.speed, table.delay)
            found: FloatArray = root * np.log(rates / table.rate)
            return found

        def slopes(chosen: FloatArray) -> FloatArray:
            gradient = self.log_gradient(with_free(chosen), table.executors, table.speed, table.delay)
            found: FloatArray = (gradient * units * root[:, None])[:, free]
            return found

        solved = [
            least_squares(
                misses,
                np.array([0.9, wait + self.overlap, sink])[free],
                jac=slopes,
                bounds=(np.array([1e-6, 0.0, 0.0])[free], np.inf),
                loss="soft_l1",
                f_scale=OUTLIER,
                x_scale="jac",
                xtol=1e-12,
                ftol=1e-12,
            )
            for wait in (_STARTS if free[1] else (0.0,))
            for sink in (_STARTS if free[2] else (0.0,))
        ]
        least = min(float(one.cost) for one in solved)
        as_good = [one.x for one in solved if one.cost <= _AS_GOOD * least + 1e-12]
        values = max((with_free(chosen) for chosen in as_good), key=lambda found: float(found[1]))
        values[1:] = np.where(values[1:] > 1e-9 * units[1:], values[1:], 0.0)
        return values, free


def _within(
    rate_and_slopes: tuple[FloatArray, FloatArray, FloatArray], sink: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """What an executor's tasks do, or what its sink lets out where that is less, with the slopes."""
    rate, by_work, by_wait = rate_and_slopes
    most = 1.0 / np.where(sink > 0.0, sink, np.inf)
    is_held = (sink > 0.0) & (most < rate)
    none = np.zeros_like(rate)
    return (
        np.where(is_held, most, rate),
        np.where(is_held, none, by_work),
        np.where(is_held, none, by_wait),
        np.where(is_held, -most * most, none),
    )


def _shared(tasks: FloatArray, work: FloatArray, wait: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Records a second of so many tasks that share a processor, and the slopes of that by their work and their wait."""
    none = np.zeros_like(work)
    rate, by_work, by_wait = none, none, none
    queue, queue_by_work, queue_by_wait = none, none, none
    for number in range(1, int(np.max(tasks, initial=0.0)) + 1):
        there = number <= tasks
        stay = work * (1.0 + queue)
        stay_by_work, stay_by_wait = 1.0 + queue + work * queue_by_work, work * queue_by_wait
        new = number / (wait + stay)
        slope = -new * new / number
        new_by_work, new_by_wait = slope * stay_by_work, slope * (1.0 + stay_by_wait)
        queue = new * stay
        queue_by_work = new_by_work * stay + new * stay_by_work
        queue_by_wait = new_by_wait * stay + new * stay_by_wait
        rate = np.where(there, new, rate)
        by_work, by_wait = np.where(there, new_by_work, by_work), np.where(there, new_by_wait, by_wait)
    return rate, by_work, by_wait
