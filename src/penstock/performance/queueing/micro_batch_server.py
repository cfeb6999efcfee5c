# SPDX-License-Identifier: Apache-2.0
"""What a micro-batch server is: its batch time, its cap and its trigger."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import gammaincinv

from penstock.errors import ConfigurationError
from penstock.markov.conditions import FloatArray


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
        the cap follow each other: rate * max(fixed + per_record cap, trigger) / cap.
        """
        if self.cap is None:
            return rate * self.per_record
        return rate * max(self.fixed + self.per_record * self.cap, self.trigger or 0.0) / self.cap

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


def batch_time_nodes(server: MicroBatch, sizes: FloatArray, points: int) -> tuple[FloatArray, FloatArray]:
    """Give batch times `[size, q]` and their weights, with the mean and variance of each size's batch time.

    A batch's time is taken as gamma distributed (beyond f if f does not vary); an empty batch takes no time. The
    times are its quantiles at the points of a Gauss-Legendre rule, spread so that the variance is exact.
    """
    mean, variance = server.batch_moments(sizes)
    if not np.any(variance > 0):
        return mean[:, None], np.ones(1)
    x, w = np.polynomial.legendre.leggauss(points)
    x, w = (x + 1) / 2, w / 2
    varied = variance > 0
    floor = np.where(varied & (server.fixed_scv == 0), server.fixed, 0.0)
    part = np.where(varied, mean - floor, 1.0)
    shape = np.where(varied, part**2 / np.where(varied, variance, 1.0), 1.0)
    # The form changes slowly with the shape: it is inverted once for shapes within 2 %, then given the exact spread.
    rounded, index = np.unique(np.round(np.log(shape) * 50) / 50, return_inverse=True)
    form = gammaincinv(np.exp(rounded)[:, None], x[None, :])
    centred = form - (form @ w)[:, None]
    centred /= np.sqrt(centred**2 @ w)[:, None]
    relative = np.maximum(1.0 + centred[index] / np.sqrt(shape)[:, None], 0.0)
    relative /= (relative @ w)[:, None]
    return np.where(varied[:, None], floor[:, None] + part[:, None] * relative, mean[:, None]), w
