# SPDX-License-Identifier: Apache-2.0
"""What a micro-batch server is: its batch time, its cap and its trigger."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from penstock.errors import ConfigurationError
from penstock.markov.conditions import FloatArray
from penstock.performance.queueing.micro_batch.batch_times import COARSE, FullCycle, full_cycle, gamma_points


@dataclass(frozen=True)
class MicroBatch:
    """A server that takes all waiting records at once, up to `cap`, and is done with them together.

    A batch of n records takes F + X_1 + ... + X_n seconds: F of mean `fixed`, each X of mean `per_record`, with
    squared coefficients of variation (SCV) `fixed_scv` and `per_record_scv`, all independent.

    Parameters
    ----------
    fixed
        Seconds of a batch that do not depend on its records.
    per_record
        Seconds each record adds.
    cap
        Most records in a batch, oldest first; None: no limit.
    trigger
        Seconds between instants at which a batch may start. A batch that lasts beyond the next such instant is
        followed at once by the next batch. None: the next batch starts as soon as there is a record.
    fixed_scv, per_record_scv
        Variability.

    Examples
    --------
    >>> MicroBatch(fixed=0.3, per_record=0.001).smooth_batch_seconds(500.0)
    0.6
    """

    fixed: float
    per_record: float
    cap: int | None = None
    trigger: float | None = None
    fixed_scv: float = 0.0
    per_record_scv: float = 0.0

    def __post_init__(self) -> None:
        for name in ("fixed", "per_record", "fixed_scv", "per_record_scv"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value >= 0):
                raise ConfigurationError(f"{name}: {value!r} must be a number, 0 or more", field=name)
        if self.fixed + self.per_record <= 0:
            raise ConfigurationError("fixed, per_record: a batch must take some time; make one positive", field="fixed")
        if self.cap is not None and (self.cap < 1 or self.cap != int(self.cap)):
            raise ConfigurationError(f"cap: {self.cap!r} must be a whole number of records, 1 or more", field="cap")
        if self.trigger is not None and not (math.isfinite(self.trigger) and self.trigger > 0):
            raise ConfigurationError(
                f"trigger: {self.trigger!r} must be positive seconds; leave it out to start at once", field="trigger"
            )

    def served(self, waiting: FloatArray) -> FloatArray:
        """Give how many of the waiting records the next batch takes."""
        return waiting if self.cap is None else np.minimum(waiting, float(self.cap))

    def batch_moments(self, sizes: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Give mean and variance of the time of batches of some sizes; nothing to do takes no time."""
        some = sizes > 0
        mean = np.where(some, self.fixed + self.per_record * sizes, 0.0)
        variance = self.fixed_scv * self.fixed**2 + self.per_record_scv * self.per_record**2 * sizes
        return mean, np.where(some, variance, 0.0)

    @property
    def varies(self) -> bool:
        """Whether batches of one size differ in time."""
        return self.fixed_scv * self.fixed > 0 or self.per_record_scv * self.per_record > 0

    def kinks(self) -> tuple[float, ...]:
        """Give the sizes at which what follows a batch changes its form: the cap, and outlasting the trigger."""
        found = [] if self.cap is None else [float(self.cap)]
        if self.trigger is not None and self.per_record > 0:
            size = (self.trigger - self.fixed) / self.per_record
            whole = round(size)
            # A quotient that is whole but for rounding is whole, whatever the unit of time.
            size = float(whole) if abs(size - whole) < 1e-6 * max(whole, 1) else size
            if 0 < size < (self.cap or math.inf):
                found += [float(math.floor(size)), float(math.ceil(size))]
        return tuple(sorted({size for size in found if size >= 1}))

    def utilisation(self, rate: float) -> float:
        """Give the load: records that arrive over records that can be served for ever.

        Without a cap batches grow until the fixed part no longer counts: rate * per_record. With one, batches of
        the cap follow each other: rate * their mean cycle / cap. If batches do not vary that cycle is
        max(fixed + per_record cap, trigger); if they do, those that outlast the trigger make it longer.
        """
        if self.cap is None:
            return rate * self.per_record
        return rate * self.full_cycle().mean / self.cap

    def full_cycle(self) -> FullCycle:
        """Give the time from start to start of full batches that follow each other (with a cap alone)."""
        if self.cap is None:
            raise ConfigurationError("cap: without one no batch is full; give one", field="cap")
        size = np.array([float(self.cap)])
        mean, variance = self.batch_moments(size)
        return full_cycle(float(self.batch_floor(size)[0]), float(mean[0]), float(variance[0]), self.trigger)

    def batch_floor(self, sizes: FloatArray) -> FloatArray:
        """Give the part of a batch's time beyond which a gamma distribution has its first three moments.

        A gamma variable of variance v and third cumulant k has the mean 2 v^2 / k. If one of F and X alone varies
        that leaves just the other one's constant time; if both do it leaves no less than nothing.
        """
        mean, variance = self.batch_moments(sizes)
        fixed, each = self.fixed_scv * self.fixed, self.per_record_scv * self.per_record
        # Of parts of means a_i and scales s_i: v = sum a_i s_i, k = 2 sum a_i s_i^2; scales in units of the larger.
        unit = max(fixed, each)
        if unit == 0:
            return mean
        a, b = self.fixed, self.per_record * sizes
        varied = (a * (fixed / unit) + b * (each / unit)) ** 2
        third = a * (fixed / unit) ** 2 + b * (each / unit) ** 2
        some = (variance > 0) & (third > 0)
        return np.asarray(np.where(some, np.maximum(mean - varied / np.where(some, third, 1.0), 0.0), mean))

    def smooth_batch_seconds(self, rate: float) -> float:
        """Give the batch time that settles when records arrive evenly; infinite if it does not settle.

        Without a trigger b = f + c rate b, so b = f / (1 - rate c) (and no less than f + c: a batch has a record).
        With a trigger interval T a batch holds rate max(b, T) records, so b = f + c rate T as long as that is no
        more than T.
        """
        if self.utilisation(rate) >= 1:
            return math.inf
        if self.trigger is not None and self.fixed + self.per_record * rate * self.trigger <= self.trigger:
            return self.fixed + self.per_record * rate * self.trigger
        return max(self.fixed / (1 - rate * self.per_record), self.fixed + self.per_record)

    def usual_size(self, rate: float) -> float:
        """Give the records of a batch that settles when they arrive evenly, at least 1 and at most the cap."""
        gap = max(self.smooth_batch_seconds(rate), self.trigger or 0.0)
        return min(max(rate * gap, 1.0), math.inf if self.cap is None else float(self.cap))


def batch_time_nodes(
    server: MicroBatch,
    sizes: FloatArray,
    cuts: tuple[float, ...] = COARSE,
    at: float | FloatArray | None = None,
) -> tuple[FloatArray, FloatArray]:
    """Give batch times `[size, q]` and their weights, with the first moments of each size's batch time.

    A batch's time is taken as gamma distributed beyond its floor; an empty batch takes no time. With
    `at` the weights of the times up to it and beyond are exact.
    """
    mean, variance = server.batch_moments(sizes)
    return gamma_points(server.batch_floor(sizes), mean, variance, cuts, at)
