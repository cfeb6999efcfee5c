# SPDX-License-Identifier: Apache-2.0
"""The service demand of an operator, learnt from its batches while it runs.

A batch of n records on e executors with a CPU share s takes, but for noise (`demand.BatchDemand`),

    T = f + g (1 / s - 1) + c n / (e s)

with f the fixed time at full share, g the part of it that runs under the share, c the time of a record. The three are
found by least squares, one batch at a time, older batches counting less and less (recursive least squares with
exponential forgetting: Ljung, "System Identification", 2nd ed., Sec. 11.2). Residuals are taken relative to the
batch's time, since long batches vary more. Standard errors are those of White (1980), which need no noise of equal
size, with the weights of the forgetting squared.

A batch far off (a garbage collection, a lost executor) hardly counts: its residual is clipped (Huber 1964), and beyond
some robust standard deviations it does not count at all. If the last batches lean to one side, the demand has changed:
all that was learnt from others is made to count as one batch.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from scipy.special import stdtrit

from penstock.errors import ConfigurationError, NotReadyError
from penstock.markov.conditions import FloatArray
from penstock.performance.demand import BatchDemand, check_allocation
from penstock.records import Allocation

CPU_PART = 0.7
"""Part of the fixed time taken to run under the CPU share until shares have varied: of the 0.3 to 0.5 s that a batch
of Spark costs at any size, about 0.1 s is the driver's."""

_HUBER = 1.5
_FAR = 5.0
_LEAST_SCALE = 0.01
"""A relative residual of this size is never far off: clocks and progress reports are no finer."""
_RECENT = 64
_TYPICAL = 0.1
"""A relative residual that gives a batch the weight one among batches fitted together."""
_WITNESSES, _AGREE, _ASIDE = 10, 9, 1.0
"""The demand has changed if 9 of the last 10 residuals lie on one side, beyond one robust standard deviation: by chance
that is one window in 10^6, and one in 10^4 if every seventh batch is held up by a pause."""
_VARIED = 0.05
"""Least relative standard deviation of the records per unit of capacity that separates f from c."""


class Verdict(StrEnum):
    """What was made of a batch."""

    TAKEN = "taken"
    EMPTY = "no records: such a batch starts no tasks, so it says nothing about batches that do"
    WARM_UP = "one of the first: classes are loaded and code is compiled"
    FAR_OFF = "far off what others took: not counted"
    CHANGED = "the last batches agree with each other and not with those before: taken, and those made light"


@dataclass(frozen=True, slots=True)
class LearntDemand:
    """A demand, and what it rests on.

    Attributes
    ----------
    demand
        f, c, g and their variability, with standard errors.
    fixed_bounds_seconds, per_record_bounds_seconds
        Confidence intervals of f and c; never below 0.
    residual_scv
        Variance of a batch's time about its prediction, over the prediction squared.
    batches
        How many batches it rests on, older ones counting less.
    far_off
        How many were not counted, ever.
    is_cpu_part_learnt
        False: CPU shares have not varied, and the part of f that stretches is assumed.
    """

    demand: BatchDemand
    fixed_bounds_seconds: tuple[float, float]
    per_record_bounds_seconds: tuple[float, float]
    residual_scv: float
    batches: float
    far_off: int
    is_cpu_part_learnt: bool


@dataclass(slots=True)
class _Batch:
    regressors: FloatArray
    seconds: float
    capacity: float


class BatchDemandLearner:
    """Learns a `BatchDemand`.

    Parameters
    ----------
    half_life_batches
        After so many batches a batch counts half.
    least_batches
        Before so many batches nothing is said.
    skip_first
        So many batches after the start, or after `restart`, are not learnt from.
    cap, trigger_seconds
        Trigger interval of the query; passed on to the demand.

    Examples
    --------
    >>> learner = BatchDemandLearner(skip_first=0)
    >>> for rows in (100, 400, 200, 900) * 5:
    ...     _ = learner.observe(rows, 0.3 + 0.001 * rows, Allocation(1, 1.0))
    >>> learnt = learner.learnt()
    >>> round(learnt.demand.fixed_seconds, 6), round(learnt.demand.per_record_seconds, 6)
    (0.3, 0.001)
    """

    def __init__(
        self,
        *,
        half_life_batches: float = 200.0,
        least_batches: int = 12,
        skip_first: int = 3,
        cap: int | None = None,
        trigger_seconds: float | None = None,
    ) -> None:
        if not half_life_batches > 0:
            raise ConfigurationError(
                f"half_life_batches: {half_life_batches!r} must be positive", field="half_life_batches"
            )
        if least_batches < 4:
            raise ConfigurationError(
                f"least_batches: {least_batches} must be at least 4: three unknowns, and one to judge them by",
                field="least_batches",
            )
        self._keep = 0.5 ** (1.0 / half_life_batches)
        self._least, self._skip_first = least_batches, skip_first
        self._cap, self._trigger = cap, trigger_seconds
        self._recent: deque[_Batch] = deque(maxlen=_RECENT)
        self._witnesses: deque[tuple[float, _Batch]] = deque(maxlen=_WITNESSES)
        self._skipped = self._far_off = 0
        self._taken = self._weight = 0.0
        self._rows: tuple[int, int] | None = None
        self._cpu_part, self._is_cpu_part_learnt = CPU_PART, False
        self._clear()

    def restart(self) -> None:
        """Say that the query was started anew: its first batches will not be learnt from."""
        self._skipped = 0

    def observe(self, rows: int, seconds: float, allocation: Allocation) -> Verdict:
        """Learn from one batch: its records, its time, and what the operator had while it ran."""
        check_allocation(allocation)
        if rows < 0:
            raise ConfigurationError(f"rows: {rows} is negative", field="rows")
        if not 0.0 < seconds < math.inf:
            raise ConfigurationError(
                f"seconds: {seconds!r} is not the time of a batch; give a positive number of seconds", field="seconds"
            )
        if rows == 0:
            return Verdict.EMPTY
        if self._skipped < self._skip_first:
            self._skipped += 1
            return Verdict.WARM_UP
        least, most = self._rows or (rows, rows)
        self._rows = min(least, rows), max(most, rows)
        share = allocation.cpu_share
        batch = _Batch(np.array([1.0, 1.0 / share - 1.0, rows / allocation.capacity]), seconds, allocation.capacity)
        if self._taken < self._least:
            self._recent.append(batch)
            self._taken += 1
            if self._taken >= self._least:
                self._begin()
            return Verdict.TAKEN
        return self._go_on(batch)

    @property
    def has_enough_batches(self) -> bool:
        """Whether there are batches enough; if nothing is learnt all the same, they are too much alike."""
        return self._taken >= self._least

    def learnt(self, confidence: float = 0.95) -> LearntDemand:
        """Give the demand as it is known now.

        Raises
        ------
        NotReadyError
            Too few batches, or their records did not vary, or noise hides what a record costs; the message says which.
        """
        if not 0.0 < confidence < 1.0:
            raise ConfigurationError(f"confidence: {confidence!r} is outside (0, 1)", field="confidence")
        if self._taken < self._least:
            raise NotReadyError(
                f"{self._taken:.0f} batches with records so far, beside the first {self._skip_first}, which do not "
                f"count; {self._least} are needed",
                needed=self._least,
                available=int(self._taken),
            )
        spread = self._spread()
        if spread < _VARIED:
            least, most = self._rows or (0, 0)
            raise NotReadyError(
                f"all batches had about the same records ({least} to {most}) under about the same allocation, so the "
                "fixed time and the time of a record cannot be separated; batches of other sizes are needed "
                f"(relative standard deviation {spread:.1%}, needed {_VARIED:.0%}): let the rate vary, or the trigger"
            )
        theta, covariance = self._solution()
        fixed, on_cpu, per_record = (float(value) for value in theta)
        errors = np.sqrt(np.maximum(np.diag(covariance), 0.0))
        if per_record <= 2.0 * errors[2]:
            raise NotReadyError(
                f"batch time does not yet show to grow with the records: {per_record:.3g} s a record, standard error "
                f"{errors[2]:.3g} s; larger or more batches are needed"
            )
        # Records alone explain the time: what is fixed is below what can be seen, and taken as a hundredth of a batch.
        fixed = max(fixed, 0.01 * float(np.mean([batch.seconds for batch in self._recent])))
        correlation = covariance[0, 2] / (errors[0] * errors[2]) if errors[0] > 0 and errors[2] > 0 else 0.0
        fixed_scv, per_record_scv = self._variability()
        quantile = float(stdtrit(max(self._weight - 3.0, 1.0), 0.5 + confidence / 2.0))  # of Student's t
        return LearntDemand(
            demand=BatchDemand(
                fixed_seconds=fixed,
                per_record_seconds=per_record,
                fixed_scv=fixed_scv,
                per_record_scv=per_record_scv,
                fixed_cpu_seconds=min(max(on_cpu, 0.0), fixed),
                fixed_error_seconds=float(errors[0]),
                per_record_error_seconds=float(errors[2]),
                error_correlation=min(max(float(correlation), -1.0), 1.0),
                cap=self._cap,
                trigger_seconds=self._trigger,
            ),
            fixed_bounds_seconds=_around(fixed, quantile * float(errors[0])),
            per_record_bounds_seconds=_around(per_record, quantile * float(errors[2])),
            residual_scv=float(self._noise[2] / self._weight),
            batches=self._weight,
            far_off=self._far_off,
            is_cpu_part_learnt=self._is_cpu_part_learnt,
        )

    def bounded(self) -> LearntDemand | None:
        """Give what batches allow where `learnt` cannot separate f from c; None: there are too few of them.

        Whatever c is, f + c n is the mean time at the mean batch, and neither is negative. So c is between 0 and what
        it would be if nothing were fixed; and not far above the fitted slope, unless that is below 0, which a young
        JVM makes it. The middle of the two is given, with the way to either end as the error: one error to the slow
        side is the longest that batches may take.
        """
        if self._taken < self._least:
            return None
        basis = self._tied()
        information, moments = basis.T @ self._information @ basis, basis.T @ self._moments
        most = float(moments[0] / information[0, 1])
        if self._spread() >= _VARIED:
            theta, covariance = self._solution()
            slope, error = float(theta[2]), math.sqrt(max(float(covariance[2, 2]), 0.0))
            if -error <= slope and slope + 3.0 * error > 0.0:
                most = min(most, slope + 3.0 * error)
        mean_records = float(information[0, 1] / information[0, 0])
        per_record = 0.5 * most
        fixed = float(moments[0] / information[0, 0]) - per_record * mean_records
        fixed_scv, _ = self._variability()
        return LearntDemand(
            demand=BatchDemand(
                fixed_seconds=fixed,
                per_record_seconds=per_record,
                fixed_scv=fixed_scv,
                fixed_cpu_seconds=self._cpu_part * fixed,
                fixed_error_seconds=per_record * mean_records,
                per_record_error_seconds=per_record,
                error_correlation=-1.0,
                cap=self._cap,
                trigger_seconds=self._trigger,
            ),
            fixed_bounds_seconds=(fixed - per_record * mean_records, fixed + per_record * mean_records),
            per_record_bounds_seconds=(0.0, most),
            residual_scv=float(self._noise[2] / self._weight),
            batches=self._weight,
            far_off=self._far_off,
            is_cpu_part_learnt=self._is_cpu_part_learnt,
        )

    # --- how it is kept ----------------------------------------------------------------------------------------

    def _clear(self) -> None:
        self._information = np.zeros((3, 3))  # sum of w x x'
        self._moments = np.zeros(3)  # sum of w x T
        self._scatter = np.zeros((3, 3))  # sum of w^2 r^2 x x', forgotten twice as fast
        self._noise = np.zeros(3)  # sums for the two SCVs, and of relative squared residuals
        self._noise_information = np.zeros((2, 2))
        self._weight = 0.0

    def _kept(self) -> tuple[FloatArray, ...]:
        return self._information, self._moments, self._scatter, self._noise, self._noise_information

    def _begin(self) -> None:
        """Fit the first batches together, so that a bad one among them does no harm; then take them in."""
        self._fit_together(self._recent)
        scale = self._scale()
        for batch in self._recent:  # all against the same fit: one of a few batches would be an unsteady judge
            self._add(batch, scale)
        self._theta = self._solved(self._information, self._moments)

    def _fit_together(self, batches: Collection[_Batch]) -> None:
        """Least absolute relative deviations, by weights of one over the residual; what is known already counts too."""
        x = np.array([batch.regressors for batch in batches])
        seconds = np.array([batch.seconds for batch in batches])
        weights = 1.0 / seconds**2
        for _ in range(50):
            weighted = x * weights[:, None]
            self._theta = self._solved(self._information + weighted.T @ x, self._moments + weighted.T @ seconds)
            residuals = np.abs(seconds - x @ self._theta) / seconds
            weights = _TYPICAL / (seconds**2 * np.maximum(residuals, 0.1 * _LEAST_SCALE))

    def _go_on(self, batch: _Batch) -> Verdict:
        scale = self._scale()
        residual = self._residual(batch)
        self._witnesses.append((residual / scale, batch))
        self._recent.append(batch)
        for side in (1.0, -1.0):
            aside = [seen for off, seen in self._witnesses if side * off > _ASIDE]
            if len(aside) >= _AGREE:
                self._take_as_changed(aside)
                return Verdict.CHANGED
        if abs(residual) > _FAR * scale:
            self._far_off += 1
            return Verdict.FAR_OFF
        self._add(batch, scale)
        self._theta = self._solved(self._information, self._moments)
        return Verdict.TAKEN

    def _take_as_changed(self, batches: list[_Batch]) -> None:
        """Let all from before count as one batch, and begin with those that disagree."""
        light = min(1.0, 1.0 / self._weight)
        self._information, self._moments, self._scatter, self._noise, self._noise_information = (
            light * kept for kept in self._kept()
        )
        self._weight *= light
        self._witnesses.clear()
        self._recent.clear()
        self._recent.extend(batches)
        self._begin()

    def _add(self, batch: _Batch, scale: float) -> None:
        x, predicted = batch.regressors, self._predicted(batch)
        relative = (batch.seconds - predicted) / predicted
        if abs(relative) > _FAR * scale:
            self._far_off += 1
            return
        weight = min(1.0, _HUBER * scale / max(abs(relative), 1e-300)) / predicted**2
        residual = relative * predicted
        self._information = self._keep * self._information + weight * np.outer(x, x)
        self._moments = self._keep * self._moments + weight * x * batch.seconds
        self._scatter = self._keep**2 * self._scatter + (weight * residual) ** 2 * np.outer(x, x)
        self._weight = self._keep * self._weight + 1.0
        fixed, record = self._parts(batch)
        parts = np.array([fixed**2, record]) / predicted**2
        self._noise_information = self._keep * self._noise_information + np.outer(parts, parts)
        self._noise = self._keep * self._noise + relative**2 * np.array([*parts, 1.0])

    def _solution(self) -> tuple[FloatArray, FloatArray]:
        theta = self._solved(self._information, self._moments)
        basis = self._basis(self._information)
        inverse = basis @ np.linalg.pinv(basis.T @ self._information @ basis, hermitian=True) @ basis.T
        # As many residuals as unknowns are zero by fitting: White's estimate with the usual correction.
        freedom = self._weight / max(self._weight - basis.shape[1], 1.0)
        return theta, freedom * inverse @ self._scatter @ inverse

    def _solved(self, information: FloatArray, moments: FloatArray) -> FloatArray:
        """Least squares; with the last known part of f under the share where shares did not vary enough to tell."""
        basis = self._basis(information)
        theta = basis @ (np.linalg.pinv(basis.T @ information @ basis, hermitian=True) @ (basis.T @ moments))
        if basis.shape[1] == 3:
            if 0.0 <= theta[1] <= theta[0]:
                self._cpu_part, self._is_cpu_part_learnt = float(theta[1] / theta[0]), True
                return np.asarray(theta)
            # Outside what is possible, by noise: the nearer end.
            self._cpu_part, self._is_cpu_part_learnt = (0.0 if theta[1] < 0.0 else 1.0), True
            basis = self._tied()
            theta = basis @ (np.linalg.pinv(basis.T @ information @ basis, hermitian=True) @ (basis.T @ moments))
        return np.asarray(theta)

    def _basis(self, information: FloatArray) -> FloatArray:
        total = information[0, 0]
        if total > 0:
            mean = information[0, 1] / total
            if information[1, 1] / total - mean**2 > (_VARIED * (1.0 + mean)) ** 2:
                return np.eye(3)
        return self._tied()

    def _tied(self) -> FloatArray:
        return np.array([[1.0, 0.0], [self._cpu_part, 0.0], [0.0, 1.0]])

    def _spread(self) -> float:
        """Relative standard deviation of n / (e s), with the batches' weights."""
        total, first, second = self._information[0, 0], self._information[0, 2], self._information[2, 2]
        mean = first / total
        return float(math.sqrt(max(second / total - mean**2, 0.0)) / mean)

    def _parts(self, batch: _Batch) -> tuple[float, float]:
        """The fixed time of a batch, and the variance of its records' time if their SCV were 1: n (c / (e s))^2."""
        x, theta = batch.regressors, self._theta
        return float(theta[0] + theta[1] * x[1]), float(theta[2] ** 2 * x[2] / batch.capacity)

    def _predicted(self, batch: _Batch) -> float:
        # Never below a tenth of what was seen: a first fit may go through zero far from its batches.
        return max(float(batch.regressors @ self._theta), 0.1 * batch.seconds)

    def _residual(self, batch: _Batch) -> float:
        predicted = self._predicted(batch)
        return (batch.seconds - predicted) / predicted

    def _scale(self) -> float:
        """Robust standard deviation of the relative residuals of the last batches."""
        residuals = np.abs([self._residual(batch) for batch in self._recent])
        return max(1.4826 * float(np.median(residuals)), _LEAST_SCALE)

    def _variability(self) -> tuple[float, float]:
        """SCVs of the fixed time and of a record's, neither negative, that explain the squared residuals best."""
        (a, b), (_, d) = self._noise_information
        p, q = float(self._noise[0]), float(self._noise[1])
        determinant = a * d - b * b
        if determinant > 1e-9 * a * d:
            fixed, record = (d * p - b * q) / determinant, (a * q - b * p) / determinant
            if fixed >= 0 and record >= 0:
                return float(fixed), float(record)
        # One of them alone: the one that explains more.
        return (p / a, 0.0) if p * p * d >= q * q * a else (0.0, q / d)


def _around(value: float, distance: float) -> tuple[float, float]:
    return max(value - distance, 0.0), value + distance
