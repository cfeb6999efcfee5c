# SPDX-License-Identifier: Apache-2.0
"""Throughput of micro-batches over executors and network delay, out of a batch's time.

A batch of N records over n executors, ND_max apart, takes

    T = f + c N / n + k ND_max

with f its fixed time, c the time of a record on one executor and k how many round trips it waits for, one after the
other. An operator that has more to do than it can fills its batches, so it sustains N / T records a second with
whatever bounds N. With a cap of N records a batch

    MST = 1 / (c / n + (f + k ND_max) / N),

so delay costs a part that grows with n, where Gesscale's law takes off the same whatever n is. With batches that may
be B seconds long, N is what fits, and

    MST = (n / c) (1 - (f + k ND_max) / B);

f is then a part of c that no throughput shows, and stays 0. Without either bound batches grow until delay is hidden
altogether. docs/background/delay-and-batches.md derives both. With the CPU share s a record takes c / s.

Where the number of tasks m is known, they run in waves over the s slots of the executors. Tasks that are all as long
as each other need V = ceil(m / s), the last of which may leave slots idle; work that could be split at will would need
m / s. The work of real tasks lies between, for the slot that is free first takes the last one: at W, a part theta of
the way from whole waves to an even split, by how much the tasks vary. So m / W slots count. But the slot that takes the
last task waits for the driver as often as it has tasks, which no other slot can do for it, so every whole wave waits
anew:

    V = ceil(m / s)     W = theta m / s + (1 - theta) V     n = m / W (in executors)     k = k0 + k1 V,

with V and W both 1 where s > m.

Calibration is progressive, as of the power law: c from one configuration; from two also k0 where their delays differ,
else f; from three or more, all that the samples tell apart, k1 after these. theta (`evenness`) is the last: it stays at
a half until a number of slots was sampled that does not divide the tasks, and is pulled there weakly afterwards.
"""

from __future__ import annotations

import math
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

_HALF_WAY = 0.5
"""The evenness of work while no sample shows it."""
_PULL = 0.1
"""Of the evenness to there, in the units of relative errors: measurements spread by some 3 %, and what lies anywhere
between 0 and 1 by some 0.3, and this is their ratio. One sample of three executors for four tasks counts sixteen times
as much, where all else is known and nothing waits."""
_LEAST_UNEVENNESS = 0.05
"""Whole waves that take less than this part longer than an even split cannot be told from it by measurement."""
_LEAST_PART = 1e-3
"""Part of a batch that is left for records however long its other parts are, so that a throughput stays positive."""


@dataclass(frozen=True, eq=False)
class BatchTimeModel(CurveModel):
    """The law of micro-batches.

    Attributes
    ----------
    delay_of
        As of `PowerLawModel`.
    cap
        Most records of a batch; None: `batch_seconds` bounds it.
    batch_seconds
        How long a batch may be, where there is no cap.
    tasks
        Of a batch's longest stage; None: as many as there are slots.
    slots
        Tasks that an executor runs side by side.
    """

    name: ClassVar[str] = "batch-time"
    parameter_names: ClassVar[tuple[str, ...]] = (
        "per_record_seconds",
        "fixed_seconds",
        "round_trips",
        "round_trips_per_wave",
        "evenness",
    )
    ends_at_one_size: ClassVar[bool] = False

    delay_of: Callable[[Allocation], float] | None = None
    cap: int | None = None
    batch_seconds: float = 10.0
    tasks: int | None = field(default=None, kw_only=True)
    slots: int = field(default=1, kw_only=True)
    half_life_seconds: float | None = field(default=86_400.0, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.cap is not None and self.cap < 1:
            raise ConfigurationError(f"cap: {self.cap!r} must be a whole number from 1, or None", field="cap")
        if self.tasks is not None and self.tasks < 1:
            raise ConfigurationError(f"tasks: {self.tasks!r} must be a whole number from 1, or None", field="tasks")
        if self.slots < 1:
            raise ConfigurationError(f"slots: {self.slots!r} must be a whole number from 1", field="slots")
        if not 0.0 < self.batch_seconds < math.inf:
            raise ConfigurationError(
                f"batch_seconds: {self.batch_seconds!r} must be a positive time", field="batch_seconds"
            )

    def delay_for(self, allocation: Allocation) -> float:
        """What `delay_of` says."""
        return delay_in_seconds(self.delay_of, allocation)

    def size_count(self, table: SampleTable) -> int:
        """Configurations differ in executors, speed or delay."""
        return table.configurations

    @property
    def calibration_state(self) -> str:
        """Which parameters samples have set, and which keep their defaults."""
        order = ("per_record_seconds", "round_trips", "fixed_seconds", "round_trips_per_wave", "evenness")
        return self.state_of(order if self.tasks is not None else order[:3])

    def whole_waves(self, executors: FloatArray) -> FloatArray:
        """V: how many tasks one slot runs at most; 0 where the number of tasks is not known."""
        if self.tasks is None:
            return np.zeros_like(executors)
        return np.asarray(np.ceil(self._even_waves(executors, self.tasks) - 1e-9), dtype=np.float64)

    def curve(self, values: FloatArray, executors: FloatArray, speed: FloatArray, delay: FloatArray) -> FloatArray:
        """The module's formulas."""
        per_record, fixed, trips, per_wave, evenness = values
        alone = self._busy(executors, evenness) * speed / per_record
        waiting = (trips + per_wave * self.whole_waves(executors)) * delay
        if self.cap is not None:
            return np.asarray(1.0 / (1.0 / alone + (fixed + waiting) / self.cap), dtype=np.float64)
        return np.asarray(alone * np.maximum(1.0 - waiting / self.batch_seconds, _LEAST_PART), dtype=np.float64)

    def log_gradient(
        self, values: FloatArray, executors: FloatArray, speed: FloatArray, delay: FloatArray
    ) -> FloatArray:
        """By the time of a record, the fixed time, both kinds of round trips and the evenness of work."""
        per_record, _, trips, per_wave, evenness = values
        rates, waves = self.curve(values, executors, speed, delay), self.whole_waves(executors)
        busy, by_evenness = self._busy(executors, evenness), self._busy_by_evenness(executors, evenness)
        none = np.zeros_like(rates)
        if self.cap is not None:
            waiting, working = -rates * delay / self.cap, rates * per_record / (busy * speed)
            return np.column_stack(
                (-rates / (busy * speed), -rates / self.cap, waiting, waiting * waves, working * by_evenness)
            )
        left = np.maximum(self.batch_seconds - (trips + per_wave * waves) * delay, _LEAST_PART * self.batch_seconds)
        return np.column_stack((none - 1.0 / per_record, none, -delay / left, -delay * waves / left, by_evenness))

    def _busy(self, executors: FloatArray, evenness: float) -> FloatArray:
        """As many executors as do the same work without ever being idle."""
        if self.tasks is None:
            return executors
        return np.asarray(self.tasks / (self.slots * self._waves(executors, evenness)), dtype=np.float64)

    def _busy_by_evenness(self, executors: FloatArray, evenness: float) -> FloatArray:
        """The slope of its logarithm: how much longer whole waves take than an even split."""
        if self.tasks is None:
            return np.zeros_like(executors)
        longer = self.whole_waves(executors) - self._even_waves(executors, self.tasks)
        return np.asarray(longer / self._waves(executors, evenness), dtype=np.float64)

    def _waves(self, executors: FloatArray, evenness: float) -> FloatArray:
        """W, where the number of tasks is known."""
        assert self.tasks is not None
        even, whole = self._even_waves(executors, self.tasks), self.whole_waves(executors)
        return np.asarray(evenness * even + (1.0 - evenness) * whole, dtype=np.float64)

    def _shows_evenness(self, table: SampleTable, has_fixed: bool) -> bool:
        """Whether samples show it: at sizes that do not divide the tasks, beside what shows the other times of work."""
        uneven = self._busy_by_evenness(table.executors, _HALF_WAY) >= _LEAST_UNEVENNESS
        if not uneven.any() or not np.ptp(table.executors) > 1e-9:
            return False
        times_of_work = np.unique(np.round(self._busy(table.executors, _HALF_WAY) * table.speed, 9))
        return len(times_of_work) > (2 if has_fixed else 1)

    def _even_waves(self, executors: FloatArray, tasks: int) -> FloatArray:
        """As many waves as work would take that could be split at will."""
        return np.asarray(np.maximum(tasks / (executors * self.slots), 1.0), dtype=np.float64)

    def proportional(self, rate_per_executor: float) -> FloatArray:
        """All time is that of records."""
        return np.array([1.0 / rate_per_executor, 0.0, 0.0, 0.0, _HALF_WAY])

    def pulls(self, free: Flags) -> FloatArray:
        """That of the evenness to a half."""
        return np.array([[0.0, 0.0, 0.0, 0.0, _PULL]]) if free[4] else super().pulls(free)

    def calibrated(self, table: SampleTable) -> tuple[FloatArray, Flags]:
        """What the number of configurations allows."""
        several = float(np.ptp(table.executors * table.speed)) > 1e-9
        has_fixed = self.cap is not None and several
        far = table.delay > 1e-9
        has_waves = self.tasks is not None and len(np.unique(self.whole_waves(table.executors[far]))) > 1
        has_evenness = self._shows_evenness(table, has_fixed)
        order = [(2, table.several_delays), (1, has_fixed), (3, has_waves), (4, has_evenness)]
        free = free_parameters(table, 5, order)
        root = np.sqrt(table.weight)
        start = self.proportional(float(np.median(table.rate / table.capacity)))
        # In units of one executor's record, one batch and one trip over the longest delay, so that steps compare.
        bound = self.batch_seconds if self.cap is None else self.cap * start[0] / float(np.max(table.capacity))
        trip = bound / (float(np.max(table.delay)) or 1.0)
        units = np.array([start[0], bound, trip, trip, 1.0])

        def with_free(chosen: FloatArray) -> FloatArray:
            merged = np.array([1.0, 0.0, 0.0, 0.0, _HALF_WAY])
            merged[free] = chosen
            found: FloatArray = merged * units
            return found

        def misses(chosen: FloatArray) -> FloatArray:
            values = with_free(chosen)
            rates = self.curve(values, table.executors, table.speed, table.delay)
            found: FloatArray = root * np.log(rates / table.rate)
            return np.append(found, _PULL * (values[4] - _HALF_WAY)) if free[4] else found

        solved = least_squares(
            misses,
            np.array([0.9, 0.05, 0.05, 0.01, _HALF_WAY])[free],
            bounds=(np.array([1e-6, 0.0, 0.0, 0.0, 0.0])[free], np.array([np.inf, np.inf, np.inf, np.inf, 1.0])[free]),
            loss="soft_l1",
            f_scale=OUTLIER,
            x_scale="jac",
            xtol=1e-12,
            ftol=1e-12,
        )
        values = with_free(solved.x)
        values[1:] = np.where(values[1:] > 1e-9 * units[1:], values[1:], 0.0)
        return values, free
